package builtin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// maxShown limits the bytes of a line that are shown: enough for code, and little of a minified
// file.
const maxShown = 500

// content returns the rows with the matching lines. Files were searched before, so only those with
// matches are read again, in order, until there are enough rows: HeadLimit, or about maxText bytes.
// more counts the matches that are not shown. A file that cannot be read now gets a row with the
// reason; the only error is the cause of ctx.
func (s *search) content(ctx context.Context, a grepArgs, show func(string) string) (rows []string, more int, err error) {
	limit := a.HeadLimit
	limit = cmp.Or(limit, contentLimit)
	// size stops the reading of further files; answer then cuts the rows exactly.
	shown, size := int64(0), 0
	b := s.acquire()
	defer s.release(b)
	for _, h := range s.found {
		if len(rows) >= limit || size > maxText {
			break
		}
		name := show(h.name)
		text, err := s.textOf(ctx, h.name, b)
		if err != nil {
			if ctx.Err() != nil {
				return nil, 0, context.Cause(ctx)
			}
			rows = append(rows, fmt.Sprintf("%s: %v", name, reason(err)))
			continue
		}
		// As in grep: the lines of a binary file would be of no use.
		if bytes.IndexByte(text, 0) >= 0 {
			rows = append(rows, name+": a binary file matches")
			shown += h.matches
			continue
		}
		v := view{name: name, a: a, numbers: a.Numbers == nil || *a.Numbers}
		// Lines of different files are different groups.
		if len(rows) > 0 && v.groups() {
			rows = append(rows, "--")
		}
		of, matches := v.rows(text, s.m, limit-len(rows))
		rows = append(rows, of...)
		shown += matches
		for _, r := range of {
			size += len(r)
		}
	}
	// more cannot be negative, though a file that has changed since the count may have more matches
	// now.
	return rows[:min(len(rows), limit)], int(max(s.sum.matches-shown, 0)), nil
}

// textOf reads a file again. It checks the rules again, because a link may have been created
// meanwhile. The text is a part of b and is valid until b is used again.
func (s *search) textOf(ctx context.Context, name string, b *buffer) ([]byte, error) {
	root, err := s.w.root.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, _, err := OpenRegular(root, filepath.Base(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := s.w.followLink(ctx, f, name, name); err != nil {
		return nil, err
	}
	return b.whole(ctx, textReader(f))
}

// view formats the matches of one file.
type view struct {
	// name is the path that is shown in front of each row.
	name string
	a    grepArgs
	// numbers is whether rows have line numbers.
	numbers bool
}

// groups reports whether lines around the matches are shown, too.
func (v view) groups() bool { return max(v.a.After, v.a.Before, v.a.Context) > 0 }

// rows returns at most `most` rows: the matching lines and those around them. matches counts the
// matches among them. A line that is around two matches is shown once, and "--" separates groups of
// lines that do not touch.
func (v view) rows(text []byte, m *matcher, most int) (rows []string, matches int64) {
	lines := bytes.Split(bytes.TrimSuffix(text, newline), newline)
	before, after := max(v.a.Before, v.a.Context), max(v.a.After, v.a.Context)
	marked := v.marked(text, lines, m)
	// next is the first line that is not shown yet.
	next := 0
	for i := range lines {
		if marked[i] == 0 {
			continue
		}
		from := max(i-before, next)
		// There are lines between the last row and this one.
		if v.groups() && next > 0 && from > next {
			rows = append(rows, "--")
		}
		// The end moves on if a line after the match matches itself.
		to := i + after
		for j := from; j <= min(to, len(lines)-1); j++ {
			if len(rows) >= most {
				return rows, matches
			}
			if marked[j] > 0 {
				to = max(to, j+after)
			}
			matches += max(marked[j], 0)
			rows = append(rows, v.row(j, lines[j], marked[j] != 0, m))
			next = j + 1
			marked[j] = 0
		}
	}
	return rows, matches
}

// marked returns for each line how many matches begin in it; -1 for a line into which a match only
// extends.
func (v view) marked(text []byte, lines [][]byte, m *matcher) []int64 {
	marked := make([]int64, len(lines))
	if !m.multiline {
		for i, line := range lines {
			if m.matchLine(line) {
				marked[i] = 1
			}
		}
		return marked
	}
	// Matches are in order, so that the lines are passed only once. line is the present line, and
	// start the offset at which it begins.
	line, start := 0, 0
	for _, at := range m.re.FindAllIndex(text, -1) {
		for line < len(lines)-1 && start+len(lines[line]) < at[0] {
			start += len(lines[line]) + 1
			line++
		}
		marked[line] = max(marked[line], 0) + 1
		for l, s := line, start; l < len(lines)-1 && s+len(lines[l])+1 < at[1]; l++ {
			s += len(lines[l]) + 1
			if marked[l+1] == 0 {
				marked[l+1] = -1
			}
		}
	}
	return marked
}

// row formats one line like grep: a colon marks a matching line, a dash one around it.
func (v view) row(i int, line []byte, match bool, m *matcher) string {
	mark := "-"
	if match {
		mark = ":"
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) > maxShown {
		line = around(line, m)
	}
	text := strings.ToValidUTF8(string(line), "\uFFFD")
	if !v.numbers {
		return v.name + mark + text
	}
	return fmt.Sprintf("%s%s%d%s%s", v.name, mark, i+1, mark, text)
}

// around returns the part of a long line that has its first match, with a note on the length of the
// line. It starts a quarter of maxShown before the match, unless the match is near the beginning.
func around(line []byte, m *matcher) []byte {
	from := 0
	if at := m.re.FindIndex(line); at != nil && at[1] > maxShown {
		from = max(at[0]-maxShown/4, 0)
	}
	to := min(from+maxShown, len(line))
	return fmt.Appendf(nil, "%s[%d of %d bytes of this line]", line[from:to], to-from, len(line))
}
