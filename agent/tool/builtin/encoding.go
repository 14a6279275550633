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

// form is how a file's bytes stand for text.
type form int

const (
	formUTF8 form = iota
	formUTF16LE
	formUTF16BE
	// formOther is what is not UTF-8 and says nothing, as Latin-1. Its bytes are left as they are.
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
	markUTF8 = []byte("\ufeff")
	markLE   = []byte{0xff, 0xfe}
	markBE   = []byte{0xfe, 0xff}
)

// marked is the form that a file's byte order mark tells.
func marked(head []byte) form {
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe, 0, 0}):
		return formUTF8 // UTF-32: binary by its NULs
	case bytes.HasPrefix(head, markLE):
		return formUTF16LE
	case bytes.HasPrefix(head, markBE):
		return formUTF16BE
	}
	return formUTF8
}

// sniffBytes is how much of a file is looked at for whether it is text, as git does.
const sniffBytes = 8 << 10

// binaryError says that a file is not text, and what it is.
type binaryError struct {
	kind  string
	image bool // one of a kind that models can be shown
}

func (e *binaryError) Error() string { return "a binary file (" + e.kind + ")" }

// checkText looks at a file's beginning.
func checkText(head []byte) error {
	head = head[:min(len(head), sniffBytes)]
	if marked(head) == formUTF8 && bytes.IndexByte(head, 0) >= 0 {
		return &binaryError{http.DetectContentType(head), llm.IsImage(head)}
	}
	return nil
}

// isUTF8 says whether a line is, of which the end may have been cut off within a character.
func isUTF8(line []byte, cut bool) bool {
	if utf8.Valid(line) || !cut {
		return utf8.Valid(line)
	}
	for n := 1; n < utf8.UTFMax && n <= len(line); n++ {
		if tail := line[len(line)-n:]; utf8.RuneStart(tail[0]) {
			return !utf8.FullRune(tail) && utf8.Valid(line[:len(line)-n])
		}
	}
	return false
}

// decode reads a file as UTF-8, without its byte order mark. head is how the file begins.
func decode(from io.Reader, head []byte) io.Reader {
	switch marked(head) {
	case formUTF16LE, formUTF16BE:
		return unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Reader(from)
	}
	if bytes.HasPrefix(head, markUTF8) {
		_, _ = io.CopyN(io.Discard, from, int64(len(markUTF8))) // what goes wrong comes again with the text
	}
	return from
}

var errUTF16 = errors.New("it begins as UTF-16 and goes on as something else")

// toText is a whole file as text that edits work on. What it does to the bytes, toBytes takes back.
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
	if !bytes.Equal(toBytes(text, f), raw) {
		return "", 0, errUTF16
	}
	return text, f, nil
}

func (f form) order() interface {
	binary.ByteOrder
	binary.AppendByteOrder
} {
	if f == formUTF16BE {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

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

// fits says whether text may be put into a file of that form.
func (f form) fits(text string) error {
	if f == formOther && strings.IndexFunc(text, func(c rune) bool { return c >= utf8.RuneSelf }) >= 0 {
		return fmt.Errorf("the file is %v, so only ASCII can be put into it; to convert it, write it anew", f)
	}
	return nil
}
