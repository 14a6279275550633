package llm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"iter"
	"slices"
)

// Size returns the width and height of the image in pixels. It reads only the header.
func (i Image) Size() (width, height int, err error) {
	var c image.Config
	switch r := bytes.NewReader(i.Data); i.Type {
	case "image/png":
		c, err = png.DecodeConfig(r)
	case "image/jpeg":
		c, err = jpeg.DecodeConfig(r)
	case "image/gif":
		c, err = gif.DecodeConfig(r)
	case "image/webp":
		return webpSize(i.Data)
	default:
		err = image.ErrFormat
	}
	return c.Width, c.Height, err
}

// String describes the image to people, and to models that are not shown it.
func (i Image) String() string {
	width, height, err := i.Size()
	if err != nil {
		return fmt.Sprintf("%s, %d bytes", i.Type, len(i.Data))
	}
	return fmt.Sprintf("%s, %d x %d pixels, %d bytes", i.Type, width, height, len(i.Data))
}

var errWebP = errors.New("no WebP")

// webpSize reads the first chunk of a WebP (RFC 9649, sections 2.5 to 2.7).
func webpSize(data []byte) (width, height int, err error) {
	if len(data) < 30 || string(data[:4]) != "RIFF" || string(data[8:12]) != "WEBP" {
		return 0, 0, errWebP
	}
	body := data[20:]
	switch string(data[12:16]) {
	case "VP8 ":
		if !bytes.Equal(body[3:6], []byte{0x9d, 0x01, 0x2a}) {
			return 0, 0, errWebP
		}
		return int(binary.LittleEndian.Uint16(body[6:]) & 0x3fff), int(binary.LittleEndian.Uint16(body[8:]) & 0x3fff), nil
	case "VP8L":
		if body[0] != 0x2f {
			return 0, 0, errWebP
		}
		bits := binary.LittleEndian.Uint32(body[1:])
		return int(bits&0x3fff) + 1, int(bits>>14&0x3fff) + 1, nil
	case "VP8X":
		three := func(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
		return three(body[4:]) + 1, three(body[7:]) + 1, nil
	}
	return 0, 0, errWebP
}

// HasImages reports whether a message or a result of the request has images.
func (r Request) HasImages() bool {
	return slices.ContainsFunc(r.Messages, func(m Message) bool {
		return len(m.Images) > 0 || slices.ContainsFunc(m.Results, func(res ToolResult) bool { return len(res.Images) > 0 })
	})
}

// WithoutImages returns r with a description instead of each image, for models without vision. r is
// not changed.
func (r Request) WithoutImages() Request {
	if !r.HasImages() {
		return r
	}
	r.Messages = describe(r.Messages, func(int) bool { return true }, "A picture that you are not shown")
	return r
}

// FitImages returns a conversation with at most most images of at most size bytes together. It
// replaces the oldest ones by descriptions. It replaces more than it must, down to half of the
// limits, so that the beginning of the conversation stays the same for many turns and providers can
// cache it. messages is not changed; it is returned if all images fit.
func FitImages(messages []Message, most, size int) []Message {
	var sizes []int
	for i := range messages {
		eachImage(&messages[i], func(i Image) { sizes = append(sizes, len(i.Data)) })
	}
	from, total := 0, 0 // the first that stays, and what those have that do
	for i, n := range sizes {
		if total += n; i+1-from <= most && total <= size {
			continue
		}
		tooMany := func() bool { return i+1-from > most || total > size }
		half := func() bool { return from == i || i+1-from <= most/2 && total <= size/2 }
		for from <= i && (tooMany() || !half()) {
			total -= sizes[from]
			from++
		}
	}
	if from == 0 {
		return messages
	}
	return describe(messages, func(nth int) bool { return nth < from }, "A picture that is not shown any more, because the request would be too large with it")
}

// eachImage visits the images of a message in the order in which describe numbers them.
func eachImage(m *Message, visit func(Image)) {
	for _, i := range m.Images {
		visit(i)
	}
	for _, r := range m.Results {
		for _, i := range r.Images {
			visit(i)
		}
	}
}

// describe replaces the images for which out returns true by descriptions. nth is an image's number
// in the conversation.
func describe(messages []Message, out func(nth int) bool, why string) []Message {
	nth := 0
	part := func(text string, images []Image) (string, []Image) {
		var stay []Image
		for _, i := range images {
			if nth++; !out(nth - 1) {
				stay = append(stay, i)
				continue
			}
			if text != "" {
				text += "\n"
			}
			text += fmt.Sprintf("[%s: %s.]", why, i)
		}
		return text, stay
	}
	messages = slices.Clone(messages)
	for i := range messages {
		m := &messages[i]
		m.Text, m.Images = part(m.Text, m.Images)
		if slices.ContainsFunc(m.Results, func(r ToolResult) bool { return len(r.Images) > 0 }) {
			m.Results = slices.Clone(m.Results)
			for j := range m.Results {
				r := &m.Results[j]
				r.Text, r.Images = part(r.Text, r.Images)
			}
		}
	}
	return messages
}

// TextOnly returns a model that asks m with descriptions instead of images, for models without vision.
func TextOnly(m Model) Model { return textOnly{m} }

type textOnly struct{ Model }

func (m textOnly) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return m.Model.Stream(ctx, r.WithoutImages())
}
