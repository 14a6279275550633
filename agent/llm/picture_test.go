package llm_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
)

// pictures are one of each kind, 3 x 2 pixels.
func pictures(t testing.TB) map[string][]byte {
	t.Helper()
	img := image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Black, color.White})
	all := map[string][]byte{}
	for name, encode := range map[string]func(*bytes.Buffer) error{
		"image/png":  func(b *bytes.Buffer) error { return png.Encode(b, img) },
		"image/jpeg": func(b *bytes.Buffer) error { return jpeg.Encode(b, img, nil) },
		"image/gif":  func(b *bytes.Buffer) error { return gif.Encode(b, img, nil) },
	} {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		all[name] = b.Bytes()
	}
	return all
}

// webp begins like one, with a chunk of that kind.
func webp(kind string, body ...byte) []byte {
	data := append([]byte("RIFF\x20\x00\x00\x00WEBP"+kind+"\x0a\x00\x00\x00"), body...)
	return append(data, make([]byte, max(0, 32-len(data)))...)
}

func TestPictureIsWhatItsBytesSay(t *testing.T) {
	for kind, data := range pictures(t) {
		img, err := llm.NewImage(data)
		if err != nil || img.Type != kind || !llm.IsImage(data) {
			t.Errorf("%s: got %s, %v", kind, img.Type, err)
		}
		if got, want := img.String(), fmt.Sprintf("%s, 3 x 2 pixels, %d bytes", kind, len(data)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for name, data := range map[string][]byte{
		"lossy":    webp("VP8 ", 0, 0, 0, 0x9d, 1, 0x2a, 3, 0, 2, 0),
		"lossless": webp("VP8L", 0x2f, 2, 0x40, 0, 0),
		"extended": webp("VP8X", 0, 0, 0, 0, 2, 0, 0, 1, 0, 0),
	} {
		img, err := llm.NewImage(data)
		if w, h, _ := img.Size(); err != nil || img.Type != "image/webp" || w != 3 || h != 2 {
			t.Errorf("WebP, %s: got %s, %d x %d, %v", name, img.Type, w, h, err)
		}
	}
}

func TestInvalidPictureIsRefusedBeforeRequest(t *testing.T) {
	whole := pictures(t)["image/png"]
	wide := bytes.Clone(whole)
	copy(wide[16:], []byte{0, 0, 0x1f, 0x41}) // 8001; its checksum is wrong then
	var big bytes.Buffer
	if err := png.Encode(&big, image.NewGray(image.Rect(0, 0, 8001, 1))); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":          {nil, "without data"},
		"text":             {[]byte("GIF is a kind of picture"), "text/plain"},
		"its first bytes":  {whole[:12], "cannot be read as that"},
		"broken":           {wide, "cannot be read as that"},
		"too wide":         {big.Bytes(), "8001 x 1 pixels; at most 8000"},
		"too large":        {append(bytes.Clone(whole), make([]byte, llm.MaxImage)...), "at most 3840 KiB"},
		"a drawing":        {[]byte(`<?xml version="1.0"?><svg/>`), "text/xml"},
		"a cut WebP":       {webp("VP8 ")[:20], "cannot be read as that"},
		"no kind of WebP":  {webp("VP9 "), "cannot be read as that"},
		"a lossy without":  {webp("VP8 ", 1, 2, 3, 4), "cannot be read as that"},
		"no pixels at all": {webp("VP8 ", 0, 0, 0, 0x9d, 1, 0x2a, 0, 0, 0, 0), "0 x 0 pixels"},
	} {
		if _, err := llm.NewImage(c.data); !errors.Is(err, llm.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// shown is a conversation as a text: a letter for each picture that is shown, . for one that is described.
func shown(messages []llm.Message) string {
	var b strings.Builder
	part := func(text string, images []llm.Image) {
		b.WriteString(strings.Repeat(".", strings.Count(text, "not shown any more")))
		for _, i := range images {
			b.WriteByte(i.Data[0])
		}
	}
	for _, m := range messages {
		part(m.Text, m.Images)
		for _, r := range m.Results {
			part(r.Text, r.Images)
		}
	}
	return b.String()
}

func TestOldestPicturesGiveWay(t *testing.T) {
	conversation := func(n, size int) (messages []llm.Message) {
		for i := range n {
			img := llm.Image{Type: "image/png", Data: bytes.Repeat([]byte{byte('a' + i)}, size)}
			if i%2 == 0 {
				messages = append(messages, llm.Message{Role: llm.User, Text: "u", Images: []llm.Image{img}})
			} else {
				messages = append(messages, llm.Message{Role: llm.Tool, Results: []llm.ToolResult{{Text: "r", Images: []llm.Image{img}}}})
			}
		}
		return messages
	}
	for _, c := range []struct {
		n, of, most, size int
		want              string
	}{
		{0, 1, 4, 100, ""},
		{4, 1, 4, 100, "abcd"},
		{5, 1, 4, 100, "...de"}, // half of them, so that the next ones change nothing before
		{6, 1, 4, 100, "...def"},
		{7, 1, 4, 100, "...defg"},
		{8, 1, 4, 100, "......gh"},
		{4, 10, 9, 40, "abcd"},
		{5, 10, 9, 40, "...de"},
		{3, 30, 9, 40, "..c"}, // one that is more than half stays
		{3, 50, 9, 40, "..."},
		{2, 1, 1, 9, ".b"},
		{2, 1, 0, 9, ".."},
	} {
		messages := conversation(c.n, c.of)
		if got := shown(llm.FitImages(messages, c.most, c.size)); got != c.want {
			t.Errorf("%d of %d bytes, at most %d of %d: got %q, want %q", c.n, c.of, c.most, c.size, got, c.want)
		}
		if d := cmp.Diff(conversation(c.n, c.of), messages); d != "" {
			t.Errorf("the conversation itself was changed (-want +got):\n%s", d)
		}
	}
}

func TestModelWithoutEyesIsToldInWords(t *testing.T) {
	img := llm.Image{Type: "image/png", Data: pictures(t)["image/png"]}
	r := llm.Request{System: "s", Messages: []llm.Message{
		{Role: llm.User, Text: "look", Images: []llm.Image{img}},
		{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1", Text: "a"}, {CallID: "2", Images: []llm.Image{img, img}}}},
	}}
	blind := r.WithoutImages()
	if blind.HasImages() || !r.HasImages() || r.Messages[0].Text != "look" {
		t.Errorf("without images: %+v", blind)
	}
	const want = "[A picture that you are not shown: image/png, 3 x 2 pixels, "
	if got := blind.Messages[0].Text; !strings.HasPrefix(got, "look\n"+want) {
		t.Errorf("got %q", got)
	}
	if got := blind.Messages[1].Results; got[0].Text != "a" || strings.Count(got[1].Text, want) != 2 || got[1].CallID != "2" {
		t.Errorf("got %+v", got)
	}
}

// FuzzNewImage reads any bytes as a picture.
func FuzzNewImage(f *testing.F) {
	for _, data := range pictures(f) {
		f.Add(data)
	}
	f.Add(webp("VP8X", 0, 0, 0, 0, 2, 0, 0, 1, 0, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		img, err := llm.NewImage(data)
		if err == nil && !llm.IsImage(data) {
			t.Fatalf("%s is an image", base64.StdEncoding.EncodeToString(data))
		}
		_ = img.String()
	})
}
