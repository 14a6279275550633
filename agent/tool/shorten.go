package tool

import (
	"fmt"
	"strings"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
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

// Orders to a terminal (ECMA-48). A link is one that shows nothing; what other strings say (OSC, DCS, SOS, PM and APC, up to the end
// of the line at most) may be code to the program that reads the file, so that a mark stays in their place.
var (
	linkSequence   = lazyregexp.New(`\x1b\]8;;(?:[a-z]+://[^\s\x07\x1b;"'()<>]*)?(?:\x07|\x1b\\)`)
	stringSequence = lazyregexp.New(`\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?`)
	shortSequence  = lazyregexp.New(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]`) // CSI; two and three bytes
)

// withoutEscapes returns valid UTF-8 without escape sequences.
func withoutEscapes(text []byte) string {
	s := linkSequence().ReplaceAllString(strings.ToValidUTF8(string(text), "\uFFFD"), "")
	return shortSequence().ReplaceAllString(stringSequence().ReplaceAllString(s, "[…]"), "")
}

// Printed returns the output of a command as a terminal shows it: Readable, and of a line that was written again after CR, such
// as progress, only the last state, after the number of the others: to what reads a file, CR may be the end of a line.
func Printed(text []byte) string {
	lines := strings.Split(withoutEscapes(text), "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		if n := strings.Count(line, "\r"); n > 0 {
			line = fmt.Sprintf("[earlier states of this line: %d] %s", n, line[strings.LastIndexByte(line, '\r')+1:])
		}
		lines[i] = line
	}
	return Readable([]byte(strings.Join(lines, "\n")))
}

// Readable returns foreign text, such as web pages and the output of commands, in a form that is
// safe to give to a model and to print: valid UTF-8 without characters that can hide words or
// control a terminal. It removes escape sequences, control characters except line breaks and tabs, and format
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
	}, withoutEscapes(text))
}
