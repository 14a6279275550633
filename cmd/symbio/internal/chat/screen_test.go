package chat

import (
	"strings"
	"testing"

	"symbio/cmd/symbio/internal/terminal"
)

func TestScreenNeverMovesCursor(t *testing.T) {
	var b strings.Builder
	s := &screen{w: &b, Columns: func() int { return 20 }}
	s.prose("a sentence that is ")
	s.prose("longer than a row")
	s.lines(styleDim, terminal.Fit("  a line that is cut where the row ends", s.Columns()))
	s.prose("\x1b[2Jmore\n")
	s.finish()
	if got, want := b.String(), "a sentence that is longer than a row\n  a line that is cu\n[2Jmore\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
