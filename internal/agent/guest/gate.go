package guest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// The limits of messages that wait to be taken.
const (
	maxMessage  = 8 << 20 // of one message, in bytes
	maxMessages = 256
	maxBytes    = 32 << 20
)

// errLong is why the connection to a program ends that sends a message above maxMessage.
var errLong = fmt.Errorf("one of its messages is longer than %d MiB", maxMessage>>20)

// gate reads what a program sends, message by message, and stops reading while too much of that waits. Only one goroutine
// reads. The methods may be called by many.
type gate struct {
	from *bufio.Reader
	rest []byte // of the message that is being read

	mu      sync.Mutex
	changed *sync.Cond
	waiting int   // messages that were read and not taken; guarded by mu
	bytes   int   // of them; guarded by mu
	ended   error // guarded by mu
}

func newGate(from io.Reader) *gate {
	g := &gate{from: bufio.NewReaderSize(from, 64<<10)}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// Read returns a part of the next message. It blocks while too many wait.
func (g *gate) Read(p []byte) (int, error) {
	for len(g.rest) == 0 {
		if err := g.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

// next waits until a message may be read, and reads it.
func (g *gate) next() error {
	g.mu.Lock()
	for g.ended == nil && (g.waiting >= maxMessages || g.bytes >= maxBytes) {
		g.changed.Wait()
	}
	err := g.ended
	g.mu.Unlock()
	if err != nil {
		return err
	}
	line, err := g.line()
	if err != nil {
		return err
	}
	var head struct {
		Method string `json:"method"`
	}
	// A message with a method reaches the handler, which releases it. Others are answers, or not JSON, and never wait.
	if json.Unmarshal(line, &head) == nil && head.Method != "" && head.Method != "$/cancel_request" {
		g.mu.Lock()
		g.waiting, g.bytes = g.waiting+1, g.bytes+len(line)
		g.mu.Unlock()
	}
	g.rest = line
	return nil
}

// line reads a line of at most maxMessage bytes.
func (g *gate) line() (line []byte, err error) {
	for {
		part, err := g.from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxMessage:
			return nil, errLong
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err // half a message is none
		}
	}
}

// release says that a message of about so many bytes was taken.
func (g *gate) release(bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting--; g.waiting <= 0 {
		g.waiting, bytes = 0, g.bytes // a message is longer than its parameters
	}
	g.bytes = max(0, g.bytes-bytes)
	g.changed.Broadcast()
}

// close ends Read.
func (g *gate) close(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = why
	g.changed.Broadcast()
}
