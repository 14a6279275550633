package calls

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "symbio/proto/symbio/v1"
)

// The limits of one frame. The sender counts each entry as overhead bytes at least and each requester as
// requesterSize, and puts at most maxFrame bytes into a frame, so that it stays below them.
const (
	maxEntries    = maxFrame / overhead
	maxRequesters = maxFrame / requesterSize // in all calls of a frame
)

var errEntries = fmt.Errorf("%w: a frame has over %d entries", ErrProtocol, maxEntries)

// reader decodes one frame and counts its requesters, which are limited per frame.
type reader struct {
	size       int // of the buffer that the frame is in
	long       int
	requesters int
}

// decode is proto.Unmarshal with limits that hold before memory is allocated: a frame of small
// entries could otherwise take many times its size. Long payloads in f alias b, so b must not be
// reused. It returns ErrProtocol when a limit is exceeded.
func (c codec) decode(b []byte, f *pb.Frame) error {
	f.Reset()
	r := reader{size: len(b), long: c.long}
	entries := 0
	return eachField(b, func(field protowire.Number, value, raw []byte) error {
		if entries++; entries > maxEntries+1 { // one for Open
			return errEntries
		}
		switch {
		case value == nil: // a number: a cancel
		case field == frameCalls:
			call, err := r.call(value)
			f.Calls = append(f.Calls, call)
			return err
		case field == frameSends:
			h := &callMessage{}
			f.Sends = append(f.Sends, &h.request)
			return r.request(value, h)
		case field == frameAnswers:
			a := &pb.Answer{}
			f.Answers = append(f.Answers, a)
			return r.message(value, a, answerPayload, &a.Payload, nil)
		case field == frameCancels:
			if len(f.Cancels)+countVarints(value) > maxEntries {
				return errEntries
			}
		case field == frameReceipt:
			undelivered := len(f.GetReceipt().GetUndelivered())
			if err := eachField(value, func(field protowire.Number, _, _ []byte) error {
				if field == receiptUndelivered {
					undelivered++
				}
				return exceeds(undelivered, maxEntries)
			}); err != nil {
				return err
			}
		}
		return merge(raw, f)
	})
}

// callMessage has the parts of a call in one allocation: a short call then costs one object instead
// of three, at each end.
type callMessage struct {
	call     pb.Call
	request  pb.InvokeRequest
	deadline durationpb.Duration
}

// call decodes a Call.
func (r *reader) call(b []byte) (*pb.Call, error) {
	h := &callMessage{}
	return &h.call, eachField(b, func(field protowire.Number, value, raw []byte) error {
		if field != callRequest || value == nil {
			return merge(raw, &h.call)
		}
		h.call.Request = &h.request
		return r.request(value, h)
	})
}

// request decodes an InvokeRequest into h.
func (r *reader) request(b []byte, h *callMessage) error {
	return r.message(b, &h.request, requestPayload, &h.request.Payload, func(field protowire.Number) error {
		switch field {
		case requestDeadline:
			h.request.Deadline = &h.deadline // merge fills it
		case requestRequesters:
			r.requesters++
		}
		return exceeds(r.requesters, maxRequesters)
	})
}

// message decodes b into m, except for the payload: the field with number at, which goes to
// *payload. It calls seen, if it is not nil, with the number of each other bytes field before that
// field is decoded; an error of seen ends decoding.
func (r *reader) message(b []byte, m proto.Message, at protowire.Number, payload *[]byte, seen func(protowire.Number) error) error {
	from, to := 0, 0
	err := eachField(b, func(field protowire.Number, value, raw []byte) error {
		to += len(raw)
		if field != at || value == nil {
			if seen == nil || value == nil {
				return nil
			}
			return seen(field)
		}
		before := b[from : to-len(raw)]
		from = to
		*payload = r.payload(value)
		return merge(before, m)
	})
	if err != nil {
		return err
	}
	return merge(b[from:], m)
}

// payload returns the bytes of a payload. It aliases b only if the payload is long and most of its
// frame. Otherwise a caller that keeps the payload would keep the whole frame in memory.
func (r *reader) payload(b []byte) []byte {
	switch {
	case len(b) == 0:
		return nil
	case len(b) < r.long || 2*len(b) < r.size:
		return bytes.Clone(b)
	}
	return b[:len(b):len(b)]
}

// merge decodes the fields in b into m, over what m has. Unknown fields are dropped, so that they
// cannot take memory.
func merge(b []byte, m proto.Message) error {
	if len(b) == 0 {
		return nil
	}
	return proto.UnmarshalOptions{Merge: true, DiscardUnknown: true}.Unmarshal(b, m)
}

// countVarints returns how many numbers a packed field has: each ends with a byte below 0x80.
func countVarints(b []byte) (n int) {
	for _, c := range b {
		if c < 0x80 {
			n++
		}
	}
	return n
}

// exceeds returns errEntries when n is over most.
func exceeds(n, most int) error {
	if n > most {
		return errEntries
	}
	return nil
}

// eachField calls each with every field of an encoded message: its number, its value if it is of
// bytes (else nil), and the whole encoded field. It returns the first error of each, or an error
// for malformed input.
func eachField(b []byte, each func(field protowire.Number, value, raw []byte) error) error {
	for len(b) > 0 {
		field, kind, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		n := protowire.ConsumeFieldValue(field, kind, b[tag:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		var value []byte
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b[tag:])
		}
		if err := each(field, value, b[:tag+n]); err != nil {
			return err
		}
		b = b[tag+n:]
	}
	return nil
}
