package tui

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	symbiov1 "symbio/proto/symbio/v1"
)

// The limits of the pictures of a message.
const (
	maxPictures     = 8
	maxPictureBytes = 5 << 20
)

// takePictures returns the pictures whose paths the text has, as terminals paste the paths of dropped
// files: as words, in quotes or with escaped spaces. A path is replaced by the name of the picture.
func (in *input) takePictures(text string) (string, []*symbiov1.Picture) {
	var found []*symbiov1.Picture
	words := regexp.MustCompile(`(?:\\.|'[^']*'|"[^"]*"|[^\s\\'"])+`) // up to spaces that are neither escaped nor in quotes
	for _, word := range words.FindAllString(text, -1) {
		name := strings.TrimPrefix(strings.NewReplacer(`\ `, " ", `'`, "", `"`, "").Replace(word), "file://")
		kinds := []string{".png", ".jpg", ".jpeg", ".gif", ".webp"}
		if !slices.Contains(kinds, strings.ToLower(filepath.Ext(name))) || len(found) == maxPictures {
			continue
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(in.cfg.dir, name)
		}
		if p := readPicture(name); p != nil {
			found = append(found, p)
			text = strings.Replace(text, word, "[picture "+filepath.Base(name)+"]", 1)
		}
	}
	return text, found
}

// readPicture returns the picture in a file; nil if there is none of a kind that models take.
func readPicture(name string) *symbiov1.Picture {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxPictureBytes {
		return nil
	}
	data, err := os.ReadFile(name)
	kind := http.DetectContentType(data)
	if err != nil || !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind) {
		return nil
	}
	return &symbiov1.Picture{Type: kind, Data: data}
}
