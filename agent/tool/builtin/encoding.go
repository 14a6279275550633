package builtin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"

	"symbio/agent/llm"
)

// form is the encoding of a text file.
type form int

const (
	// formUTF8 is the zero value, and also the form of a file that begins like UTF-8.
	formUTF8 form = iota
	formUTF16LE
	formUTF16BE
	// formOther is text that is not UTF-8 and has no byte order mark, such as Latin-1. Its bytes
	// are kept as they are.
	formOther
)

func (f form) String() string {
	switch f {
	case formUTF16LE:
		return "UTF-16, little-endian"
	case formUTF16BE:
		return "UTF-16, big-endian"
	case formOther:
		return "not valid UTF-8, perhaps Latin-1"
	}
	return "UTF-8"
}

var (
	// The byte order marks. They must not be written to.
	markUTF8 = []byte("\ufeff")
	markLE   = []byte{0xff, 0xfe}
	markBE   = []byte{0xfe, 0xff}
)

// marked returns the form that a byte order mark at the beginning of a file names; formUTF8 if
// there is none. The mark of UTF-32, little-endian, begins like the mark of UTF-16, so it is checked
// first.
func marked(head []byte) form {
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe, 0, 0}):
		// UTF-32 is not supported. checkText sees the NULs of such a file and calls it binary.
		return formUTF8
	case bytes.HasPrefix(head, markLE):
		return formUTF16LE
	case bytes.HasPrefix(head, markBE):
		return formUTF16BE
	}
	return formUTF8
}

// sniffBytes is how much of a file decides whether it is text, as in git.
const sniffBytes = 8 << 10

// binaryError is returned for a file that is not text.
type binaryError struct {
	// kind is the media type that the first bytes suggest.
	kind string
	// image is true for a format that models can be shown (llm.IsImage).
	image bool
}

func (e *binaryError) Error() string { return "a binary file (" + e.kind + ")" }

// checkText returns a binaryError if the beginning of a file has a NUL and no UTF-16 mark. It looks
// at sniffBytes bytes at most, so a NUL after them does not make a file binary.
func checkText(head []byte) error {
	head = head[:min(len(head), sniffBytes)]
	if marked(head) == formUTF8 && bytes.IndexByte(head, 0) >= 0 {
		return &binaryError{http.DetectContentType(head), llm.IsImage(head)}
	}
	return nil
}

// isUTF8 reports whether a line is valid UTF-8. cut means that the end of the line is missing,
// perhaps in the middle of a character.
func isUTF8(line []byte, cut bool) bool {
	if utf8.Valid(line) || !cut {
		return utf8.Valid(line)
	}
	// Look for the character that the cut may have split: it begins in the last three bytes.
	for n := 1; n < utf8.UTFMax && n <= len(line); n++ {
		if tail := line[len(line)-n:]; utf8.RuneStart(tail[0]) {
			return !utf8.FullRune(tail) && utf8.Valid(line[:len(line)-n])
		}
	}
	return false
}

// decode returns a reader of the file as UTF-8, without its byte order mark. head is the beginning
// of the file, which from still has to deliver. Bytes of formOther come as they are.
func decode(from io.Reader, head []byte) io.Reader {
	switch marked(head) {
	case formUTF16LE, formUTF16BE:
		return unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Reader(from)
	}
	if bytes.HasPrefix(head, markUTF8) {
		// An error is ignored: the next Read returns it again.
		_, _ = io.CopyN(io.Discard, from, int64(len(markUTF8)))
	}
	return from
}

var errUTF16 = errors.New("it begins as UTF-16, but its rest is not")

// toText decodes a whole file into the text that edits work on. toBytes restores the same bytes
// from it; a file for which that is not true is an error. A mark of UTF-8 stays a part of the text;
// the mark of UTF-16 is removed, and toBytes adds it again. It returns a binaryError for a file that is
// not text.
func toText(raw []byte) (string, form, error) {
	if err := checkText(raw); err != nil {
		return "", 0, err
	}
	f := marked(raw)
	if f == formUTF8 {
		if !utf8.Valid(raw) {
			f = formOther
		}
		return string(raw), f, nil
	}
	order := f.order()
	units := make([]uint16, 0, len(raw)/2)
	for i := 2; i+1 < len(raw); i += 2 {
		units = append(units, order.Uint16(raw[i:]))
	}
	text := string(utf16.Decode(units))
	// A file that does not survive the round trip, such as one with unpaired surrogates, would be
	// damaged by any edit.
	if !bytes.Equal(toBytes(text, f), raw) {
		return "", 0, errUTF16
	}
	return text, f, nil
}

// order returns the byte order of a UTF-16 form. Call it for no other form.
func (f form) order() interface {
	binary.ByteOrder
	binary.AppendByteOrder
} {
	if f == formUTF16BE {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// toBytes encodes text as a file of form f, with its byte order mark.
func toBytes(text string, f form) []byte {
	if f == formUTF8 || f == formOther {
		return []byte(text)
	}
	order, mark := f.order(), markLE
	if f == formUTF16BE {
		mark = markBE
	}
	units := utf16.Encode([]rune(text))
	raw := append(make([]byte, 0, 2+2*len(units)), mark...)
	for _, u := range units {
		raw = order.AppendUint16(raw, u)
	}
	return raw
}

// fits returns an error if text cannot be written into a file of form f. Text of models is UTF-8:
// its characters beyond ASCII would be read wrongly in a file in Latin-1.
func (f form) fits(text string) error {
	if f == formOther && strings.IndexFunc(text, func(c rune) bool { return c >= utf8.RuneSelf }) >= 0 {
		return fmt.Errorf("the file is %v, so only ASCII can be put into it; to convert it, write it anew", f)
	}
	return nil
}
