package guest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/coder/acp-go-sdk"
)

// The limits of messages that wait to be taken.
const (
	maxMessage  = 8 << 20        // of one message, in bytes
	maxRequest  = 1<<20 + 64<<10 // of one that becomes a call, in bytes: tools take arguments of 1 MiB
	maxMessages = 256
	maxBytes    = 32 << 20
)

// errLong is why the connection to a program ends that sends a message above maxMessage.
var errLong = fmt.Errorf("one of its messages is longer than %d MiB", maxMessage>>20)

// errDeaf is why a program is ended.
var errDeaf = fmt.Errorf("it does not read: more than %d MiB wait for it", maxBytes>>20)

// gate reads what a program sends, message by message, and stops reading while too much of that waits. Only one goroutine
// reads. The methods may be called by many.
type gate struct {
	from *bufio.Reader
	rest []byte // of the message that is being read

	mu      sync.Mutex
	changed *sync.Cond
	waiting int   // messages that were read and not taken; guarded by mu
	bytes   int   // of them; guarded by mu
	updates int   // that were read and not handled; guarded by mu
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
	var head struct { // as the connection decodes it
		JSONRPC        string           `json:"jsonrpc"`
		ID             *json.RawMessage `json:"id"`
		Method         string           `json:"method"`
		Params, Result json.RawMessage
		Error          *acp.RequestError `json:"error"`
	}
	// A message with a method reaches the handler, which releases it. Others are answers, or malformed, and never wait.
	if json.Unmarshal(line, &head) == nil && head.Method != "" && (head.ID != nil || head.Method != "$/cancel_request") {
		g.enter(head.Method, len(line))
	}
	g.rest = line
	return nil
}

// enter counts a message. A request waits until the updates before it are handled: a permission is about the call that they report,
// and the connection handles requests beside them.
func (g *gate) enter(method string, bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if method == acp.ClientMethodSessionUpdate {
		g.updates++
	}
	for method != acp.ClientMethodSessionUpdate && g.updates > 0 && g.ended == nil {
		g.changed.Wait()
	}
	g.waiting, g.bytes = g.waiting+1, g.bytes+bytes
}

// updated says that an update was handled.
func (g *gate) updated() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.updates--
	g.changed.Broadcast()
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

// outbox keeps messages for a program until it reads them, so that a program that does not read holds nothing up. Above maxBytes
// it ends the program.
type outbox struct {
	end     func() // ends the program
	sending sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	waiting [][]byte // guarded by mu
	bytes   int      // of messages that are not sent; guarded by mu
	ended   error    // guarded by mu
}

func newOutbox(to io.Writer, end func()) *outbox {
	o := &outbox{end: end}
	o.changed = sync.NewCond(&o.mu)
	o.sending.Go(func() { o.close(o.send(to)) })
	return o
}

// Write adds a message. It does not block.
func (o *outbox) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended == nil && o.bytes+len(p) > maxBytes {
		o.ended = errDeaf
		o.sending.Go(o.end)
	}
	if o.ended != nil {
		return 0, o.ended
	}
	o.waiting, o.bytes = append(o.waiting, bytes.Clone(p)), o.bytes+len(p)
	o.changed.Broadcast()
	return len(p), nil
}

// send sends messages until the program or the outbox has ended.
func (o *outbox) send(to io.Writer) error {
	for {
		o.mu.Lock()
		for len(o.waiting) == 0 && o.ended == nil {
			o.changed.Wait()
		}
		messages, err := o.waiting, o.ended
		o.waiting = nil
		o.mu.Unlock()
		for _, m := range messages {
			if err == nil {
				_, err = to.Write(m)
			}
			o.mu.Lock()
			o.bytes -= len(m)
			o.mu.Unlock()
		}
		if err != nil {
			return err
		}
	}
}

// close ends Write and send. Only the first reason counts.
func (o *outbox) close(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = cmp.Or(o.ended, why)
	o.waiting = nil
	o.changed.Broadcast()
}

// close ends Read.
func (g *gate) close(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = why
	g.changed.Broadcast()
}
