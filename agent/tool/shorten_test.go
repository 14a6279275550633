package tool_test

import (
	"testing"

	"symbio/agent/tool"
)

func TestOutputIsWhatATerminalShows(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[31mred\x1b[0m \x1b[1;38;5;9mx\x1b[K\n":                "red x\n",
		"progress 10%\rprogress 100%\ndone\r\n":                     "[earlier states of this line: 1] progress 100%\ndone\n",
		"10%\r\x1b[K20%\r\x1b[2K":                                   "[earlier states of this line: 1] 20%",
		"a\r\r\nb\r":                                                "a\nb",
		"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "[…]alink",
		"\x1bP+q\x1b\\a\x1b(Bb\x1b7c\x1b=d\x1b[?25le":               "[…]abcde",
		"\x1b]not ended\nnext":                                      "[…]\nnext",
		"import os; os.system('x')\r# ok":                           "[earlier states of this line: 1] # ok",
		"x=\"\x1b]8;;\"; rm y; z=\"\x07\"":                          "x=\"[…]\"",
		"\x1b[31":                                                   "31",
		"50\u00a0% [31m] \u009b":                                    "50\u00a0% [31m] ",
	} {
		if got := tool.Printed([]byte(text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := tool.Readable([]byte("one\rtwo\x1b[0m")); got != "onetwo" {
		t.Errorf("text that is no output: %q", got)
	}
}
