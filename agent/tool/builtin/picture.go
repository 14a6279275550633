package builtin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"symbio/agent/llm"
	"symbio/agent/tool"
)

// smaller is advice for a picture that is too large. Models do not see more than 1568 pixels on a
// side.
const smaller = "make a smaller copy, for example with `convert IN -resize 1568x1568 OUT` where ImageMagick is, and Read that"

// look returns an open file that is not text as a picture, or an error that says why it cannot be
// shown: no known format, more than llm.MaxImage bytes, or malformed. is is the result of
// checkText. path is what the model wrote; name is the file in the workspace. It records the
// picture as read by the agent, so that a Write that replaces it is checked, too.
func (w *workdir) look(ctx context.Context, name, path string, f io.ReadSeeker, is *binaryError) (tool.Result, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return tool.Result{}, explain(path, err)
	}
	cannot := fmt.Errorf("%s is %w of %d bytes, which cannot be shown", quoted(path), is, size)
	switch {
	case !is.image:
		return tool.Result{}, cannot
	case size > llm.MaxImage:
		return tool.Result{}, fmt.Errorf("%w: of a picture at most %d are; %s", cannot, llm.MaxImage, smaller)
	}
	// The caller has read the beginning.
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return tool.Result{}, explain(path, err)
	}
	// One byte above the limit lets NewImage refuse a file that has grown since Stat.
	data, err := io.ReadAll(io.LimitReader(f, llm.MaxImage+1))
	if err != nil {
		return tool.Result{}, explain(path, err)
	}
	img, err := llm.NewImage(data)
	if err != nil {
		// Advice is added if the size can be read: then the file is a picture, and a smaller copy
		// can help.
		why := strings.TrimPrefix(err.Error(), llm.ErrInvalid.Error()+": ")
		if _, _, unread := img.Size(); unread == nil {
			why += "; " + smaller
		}
		return tool.Result{}, fmt.Errorf("%w: %s", cannot, why)
	}
	if name != "" { // not of an artifact
		noteFile(ctx, w.key(name), sha256.Sum256(data))
	}
	return tool.Result{Text: fmt.Sprintf("%s is a picture: %s.", quoted(path), img), Images: []llm.Image{img}}, nil
}
