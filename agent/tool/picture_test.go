package tool_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/security/permission"
)

// dot is a picture of one pixel, with so many bytes behind it.
func dot(t testing.TB, more int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), make([]byte, more)...)
}

func TestResultCarriesPicturesThatCanBeShown(t *testing.T) {
	good := dot(t, 0)
	show := func(data ...[]byte) func(context.Context) tool.Result {
		return func(context.Context) tool.Result {
			r := tool.Result{Text: "here"}
			for _, d := range data {
				r.Images = append(r.Images, llm.Image{Type: "image/jpeg", Data: d}) // what a tool calls it counts for nothing
			}
			return r
		}
	}
	many := make([][]byte, 25)
	for i := range many {
		many[i] = good
	}
	for name, c := range map[string]struct {
		run  func(context.Context) tool.Result
		want int
		text string
	}{
		"one":          {show(good), 1, "here"},
		"not one":      {show([]byte("hello"), good), 1, "here\n[Picture 1 is not shown: an image of the type text/plain; charset=utf-8; png, jpeg, gif and webp can be sent.]"},
		"nothing":      {show(nil), 0, "here\n[Picture 1 is not shown: an image without data.]"},
		"one too many": {show(many[:11]...), 10, "here\n[Picture 11 is not shown: 10 pictures, of 6 MiB together, are the most that are shown in one turn; ask for fewer at a time.]"},
		"a flood":      {show(many...), 10, "[Of 5 more pictures none is shown.]"},
		"too heavy":    {show(dot(t, 3<<20), dot(t, 3<<20), good), 2, "[Picture 2 is not shown: 10 pictures, of 6 MiB together"},
		"without text": {func(context.Context) tool.Result {
			return tool.Result{Images: []llm.Image{{Data: good}}}
		}, 1, fmt.Sprintf("[image/png, 1 x 1 pixels, %d bytes]", len(good))},
	} {
		var heard []llm.ToolResult
		set := tool.NewSet(tool.SetConfig{Guard: by{"Look": permission.Allow},
			OnResult: func(r llm.ToolResult, _ tool.FileDiff) { heard = append(heard, r) }}, plain("Look", c.run))
		got := set.Run(t.Context(), calls("Look"))[0]
		if len(got.Images) != c.want || !strings.HasSuffix(got.Text, c.text) && !strings.Contains(got.Text, c.text) || got.IsError {
			t.Errorf("%s: got %d images and %q, want %d and %q", name, len(got.Images), got.Text, c.want, c.text)
		}
		for _, img := range got.Images {
			if img.Type != "image/png" {
				t.Errorf("%s: an image is called %s, and is image/png", name, img.Type)
			}
		}
		if len(heard) != 1 {
			t.Errorf("%s: heard of %d results", name, len(heard))
		}
	}
}

func TestPicturesOfATurnAreBoundedTogether(t *testing.T) {
	good := dot(t, 0)
	look := plain("Look", func(context.Context) tool.Result {
		return tool.Result{Text: "x", Images: []llm.Image{{Data: good}, {Data: good}, {Data: good}}}
	})
	set := tool.NewSet(tool.SetConfig{Guard: by{"Look": permission.Allow}}, look)
	for turn := range 2 {
		shown, told := 0, 0
		for _, r := range set.Run(t.Context(), calls("Look", "Look", "Look", "Look", "Look")) {
			shown += len(r.Images)
			told += strings.Count(r.Text, "is not shown: 10 pictures")
		}
		if shown != 10 || told != 5 {
			t.Errorf("turn %d: %d pictures are shown and %d told of, want 10 and 5", turn, shown, told)
		}
	}
}
