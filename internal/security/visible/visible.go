// Package visible makes text of others fit to be shown to people: what they do not see must not
// mean something, and what they see must not be moved by it.
//
// The one idea: one answer to which characters can be seen. Beside control and format characters
// there are letters and signs that are drawn as nothing, such as U+2800 and U+3164, which
// unicode.IsPrint lets pass.
package visible

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rune reports whether a character can be seen, or is an ordinary space.
func Rune(r rune) bool { return unicode.IsPrint(r) && !Blank(r) }

// Blank reports whether a character is drawn as nothing without being a space, a control or a
// format character. The selectors that make a picture of a character (FE0E, FE0F) are none: people
// type them.
func Blank(r rune) bool {
	return r > 0x7f && r != 0xfe0e && r != 0xfe0f &&
		(r == 0x2800 || r == 0x1d159 || r >= 0xe0000 && r <= 0xe0fff || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector))
}

// JSON returns v as JSON on one line, with <, > and & as they are, since people and models read them.
func JSON(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// Escape returns s with each character that cannot be seen as its Go escape, such as \u202e, so
// that a person who decides by s sees all of it.
func Escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if Rune(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// Hidden reports whether a character is a control or a format character or is drawn as nothing.
// Spaces and line separators (U+2028, U+2029) are not hidden; line breaks and tabs are control
// characters, and are.
func Hidden(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || Blank(r) }

// Prefix returns the longest beginning of s that has at most max bytes and ends between two
// characters. Text that is not UTF-8 is cut at max.
func Prefix[T string | []byte](s T, max int) T {
	if len(s) <= max {
		return s
	}
	for n := max; n >= 0 && n > max-utf8.UTFMax; n-- {
		if utf8.RuneStart(s[n]) {
			return s[:n]
		}
	}
	return s[:max]
}

// Suffix returns the longest end of s that has at most max bytes and begins with a whole character.
func Suffix(s string, max int) string {
	at := len(s) - min(max, len(s))
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return s[at:]
}

// Truncate returns s, or its first max bytes at most and an ellipsis if it is longer. The ellipsis
// takes 3 bytes more.
func Truncate(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return Prefix(s, max) + "…"
}

// TruncateRunes returns s with at most max characters; the last is an ellipsis when s is
// longer.
func TruncateRunes(s string, max int) string {
	n, end := 0, 0
	for at := range s {
		if n++; n == max {
			end = at
		} else if n > max {
			return s[:end] + "…"
		}
	}
	return s
}

// IsPlain reports whether s has only the characters of ASCII that can be seen, as nearly all text of a
// list has: it stays as it is, and takes a column for each byte.
func IsPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// Line returns s on one line: a space for a line break or a tab, ? for what is not UTF-8, and
// nothing for other characters that cannot be seen. Text over max bytes is cut off, with an
// ellipsis; 0 means no limit.
func Line(s string, max int) string {
	if max > 0 {
		s = Truncate(s, max)
	}
	if IsPlain(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !Rune(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
