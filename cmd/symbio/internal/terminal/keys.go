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
	keyFirst // of the line
	keyLast
	keyPageUp
	keyPageDown
	keyEnter
	keyBreak // a line break within what is typed: Alt-Enter
	keyEscape
	keyTab
	keyBackspace
	keyDelete
	keyWord   // away with the word before
	keyRest   // away with what follows
	keyClear  // away with what is before
	keyPaste  // what follows is pasted,
	keyPasted // until here
	keyStop   // Ctrl-C
	keyEnd    // Ctrl-D

	lastKey = keyEnd
)

// parseKeys reads what a terminal sends. What it does not know is nothing.
func parseKeys(data []byte) (found []rune) {
	sequences := []struct {
		text string
		key  rune
	}{
		{"\x1b[A", keyUp}, {"\x1bOA", keyUp}, {"\x1b[B", keyDown}, {"\x1bOB", keyDown}, {"\x1b[5~", keyPageUp}, {"\x1b[6~", keyPageDown},
		{"\x1b\r", keyBreak}, {"\x1b\n", keyBreak}, {"\r", keyEnter}, {"\n", keyEnter}, {"\t", keyTab}, {"\x7f", keyBackspace}, {"\b", keyBackspace},
		{"\x03", keyStop}, {"\x04", keyEnd}, {"\x10", keyUp}, {"\x0e", keyDown}, {"\x15", keyClear},
		{"\x1b[D", keyLeft}, {"\x1bOD", keyLeft}, {"\x02", keyLeft}, {"\x1b[C", keyRight}, {"\x1bOC", keyRight}, {"\x06", keyRight},
		{"\x1b[H", keyFirst}, {"\x1bOH", keyFirst}, {"\x1b[1~", keyFirst}, {"\x01", keyFirst}, {"\x1b[F", keyLast}, {"\x1bOF", keyLast}, {"\x1b[4~", keyLast}, {"\x05", keyLast},
		{"\x1b[3~", keyDelete}, {"\x17", keyWord}, {"\x0b", keyRest}, {"\x1b[200~", keyPaste}, {"\x1b[201~", keyPasted},
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
	quick   int    // reads in a row that ended without waiting
}

// Next are the keys that were typed, none when there were none for a tick. io.EOF: the terminal is gone.
func (t *KeyReader) Next() ([]rune, error) {
	var buf [256]byte
	began := time.Now()
	n, err := t.In.Read(buf[:])
	if n == 0 && (err == nil || errors.Is(err, io.EOF)) { // a tick, or the end
		if time.Since(began) > tick/4 {
			t.quick = 0
		} else if t.quick++; t.quick > 10 {
			return nil, io.EOF
		}
		found := parseKeys(t.pending)
		t.pending = nil
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	t.quick = 0
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
	for i := max(0, len(data)-longestKey); i < len(data); i++ {
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

// longestKey is more bytes than any key sends that is known here.
const longestKey = 8

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
