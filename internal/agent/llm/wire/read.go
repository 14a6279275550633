package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/sse"
	"symbio/internal/security/visible"
)

const (
	// maxEvent is the largest event, in bytes. A call that writes a large file may come in one
	// event.
	maxEvent = 8 << 20
	// maxAnswer is how many bytes of text, thoughts and arguments an answer may have: several times what the longest answers
	// of today have.
	maxAnswer = 8 << 20
	// maxStream is how many bytes a server may send for it, with all that is no part of the answer.
	maxStream = 256 << 20
	// maxIdle is how long a server may send only what is no part of the answer.
	maxIdle = 10 * time.Minute
	// closeTimeout is how long a server may take to close an answer after saying why it stopped.
	// Some never do.
	closeTimeout = 2 * time.Second
)

// Answer parses the answer of a server; each dialect has its own. Its errors are final.
type Answer interface {
	// Event takes one event; last says that it is the last.
	Event(e sse.Event) (last bool, err error)
	// Document takes an answer that is one JSON document although a stream was asked for.
	Document(doc []byte) error
	// Stopped reports whether the answer has said why it stops: then how the connection ends does
	// not matter.
	Stopped() bool
	// End is called once, when the answer is whole.
	End() error
}

// Read reads the answer to its end. It returns nil if the answer is complete.
func (x *Exchange) Read(a Answer) error {
	in := bufio.NewReader(x.Body)
	first, err := firstByte(in)
	if err != nil {
		return x.server.Broken(err)
	}
	if first == '{' {
		return x.document(in, a)
	}
	return x.stream(sse.NewReader(in, maxEvent), a)
}

// ReadLines is like Read, for answers with a JSON document on each line. Each is an event without a name.
func (x *Exchange) ReadLines(a Answer) error {
	lines := &lineReader{bufio.NewScanner(x.Body)}
	lines.Buffer(nil, maxEvent)
	return x.stream(lines, a)
}

// eventReader is an sse.Reader, or a lineReader.
type eventReader interface {
	// Next returns the next event; io.EOF at the end, sse.ErrTooLong for an event beyond the limit.
	Next() (sse.Event, error)
}

// lineReader reads lines as events.
type lineReader struct{ *bufio.Scanner }

// Next returns the next line that is not empty.
func (r *lineReader) Next() (sse.Event, error) {
	for r.Scan() {
		if data := bytes.TrimSpace(r.Bytes()); len(data) > 0 {
			return sse.Event{Data: data}, nil
		}
	}
	switch err := r.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return sse.Event{}, sse.ErrTooLong
	case err != nil:
		return sse.Event{}, err
	}
	return sse.Event{}, io.EOF
}

// firstByte returns the first byte that is neither white space, which some servers send to keep the
// connection alive, nor a part of a byte order mark. It does not consume the byte. After 64 KiB of
// white space it returns 0.
func firstByte(in *bufio.Reader) (byte, error) {
	for n := 0; n < 64<<10; n++ {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if strings.IndexByte(" \t\r\n\xef\xbb\xbf", b) < 0 {
			return b, in.UnreadByte()
		}
	}
	return 0, nil
}

// document reads an answer that is one JSON document.
func (x *Exchange) document(in io.Reader, a Answer) error {
	var body bytes.Buffer
	for piece := make([]byte, 64<<10); ; {
		n, err := in.Read(piece)
		body.Write(piece[:n])
		if err := x.Grow(n); err != nil {
			return err
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return x.server.Broken(err)
		}
	}
	x.release() // its bytes are counted once more
	if err := a.Document(body.Bytes()); err != nil {
		return err
	}
	return a.End()
}

// stream reads events until the answer says that it ends. Each event starts the clock of the next
// phase again. An end of the connection after Stopped is in order; before it, the answer is cut.
func (x *Exchange) stream(events eventReader, a Answer) error {
	seen := false
	for {
		e, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLong):
			return x.server.Fail(llm.ErrMalformed, 0, err.Error())
		case err != nil && x.parent.Err() != nil:
			return err
		case err != nil && a.Stopped():
			return a.End()
		case err == io.EOF && !seen:
			return x.server.Fail(llm.ErrMalformed, 0, "the answer is neither JSON nor a stream of events")
		case errors.As(err, new(*http.MaxBytesError)):
			return x.server.Fail(llm.ErrMalformed, 0, "the server sent too much for one answer")
		case err != nil:
			return x.server.Broken(err)
		}
		if err := x.parent.Err(); err != nil {
			// The buffer may have more events, but the caller has stopped.
			return err
		}
		seen = true
		if time.Since(x.grown) > maxIdle {
			return x.server.Fail(llm.ErrTimeout, 0, fmt.Sprintf("for %v the server sent nothing of an answer", maxIdle))
		}
		last, err := a.Event(e)
		if err != nil {
			return err
		}
		if last {
			return x.finish(events, a)
		}
		if a.Stopped() {
			x.phases.set("ending the answer", closeTimeout)
		} else {
			x.phases.set("waiting for the next token", x.server.cfg.Stall)
		}
	}
}

// finish ends a stream after its last event and reads the rest of the body, because a connection is
// reused only if its body was read to the end.
func (x *Exchange) finish(events eventReader, a Answer) error {
	if err := a.End(); err != nil {
		return err
	}
	x.phases.set("ending the answer", closeTimeout/10)
	_, _ = events.Next()
	return nil
}

// Decode decodes a JSON object of a server into v. Fields of an unexpected type are skipped,
// because servers differ. It returns ErrCut for an incomplete object and ErrMalformed for text that
// is no object.
func (s *Server) Decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if err != nil && incomplete(data) {
		return s.Fail(llm.ErrCut, 0, "in the middle of a JSON object")
	}
	var other *json.UnmarshalTypeError
	if len(data) == 0 || data[0] != '{' || err != nil && !errors.As(err, &other) {
		return s.Fail(llm.ErrMalformed, 0, "not a JSON object: "+Start(data))
	}
	return nil
}

// incomplete reports whether data is only the beginning of a JSON document.
func incomplete(data []byte) bool {
	var doc json.RawMessage
	return errors.Is(json.NewDecoder(bytes.NewReader(data)).Decode(&doc), io.ErrUnexpectedEOF)
}

// Start returns the beginning of a server's answer, for an error.
func Start(data []byte) string { return string(data[:min(len(data), 1000)]) }

// Tokens converts a server's token count to an int between 0 and 2^40.
func Tokens(n float64) int { return int(min(max(n, 0), 1<<40)) }

// Encode encodes a request as JSON, with <, > and & unescaped, because models read them more
// reliably, and a line break at the end.
func Encode(v any) ([]byte, error) {
	text, err := visible.JSON(v)
	return append(text, '\n'), err
}

// Schema returns the schema of a tool's arguments, or the schema of an object without properties if it is
// empty.
func Schema(schema json.RawMessage) json.RawMessage {
	if len(schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return schema
}
