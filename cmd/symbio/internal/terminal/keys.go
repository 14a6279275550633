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

// The keys that are no text. They are numbered from U+E000, in the private use area of Unicode,
// which no keyboard sends, so that keys and text fit into one slice of runes.
const (
	// These values are in the private use area, which no keyboard sends.
	keyUp = iota + 0xE000
	keyDown
	keyLeft
	keyRight
	// keyHome and keyEndOfLine move to the ends of the line.
	keyHome
	keyEndOfLine
	keyPageUp
	keyPageDown
	keyEnter
	// keyLineBreak puts a line break into the text: Alt-Enter.
	keyLineBreak
	keyEscape
	keyTab
	keyBackspace
	keyDelete
	// keyDeleteWord, keyDeleteToEnd and keyDeleteToStart are Ctrl-W, Ctrl-K and Ctrl-U.
	keyDeleteWord
	keyDeleteToEnd
	keyDeleteToStart
	// keyPasteStart and keyPasteEnd enclose pasted text, when bracketed paste is switched on.
	keyPasteStart
	keyPasteEnd
	// keyInterrupt is Ctrl-C, which a raw terminal sends as a byte and not as a signal.
	keyInterrupt
	// keyEOF is Ctrl-D.
	keyEOF

	lastKey = keyEOF
)

// parseKeys returns the keys and characters in what a terminal sent. Unknown escape sequences and
// invalid UTF-8 are dropped. data must not end in the middle of a sequence; see unfinished.
func parseKeys(data []byte) (found []rune) {
	// CSI and SS3 sequences of xterm, the Linux console, macOS and the BSDs, and the control keys
	// that readline users know. Order matters: a sequence must stand before its own prefix.
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

// escapeLength returns the number of bytes of an unknown sequence that begins with an escape; 1
// means that it is the key Escape alone. A CSI sequence ends with a byte from 0x40 to 0x7e
// (ECMA-48).
func escapeLength(data []byte) int {
	if len(data) < 2 {
		return 1
	}
	if data[1] != '[' && data[1] != 'O' {
		// A key that was pressed together with Alt.
		return 2
	}
	for i := 2; i < len(data); i++ {
		if data[i] >= 0x40 && data[i] <= 0x7e {
			return i + 1
		}
	}
	return len(data)
}

// KeyReader reads keys from a terminal in raw mode, where a read returns after readTimeout at the
// latest; see MakeRaw. It is for one goroutine.
type KeyReader struct {
	// In is the terminal.
	In *os.File
	// pending holds the first bytes of a sequence or character whose rest has not arrived.
	pending []byte
	// emptyReads counts reads in a row that returned nothing without waiting.
	emptyReads int
}

// Next returns the keys that were typed; none after readTimeout without a key. It returns io.EOF
// when the terminal is gone.
func (t *KeyReader) Next() ([]rune, error) {
	var buf [256]byte
	began := time.Now()
	n, err := t.In.Read(buf[:])
	// Go reports an empty read of a raw terminal as io.EOF, whether it timed out or the terminal
	// was closed. A closed one returns at once, again and again: 10 quick reads in a row are the
	// end.
	if n == 0 && (err == nil || errors.Is(err, io.EOF)) {
		if time.Since(began) > readTimeout/4 {
			t.emptyReads = 0
		} else if t.emptyReads++; t.emptyReads > 10 {
			return nil, io.EOF
		}
		// Nothing followed for a whole timeout, so the bytes are complete: an Escape is the key.
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

// unfinished returns the index at which an incomplete sequence or character begins at the end of
// data; -1 if all is complete. The caller keeps those bytes for the next read.
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

// maxKeyBytes is larger than any sequence or character that parseKeys knows, in bytes. Only the end
// of the data has to be searched.
const maxKeyBytes = 8

// openEscape reports whether a sequence has begun and not ended.
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

// runeLength returns the number of bytes of a UTF-8 character by its first byte, which must be at
// least 0xc0.
func runeLength(first byte) int {
	switch {
	case first >= 0xf0:
		return 4
	case first >= 0xe0:
		return 3
	}
	return 2
}
