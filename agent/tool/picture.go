package tool

import (
	"fmt"
	"strings"
	"sync"

	"symbio/agent/llm"
)

// Limits for the images of one turn's results. They are half of a request's limit, so that
// the images of the latest turn are always shown, whatever was shown before (llm.FitImages).
const (
	maxTurnImages     = llm.MaxImages / 2
	maxTurnImageBytes = llm.MaxImageBytes / 2
)

// gallery counts the images of one turn. The calls of a turn add to it concurrently.
type gallery struct {
	mu    sync.Mutex
	count int // guarded by mu
	size  int // guarded by mu
}

// addImages returns r with the images that can be shown. Its text says which cannot be, and why.
// The type of an image is determined from its bytes, not from what the tool claims.
func (g *gallery) addImages(r Result) Result {
	if len(r.Images) == 0 {
		return r
	}
	given := r.Images
	r.Images = nil
	var notes []string
	for i, img := range given {
		img, err := llm.NewImage(img.Data)
		if err == nil && !g.reserve(len(img.Data)) {
			err = fmt.Errorf("%d pictures, of %d MiB together, are the most that are shown in one turn; ask for fewer at a time", maxTurnImages, maxTurnImageBytes>>20)
		}
		if err == nil {
			r.Images = append(r.Images, img)
			continue
		}
		why := strings.TrimPrefix(err.Error(), llm.ErrInvalid.Error()+": ")
		if notes = append(notes, fmt.Sprintf("[Picture %d is not shown: %s.]", i+1, why)); len(notes) == maxTurnImages && i+1 < len(given) {
			notes = append(notes, fmt.Sprintf("[Of %d more pictures none is shown.]", len(given)-i-1))
			break
		}
	}
	if r.Text == "" {
		for _, img := range r.Images {
			notes = append(notes, "["+img.String()+"]")
		}
	}
	if len(notes) > 0 {
		r.Text = strings.TrimPrefix(r.Text+"\n"+strings.Join(notes, "\n"), "\n")
	}
	return r
}

// reserve reserves room for an image of size bytes. It returns false if the turn has no room left.
func (g *gallery) reserve(size int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count >= maxTurnImages || g.size+size > maxTurnImageBytes {
		return false
	}
	g.count++
	g.size += size
	return true
}
