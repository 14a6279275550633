package terminal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// The keys that are no text.
const (
	keyUp = iota + 0xE000 // of the private use area, which no keyboard has
	keyDown
	keyLeft
	keyRight
	keyHome // of the line
	keyEndOfLine
	keyPageUp
	keyPageDown
	keyEnter
	keyLineBreak // a line break within what is typed: Alt-Enter
	keyEscape
	keyTab
	keyBackspace
	keyDelete
	keyDeleteWord   // away with the word before
	keyDeleteToEnd   // away with what follows
	keyDeleteToStart  // away with what is before
	keyPasteStart  // what follows is pasted,
	keyPasteEnd // until here
	keyInterrupt   // Ctrl-C
	keyEOF    // Ctrl-D

	lastKey = keyEOF
)

// parseKeys reads what a terminal sends. What it does not know is nothing.
func parseKeys(data []byte) (found []rune) {
	sequences := []struct {
		text string
		key  rune
	}{
		{"\x1b[A", keyUp}, {"\x1bOA", keyUp}, {"\x1b[B", keyDown}, {"\x1bOB", keyDown}, {"\x1b[5~", keyPageUp}, {"\x1b[6~", keyPageDown},
		{"\x1b\r", keyLineBreak}, {"\x1b\n", keyLineBreak}, {"\r", keyEnter}, {"\n", keyEnter}, {"\t", keyTab}, {"\x7f", keyBackspace}, {"\b", keyBackspace},
		{"\x03", keyInterrupt}, {"\x04", keyEOF}, {"\x10", keyUp}, {"\x0e", keyDown}, {"\x15", keyDeleteToStart},
		{"\x1b[D", keyLeft}, {"\x1bOD", keyLeft}, {"\x02", keyLeft}, {"\x1b[C", keyRight}, {"\x1bOC", keyRight}, {"\x06", keyRight},
		{"\x1b[H", keyHome}, {"\x1bOH", keyHome}, {"\x1b[1~", keyHome}, {"\x01", keyHome}, {"\x1b[F", keyEndOfLine}, {"\x1bOF", keyEndOfLine}, {"\x1b[4~", keyEndOfLine}, {"\x05", keyEndOfLine},
		{"\x1b[3~", keyDelete}, {"\x17", keyDeleteWord}, {"\x0b", keyDeleteToEnd}, {"\x1b[200~", keyPasteStart}, {"\x1b[201~", keyPasteEnd},
	}
next:
	for len(data) > 0 {
		for _, s := range sequences {
			if rest, ok := strings.CutPrefix(string(data), s.text); ok {
				found, data = append(found, s.key), []byte(rest)
				continue next
			}
		}
		if data[0] == 0x1b {
			n := escapeLength(data)
			if n == 1 {
				found = append(found, keyEscape)
			}
			data = data[n:]
			continue
		}
		r, n := utf8.DecodeRune(data)
		if r != utf8.RuneError && r >= ' ' && (r < keyUp || r > lastKey) {
			found = append(found, r)
		}
		data = data[n:]
	}
	return found
}

// escapeLength is how long an unknown sequence is that begins with an escape; 1 = it is the key alone.
func escapeLength(data []byte) int {
	if len(data) < 2 {
		return 1
	}
	if data[1] != '[' && data[1] != 'O' {
		return 2 // with Alt
	}
	for i := 2; i < len(data); i++ {
		if data[i] >= 0x40 && data[i] <= 0x7e {
			return i + 1
		}
	}
	return len(data)
}

// KeyReader reads keys from a terminal that gives up reading after tick.
type KeyReader struct {
	In      *os.File
	pending []byte // the beginning of something
	emptyReads   int    // reads in a row that ended without waiting
}

// Next are the keys that were typed, none when there were none for a tick. io.EOF: the terminal is gone.
func (t *KeyReader) Next() ([]rune, error) {
	var buf [256]byte
	began := time.Now()
	n, err := t.In.Read(buf[:])
	if n == 0 && (err == nil || errors.Is(err, io.EOF)) { // a tick, or the end
		if time.Since(began) > readTimeout/4 {
			t.emptyReads = 0
		} else if t.emptyReads++; t.emptyReads > 10 {
			return nil, io.EOF
		}
		found := parseKeys(t.pending)
		t.pending = nil
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	t.emptyReads = 0
	data := append(t.pending, buf[:n]...)
	t.pending = nil
	if i := unfinished(data); i >= 0 {
		t.pending, data = bytes.Clone(data[i:]), data[:i]
	}
	return parseKeys(data), nil
}

// unfinished is where something begins at the end of data that more may belong to; -1 = nowhere. It waits a
// tick at most.
func unfinished(data []byte) int {
	for i := max(0, len(data)-maxKeyBytes); i < len(data); i++ {
		rest := data[i:]
		switch {
		case rest[0] == 0x1b && openEscape(rest):
			return i
		case rest[0] >= 0xc0 && len(rest) < runeLength(rest[0]):
			return i
		}
	}
	return -1
}

// maxKeyBytes is more bytes than any key sends that is known here.
const maxKeyBytes = 8

// openEscape says whether a sequence has begun and not ended.
func openEscape(data []byte) bool {
	if len(data) == 1 {
		return true
	}
	if data[1] != '[' && data[1] != 'O' {
		return false
	}
	for _, b := range data[2:] {
		if b >= 0x40 && b <= 0x7e {
			return false
		}
	}
	return true
}

func runeLength(first byte) int {
	switch {
	case first >= 0xf0:
		return 4
	case first >= 0xe0:
		return 3
	}
	return 2
}
