package format

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// The limits of a SKILL.md, in bytes.
const (
	// HeadSize is the size of the first read of a file. The front matter of nearly every skill fits.
	HeadSize = 4 << 10
	// MaxHead is the size of the second read: the longest front matter with its delimiters.
	MaxHead = maxFront + HeadSize
	// MaxFile is the largest SKILL.md or resource that is read.
	MaxFile = 1 << 20

	// maxFront limits the front matter without its delimiters.
	maxFront = 64 << 10
)

// firstLine is the file's line on which front matter starts, after the opening delimiter.
const firstLine = 2

// splitFile is a SKILL.md, split into front matter and text.
type splitFile struct {
	// front is the text between the delimiters; it aliases the file.
	front []byte
	// body begins after the line of the closing delimiter.
	body []byte
	// diags are the faults of the delimiters and the encoding.
	diags []Diagnostic
}

// split finds the front matter in data. more means that data is only the beginning of the file;
// need then asks for a longer one. It looks at no more than maxFront bytes, so that a beginning of
// MaxHead bytes and the whole file have the same result.
func split(data []byte, more bool, level Level) (h splitFile, need bool) {
	if d, bad := wideEncoding(data); bad {
		h.diags = append(h.diags, d)
		return h, false
	}
	rest, found := bytes.CutPrefix(data, []byte("\xEF\xBB\xBF"))
	if found {
		h.diags = append(h.diags, Diagnostic{CodeBOM, Note, "", 1, "the file starts with a byte order mark; it is ignored"})
	}
	opener, rest, _ := bytes.Cut(rest, []byte("\n"))
	if !delimiter(opener, false) {
		h.diags = append(h.diags, Diagnostic{CodeNoFrontMatter, Error, "", 1, "the first line must be --- and start the front matter"})
		return h, false
	}
	end, after, indented, ok := closer(rest, more, level != Strict)
	switch {
	case ok && !indented:
	// An indented delimiter is not final: a later line may be at the start.
	case more && len(data) < MaxHead:
		return h, true
	case ok:
		line := firstLine + bytes.Count(rest[:end], []byte("\n"))
		h.diags = append(h.diags, Diagnostic{CodeIndentedCloser, Warning, "", line, "the closing --- is indented; write it at the start of the line"})
	case more || len(rest) > maxFront:
		h.diags = append(h.diags, Diagnostic{CodeFrontTooLarge, Error, "", 1, fmt.Sprintf("no closing --- within %d KiB", maxFront>>10)})
		return h, false
	default:
		h.diags = append(h.diags, Diagnostic{CodeUnterminated, Error, "", 1, "the front matter has no closing ---"})
		return h, false
	}
	h.front, h.body = rest[:end], rest[after:]
	return h, false
}

// SplitFrontMatter returns the front matter of a file, with the opening --- line, so that YAML
// counts the file's lines, and the text behind the closing one. It reads as Strict does. The error
// says which of the two lines is missing.
func SplitFrontMatter(data []byte) (front, body []byte, err error) {
	h, _ := split(data, false, Strict)
	for _, d := range h.diags {
		if d.Severity == Error {
			return nil, nil, errors.New(d.Message)
		}
	}
	return append([]byte("---\n"), h.front...), h.body, nil
}

// closer finds the line that ends the front matter: the first --- at the start of a line, else, if
// allowed, the first indented one. An indented one can be a line inside a block scalar, so it has
// the lower rank.
func closer(rest []byte, more, indentedToo bool) (end, after int, indented, ok bool) {
	for at := 0; at <= maxFront && at < len(rest); {
		next := len(rest)
		if i := bytes.IndexByte(rest[at:], '\n'); i >= 0 {
			next = at + i + 1
		} else if more { // half a line
			break
		}
		line := bytes.TrimSuffix(rest[at:next], []byte("\n"))
		if delimiter(line, false) {
			return at, next, false, true
		}
		if indentedToo && !ok && delimiter(line, true) {
			end, after, indented, ok = at, next, true, true
		}
		at = next
	}
	return end, after, indented, ok
}

// delimiter reports whether line is --- followed only by blanks.
func delimiter(line []byte, indented bool) bool {
	if indented {
		line = bytes.TrimLeft(line, " \t")
	}
	return string(bytes.TrimRight(line, " \t\r")) == "---"
}

// wideEncoding detects UTF-16, which editors on Windows write: by its byte order mark, or by a zero
// byte beside the first hyphen.
func wideEncoding(data []byte) (Diagnostic, bool) {
	for _, p := range []string{"\xFF\xFE", "\xFE\xFF", "-\x00", "\x00-"} {
		if bytes.HasPrefix(data, []byte(p)) {
			return Diagnostic{CodeEncoding, Error, "", 1, "the file is UTF-16; save it as UTF-8"}, true
		}
	}
	return Diagnostic{}, false
}

// checkText returns an error for front matter that is not UTF-8 or has control characters. The YAML
// reader refuses these as well, but does not return the line.
func checkText(front []byte) *Diagnostic {
	line := firstLine
	for i := 0; i < len(front); {
		r, n := utf8.DecodeRune(front[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return &Diagnostic{CodeEncoding, Error, "", line, "the front matter is not valid UTF-8"}
		case r == '\n':
			line++
		case r == '\t', r == '\r', r == 0x85:
		case r < 0x20, r >= 0x7F && r < 0xA0, r == 0xFEFF, r == 0xFFFE, r == 0xFFFF:
			return &Diagnostic{CodeYAML, Error, "", line, fmt.Sprintf("control characters are not allowed (%U)", r)}
		}
		i += n
	}
	return nil
}
