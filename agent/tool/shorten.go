package tool

import (
	"fmt"
	"strings"

	"symbio/security/visible"
)

// Shorten cuts text to about most bytes. It keeps the beginning and the end, and says between them
// how much is missing and how to get it. Invalid UTF-8 becomes U+FFFD, because the text goes into
// JSON.
func Shorten(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	// Two thirds at the beginning: what a text is about stands there, its sums at the end.
	head, tail := visible.Prefix(text, most*2/3), visible.Suffix(text, most/3)
	note := fmt.Sprintf("\n[%d of %d bytes are cut out here. To see them, ask for less at a time: a narrower pattern or path, or offset and limit.]\n", len(text)-len(tail)-len(head), len(text))
	return head + note + tail
}

// Readable returns foreign text, such as web pages and the output of commands, in a form that is
// safe to give to a model and to print: valid UTF-8 without characters that can hide words or
// control a terminal. It removes control characters except line breaks and tabs, and format
// characters such as those that change the direction of writing.
func Readable(text []byte) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' {
			return c
		}
		if visible.Hidden(c) {
			return -1
		}
		return c
	}, strings.ToValidUTF8(string(text), "\uFFFD"))
}
