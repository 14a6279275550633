package tui

import "strings"

// stream splits an answer that comes in pieces into blocks of Markdown: paragraphs, lists, tables, code.
// A block is complete when no later text can change how it looks, and is rendered once.
type stream struct {
	// block are the complete lines of the unfinished block, partial is the line behind them.
	block   strings.Builder
	partial strings.Builder
	// fence is what closes the code block that block is in; "" outside of one.
	fence string
	// list is true in a list, which blank lines do not end. blank is true behind a blank line in it.
	list, blank bool
}

// maxBlock bounds a block. A longer one is cut: what follows is a block of the same code.
const maxBlock = 64 << 10

// add adds a piece of text and returns the blocks that it completes.
func (s *stream) add(text string) (done []string) {
	for {
		line, rest, ended := strings.Cut(text, "\n")
		s.partial.WriteString(line)
		if !ended {
			return done
		}
		line = s.partial.String()
		s.partial.Reset()
		done = append(done, s.line(line)...)
		text = rest
	}
}

// line adds a complete line.
func (s *stream) line(line string) (done []string) {
	emit := func() {
		if text := s.take(); text != "" {
			done = append(done, text)
		}
	}
	trimmed := strings.TrimSpace(line)
	indented := line != strings.TrimLeft(line, " \t")
	marker := isListMarker(trimmed)
	opening := fenceOf(trimmed)
	switch {
	case s.fence != "":
		s.keep(line)
		if strings.HasPrefix(trimmed, s.fence) && strings.Trim(trimmed, s.fence[:1]) == "" {
			if s.fence = ""; !s.list {
				emit()
			}
		}
	case trimmed == "" && s.list:
		s.blank = true
		s.keep(line)
	case trimmed == "":
		emit()
	default:
		if s.list && s.blank && !indented && !marker || opening != "" && !indented && !s.list {
			emit()
		}
		if s.block.Len() == 0 {
			s.list = marker
		}
		s.blank = false
		s.fence = opening
		s.keep(line)
	}
	if s.block.Len() > maxBlock {
		fence := s.fence
		emit()
		if s.fence = fence; fence != "" {
			s.keep(fence)
		}
	}
	return done
}

func (s *stream) keep(line string) { s.block.WriteString(line + "\n") }

// take returns the block and begins a new one.
func (s *stream) take() string {
	text := s.block.String()
	s.block.Reset()
	s.fence, s.list, s.blank = "", false, false
	return strings.Trim(text, "\n")
}

// flush returns the rest of the answer, which has ended.
func (s *stream) flush() string {
	s.block.WriteString(s.partial.String())
	s.partial.Reset()
	return s.take()
}

// live returns the last rows of the unfinished block as they came, at most limit. It looks only at as
// much of the block as can be seen.
func (s *stream) live(columns, limit int) []string {
	if limit <= 0 {
		return nil
	}
	tail := func(text string) string { return text[max(0, len(text)-limit*(columns+1)*4):] }
	text := strings.ToValidUTF8(tail(tail(s.block.String())+s.partial.String()), "")
	if text = strings.TrimRight(text, "\n"); text == "" {
		return nil
	}
	rows := Wrap(clean(text), columns)
	return rows[max(0, len(rows)-limit):]
}

// fenceOf returns the fence that a line opens a code block with; "" if it opens none.
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 && !strings.Contains(line[n:], "`") {
			return strings.Repeat(c, n)
		}
	}
	return ""
}

// isListMarker reports whether a line begins an item of a list.
func isListMarker(line string) bool {
	return strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || strings.HasPrefix(line, "+ ") ||
		len(line) > 2 && line[0] >= '0' && line[0] <= '9' && numbered(line)
}

func numbered(line string) bool {
	rest := strings.TrimLeft(line, "0123456789")
	return len(line)-len(rest) < 10 && (strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") "))
}
