package builtin_test

import (
	"bytes"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"symbio/agent/llm"
)

func TestReadShowsAPictureByWhatIsInIt(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 30, 20))
	wide := image.NewGray(image.Rect(0, 0, 8001, 1))
	encoded := func(encode func(b *bytes.Buffer) error) string {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	asPNG := encoded(func(b *bytes.Buffer) error { return png.Encode(b, img) })
	asJPEG := encoded(func(b *bytes.Buffer) error { return jpeg.Encode(b, img, nil) })
	asGIF := encoded(func(b *bytes.Buffer) error { return gif.Encode(b, img, nil) })
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a.png": asPNG, "b.txt": asJPEG, "c": asGIF, "text.png": "no picture\n",
		"cut.png": asPNG[:12], "wide.png": encoded(func(b *bytes.Buffer) error { return png.Encode(b, wide) }),
		"big.png": asPNG + strings.Repeat("\x00", llm.MaxImage), "page.svg": "<svg/>\n", "sound.wav": "RIFF\x00\x00\x00\x00WAVEfmt ",
	})
	b := open(t, dir, nil, "")
	for name, want := range map[string]struct{ kind, data string }{"a.png": {"image/png", asPNG}, "b.txt": {"image/jpeg", asJPEG},
		"c": {"image/gif", asGIF}} {
		got := b.call(t, "Read", "file_path", name)
		if text := fmt.Sprintf("%s is a picture: %s, 30 x 20 pixels, %d bytes.", name, want.kind, len(want.data)); got.IsError || got.Text != text {
			t.Errorf("got %q, want %q", got.Text, text)
		}
		if len(got.Images) != 1 || got.Images[0].Type != want.kind || string(got.Images[0].Data) != want.data {
			t.Errorf("%s: it does not show the file", name)
		}
	}
	for name, want := range map[string]string{"text.png": "     1\tno picture\n", "page.svg": "     1\t<svg/>\n"} {
		if got := b.call(t, "Read", "file_path", name); got.Text != want || len(got.Images) > 0 {
			t.Errorf("%s: got %q and %d images", name, got.Text, len(got.Images))
		}
	}
	b.refused(t, "cannot be read as that", "Read", "file_path", "cut.png")
	b.refused(t, "8001 x 1 pixels; at most 8000 a side can be sent; make a smaller copy", "Read", "file_path", "wide.png")
	b.refused(t, "of a picture at most 3932160 are; make a smaller copy", "Read", "file_path", "big.png")
	b.refused(t, "a binary file (audio/wave) of 16 bytes, which cannot be shown.", "Read", "file_path", "sound.wav")
	write(t, dir, map[string]string{"a.png": asPNG + " "})
	b.refused(t, "has changed since you read it", "Write", "file_path", "a.png", "content", "x\n")
}
