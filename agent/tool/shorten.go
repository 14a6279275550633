package tool

import (
	"fmt"
	"regexp"
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

// escapeSequence is a whole order to a terminal (ECMA-48): CSI; OSC, DCS, SOS, PM and APC with their text, up to the end of the
// line at most; two- and three-byte ones.
var escapeSequence = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]`)

// Printed returns the output of a command as a terminal shows it: Readable, and of a line that was written again after CR, such
// as progress, only the last state.
func Printed(text []byte) string {
	lines := strings.Split(escapeSequence.ReplaceAllString(strings.ToValidUTF8(string(text), "\uFFFD"), ""), "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:]
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
	}, escapeSequence.ReplaceAllString(strings.ToValidUTF8(string(text), "\uFFFD"), ""))
}
