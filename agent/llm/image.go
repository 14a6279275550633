package llm

import (
	"fmt"
	"net/http"
	"slices"
)

// Limits of images. They are the limits of the strictest provider, so that a conversation can continue
// with any model.
const (
	// MaxImage is how many bytes an image may have: Anthropic takes 5 MB, written as base64.
	MaxImage = 5 << 20 * 3 / 4
	// MaxImages is how many images a request may have.
	MaxImages = 20
	// MaxImageBytes is how many bytes they may have together: with base64 half of the 32 MB that
	// Anthropic takes as a request.
	MaxImageBytes = 12 << 20
	// maxSide is how many pixels an image may be wide, or high, as Anthropic has it.
	maxSide = 8000
)

// imageTypes are the types that both wires accept.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// Image is a picture in a message.
type Image struct {
	// Type is its media type: image/png, image/jpeg, image/gif or image/webp.
	Type string `json:"type"`
	Data []byte `json:"data"`
}

// NewImage returns the image in a file's bytes and detects its type. The error wraps ErrInvalid and
// says why the image cannot be sent. It is checked here because servers refuse the whole
// conversation for one bad image.
func NewImage(data []byte) (Image, error) {
	img := Image{Type: http.DetectContentType(data), Data: data}
	if err := img.check(); err != nil {
		return img, err
	}
	switch width, height, err := img.Size(); {
	case err != nil:
		return img, fmt.Errorf("%w: an image of the declared type %s cannot be read as that type", ErrInvalid, img.Type)
	case width < 1 || height < 1 || width > maxSide || height > maxSide:
		return img, fmt.Errorf("%w: an image of %d x %d pixels; at most %d a side can be sent", ErrInvalid, width, height, maxSide)
	}
	return img, nil
}

// IsImage reports whether a file with that beginning has an image type that models accept. NewImage
// checks the rest.
func IsImage(head []byte) bool { return slices.Contains(imageTypes, http.DetectContentType(head)) }

// check checks the size and the type. It detects the type from the bytes: servers refuse the
// conversation if they differ.
func (i Image) check() error {
	switch is := http.DetectContentType(i.Data); {
	case len(i.Data) == 0:
		return fmt.Errorf("%w: an image without data", ErrInvalid)
	case len(i.Data) > MaxImage:
		return fmt.Errorf("%w: an image of %d KiB; at most %d KiB can be sent", ErrInvalid, len(i.Data)>>10, MaxImage>>10)
	case !slices.Contains(imageTypes, is):
		return fmt.Errorf("%w: an image of the type %s; png, jpeg, gif and webp can be sent", ErrInvalid, is)
	case is != i.Type:
		return fmt.Errorf("%w: an image declared as %s has the type %s", ErrInvalid, i.Type, is)
	}
	return nil
}

// checkImages returns an error that wraps ErrInvalid if an image of the request cannot be sent.
func (r Request) checkImages() error {
	n, size := 0, 0
	check := func(images []Image) error {
		if n += len(images); n > MaxImages {
			return fmt.Errorf("%w: more than %d images in one conversation", ErrInvalid, MaxImages)
		}
		for _, i := range images {
			if err := i.check(); err != nil {
				return err
			}
			if size += len(i.Data); size > MaxImageBytes {
				return fmt.Errorf("%w: images of more than %d MiB in one conversation", ErrInvalid, MaxImageBytes>>20)
			}
		}
		return nil
	}
	for _, m := range r.Messages {
		if err := check(m.Images); err != nil {
			return err
		}
		for _, res := range m.Results {
			if err := check(res.Images); err != nil {
				return err
			}
		}
	}
	return nil
}
