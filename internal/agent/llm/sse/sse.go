// Package sse reads server-sent events (WHATWG HTML, section 9.2) as model servers really send them.
//
// The one idea: it is a reader, not a client. It parses bytes into events; dialing, retries and
// timeouts are the caller's. A Reader is not safe for concurrent use.
//
// It takes LF, CR and CRLF line ends, a byte order mark, comments, and fields without the space after
// the colon. Where the standard throws an event away because its closing blank line is missing at the
// end of the stream, it is delivered: some servers never send that line. Memory is bounded: an event
// beyond the limit is an error. Ids and the retry field are not kept; a chat answer is not resumed.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrTooLong means that an event was longer than the Reader's limit.
var ErrTooLong = errors.New("event too long")

// Event is one event of a stream.
type Event struct {
	Name string // the event field; empty for a plain message
	Data []byte // the data lines, joined by line feeds
}

// Reader reads events one by one.
type Reader struct {
	lines *bufio.Scanner
	limit int
	begun bool // a line was read: no byte order mark follows
	cr    bool // the last line ended in CR: a LF that follows belongs to it
	// searched is how many bytes of the line that has not ended hold no end: a slow sender must not
	// cost a search of all of them for each byte.
	searched int
}

// NewReader returns a Reader of in. limit is the most bytes that one event may have, its field names
// included.
func NewReader(in io.Reader, limit int) *Reader {
	r := &Reader{lines: bufio.NewScanner(in), limit: limit}
	r.lines.Buffer(nil, limit+len(byteOrderMark)+2) // and the end of a line
	r.lines.Split(r.split)
	return r
}

const byteOrderMark = "\ufeff"

// split is a bufio.SplitFunc of lines that end in LF, CR or CRLF. It does not wait for a LF behind
// a CR, so that an event is delivered when its blank line is there and not when the byte after it
// comes.
func (r *Reader) split(data []byte, atEOF bool) (advance int, line []byte, err error) {
	skip := 0
	if r.cr && len(data) > 0 {
		if r.cr = false; data[0] == '\n' {
			skip = 1
		}
	}
	from := skip + r.searched
	i := bytes.IndexAny(data[from:], "\r\n")
	switch {
	case i >= 0:
		r.cr, r.searched = data[from+i] == '\r', 0
		return from + i + 1, data[skip : from+i], nil
	case atEOF && len(data) > skip:
		r.searched = 0
		return len(data), data[skip:], nil
	}
	r.searched = len(data) - skip
	return skip, nil, nil
}

// Next returns the next event that has data. At the end of the stream it returns io.EOF. When the
// stream broke off it returns the reader's own error, after the last event that was complete. Next
// blocks as long as the reader does.
func (r *Reader) Next() (Event, error) {
	var (
		e    Event
		data bool
		size int
	)
	for r.lines.Scan() {
		line := r.lines.Bytes()
		if !r.begun {
			r.begun, line = true, bytes.TrimPrefix(line, []byte(byteOrderMark))
		}
		if size += len(line); size > r.limit {
			return Event{}, fmt.Errorf("%w: over %d bytes", ErrTooLong, r.limit)
		}
		if len(line) == 0 {
			if data {
				return e, nil
			}
			e, size = Event{}, 0 // a blank line ends an event even when there is nothing to deliver
			continue
		}
		switch name, value := field(line); name {
		case "data":
			if data {
				e.Data = append(e.Data, '\n')
			}
			e.Data = append(e.Data, value...)
			data = true
		case "event":
			e.Name = string(value)
		case "":
			size -= len(line) // a comment: keep-alives may be many
		}
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return Event{}, fmt.Errorf("%w: over %d bytes", ErrTooLong, r.limit)
	case err != nil:
		return Event{}, err
	case data:
		return e, nil
	}
	return Event{}, io.EOF
}

// field splits a line into name and value. A comment has no name.
func field(line []byte) (string, []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	return string(name), bytes.TrimPrefix(value, []byte(" "))
}
