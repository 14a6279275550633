package builtin

import (
	"context"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"symbio/agent/tool"
	"symbio/internal/security/visible"
)

const (
	// maxDiffed and maxDiffedLines are the length up to which the old and the new content of a file are
	// compared, in bytes and in lines. They bound the time to a few tenths of a second: the comparison
	// itself gives up after a hundred differences, and then shows the rest as one.
	maxDiffed      = 1 << 20
	maxDiffedLines = 50_000
	// maxDiff is the longest diff in bytes, without the note about what is missing. It is more than a
	// person reads, and 64 KiB is what an event should have at most.
	maxDiff = 64<<10 - 128
)

// diff returns the change that replacing a file by content makes, for people. It reads the file if
// that was not done. There is no Diff of a file that the agent may not read, because the events are
// kept and shown where the file is not, and none of a file that is no text or too long.
func diff(ctx context.Context, w *workdir, path string, d *operation, content []byte) tool.FileDiff {
	change := tool.FileDiff{File: w.shower(ctx)(d.name)}
	if len(content) > maxDiffed || d.before != nil && d.before.Size() > maxDiffed || !tool.MayRead(ctx, path) || !tool.MayRead(ctx, w.key(d.name)) {
		return change
	}
	from := change.File
	switch {
	case d.before == nil:
		from = "/dev/null"
	case d.old == nil && w.load(ctx, path, d) != nil:
		return change
	}
	change.Diff = Unified(from, change.File, d.old, content)
	return change
}

// Unified returns the change from one content of a file to another as a unified diff, for people. It is "" if one is no text or
// too long to compare, and cut off if it is longer than a person reads. from and to are the names in its head.
func Unified(from, to string, old, content []byte) string {
	before, _, errBefore := toText(old)
	after, _, errAfter := toText(content)
	if errBefore != nil || errAfter != nil || max(len(old), len(content)) > maxDiffed || max(strings.Count(before, "\n"), strings.Count(after, "\n")) > maxDiffedLines {
		return ""
	}
	return unified(from, to, strings.ToValidUTF8(before, "\uFFFD"), strings.ToValidUTF8(after, "\uFFFD"))
}

// unified returns a unified diff with at most maxDiff bytes of whole lines, and a note if it is longer.
func unified(from, to, before, after string) string {
	text, err := udiff.ToUnified(from, to, before, udiff.Lines(before, after), udiff.DefaultContextLines)
	if err != nil || len(text) <= maxDiff {
		return text // the error cannot happen, and then there is no text
	}
	part := visible.Prefix(text, maxDiff)
	part = part[:strings.LastIndexByte(part, '\n')+1]
	return part + fmt.Sprintf("\\ %d more bytes of the difference are left out\n", len(text)-len(part))
}
