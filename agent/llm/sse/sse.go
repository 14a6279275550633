// Package sse reads server-sent events (WHATWG HTML, section 9.2) as model servers really send them.
//
// The one idea: it is a reader, not a client. It takes bytes and gives events; who dials, retries and
// gives up is somebody else's business. One goroutine uses a Reader.
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
	in    *bufio.Reader
	limit int
	first bool // nothing was read yet: a byte order mark may follow
	cr    bool // the last line ended in CR: a LF that follows belongs to it
	ended bool
}

// NewReader returns a Reader of in. limit is the most bytes that one event may have, its field names
// included.
func NewReader(in io.Reader, limit int) *Reader {
	return &Reader{in: bufio.NewReader(in), limit: limit, first: true}
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
	for !r.ended {
		line, err := r.line(r.limit - size)
		if err != nil && err != io.EOF {
			return Event{}, err
		}
		r.ended = err == io.EOF
		size += len(line)
		if len(line) == 0 {
			if data {
				return e, nil
			}
			if !r.ended {
				e, size = Event{}, 0 // a blank line ends an event even when there is nothing to deliver
			}
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
	if data {
		return e, nil
	}
	return Event{}, io.EOF
}

// field splits a line into name and value. A comment has no name.
func field(line []byte) (string, []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	return string(name), bytes.TrimPrefix(value, []byte(" "))
}

// line returns the next line without its end. A last line without an end comes with io.EOF.
func (r *Reader) line(limit int) ([]byte, error) {
	if r.first {
		r.first = false
		if mark, _ := r.in.Peek(3); bytes.Equal(mark, []byte("\ufeff")) {
			_, _ = r.in.Discard(3)
		}
	}
	var line []byte
	for {
		part, err := r.part()
		if len(line)+len(part) > limit {
			return nil, fmt.Errorf("%w: over %d bytes", ErrTooLong, r.limit)
		}
		line = append(line, part...)
		if err != errMore {
			return line, err
		}
	}
}

// errMore says that the line goes on.
var errMore = errors.New("more")

// part returns what is buffered of the current line: all of it with nil, or a piece with errMore.
// It looks only at what has arrived, so that an event is delivered when its blank line is there and
// not when the byte after it comes.
func (r *Reader) part() ([]byte, error) {
	if _, err := r.in.Peek(1); err != nil {
		return nil, err
	}
	buf, _ := r.in.Peek(r.in.Buffered())
	if r.cr {
		r.cr = false
		if buf[0] == '\n' {
			_, _ = r.in.Discard(1)
			return nil, errMore
		}
	}
	i := bytes.IndexAny(buf, "\r\n")
	if i < 0 {
		part := bytes.Clone(buf)
		_, _ = r.in.Discard(len(buf))
		return part, errMore
	}
	r.cr = buf[i] == '\r'
	part := bytes.Clone(buf[:i])
	_, _ = r.in.Discard(i + 1)
	return part, nil
}
