package grpcpeer

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	pbf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "symbio/proto/symbio/v1"
)

// What one frame may hold. Each call, answer and cancellation that is sent together counts as overhead
// bytes at least, so that a node that keeps to the protocol stays below the first.
const (
	maxEntries    = together / overhead
	maxRequesters = 4 * maxEntries // in all calls of a frame
)

var (
	errEntries = fmt.Errorf("%w: a frame has over %d entries", errForbidden, maxEntries)
	errUTF8    = fmt.Errorf("%w: a frame has text that is not UTF-8", errForbidden)
)

// reader takes a frame apart.
type reader struct {
	size       int // of the buffer that the frame is in
	long       int
	requesters int
}

// decode is proto.Unmarshal, but that long payloads are parts of b, and there is a limit to entries.
func (c codec) decode(b []byte, f *pb.Frame) error {
	f.Reset()
	r := reader{size: len(b), long: c.long}
	for entries := 0; len(b) > 0; entries++ {
		if entries == maxEntries+1 { // and one for Open
			return errEntries
		}
		v, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case v.is(frameCalls):
			call, err := r.call(v.bytes)
			if err != nil {
				return err
			}
			f.Calls = append(f.Calls, call)
		case v.is(frameSends):
			h := &heldCall{}
			if err := r.request(v.bytes, h); err != nil {
				return err
			}
			f.Sends = append(f.Sends, &h.request)
		case v.is(frameReceipt):
			if f.Receipt == nil {
				f.Receipt = &pb.Receipt{}
			}
			if err := r.receipt(v.bytes, f.Receipt); err != nil {
				return err
			}
		case v.is(frameAnswers):
			answer, err := r.answer(v.bytes)
			if err != nil {
				return err
			}
			f.Answers = append(f.Answers, answer)
		case v.is(frameCancels):
			if f.Cancels, err = packed(v.bytes, f.Cancels); err != nil {
				return err
			}
			if len(f.Cancels) > maxEntries {
				return errEntries
			}
		case v.field == frameCancels && v.kind == protowire.VarintType:
			f.Cancels = append(f.Cancels, v.number)
		case v.is(frameOpen):
			if f.Open == nil {
				f.Open = &pb.Open{}
			}
			if err := merge(v.bytes, f.Open); err != nil {
				return err
			}
		}
	}
	return nil
}

// heldCall is all that a call needs, as one object.
type heldCall struct {
	call     pb.Call
	request  pb.InvokeRequest
	deadline durationpb.Duration
}

func (r *reader) call(b []byte) (*pb.Call, error) {
	h := &heldCall{}
	for len(b) > 0 {
		v, rest, err := next(b)
		if err != nil {
			return nil, err
		}
		b = rest
		switch {
		case v.field == callID && v.kind == protowire.VarintType:
			h.call.Id = v.number
		case v.is(callRequest):
			h.call.Request = &h.request
			if err := r.request(v.bytes, h); err != nil {
				return nil, err
			}
		}
	}
	return &h.call, nil
}

func (r *reader) request(b []byte, h *heldCall) error {
	q := &h.request
	for len(b) > 0 {
		v, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		if v.kind != protowire.BytesType {
			continue
		}
		switch v.field {
		case requestID:
			err = text(v.bytes, &q.CallId)
		case requestMember:
			err = text(v.bytes, &q.Member)
		case requestCapability:
			err = text(v.bytes, &q.Capability)
		case requestBytes:
			q.Payload = r.payload(v.bytes)
		case requestType:
			err = text(v.bytes, &q.ContentType)
		case requestDeadline:
			q.Deadline = &h.deadline
			err = duration(v.bytes, q.Deadline)
		case requestRequester:
			if r.requesters++; r.requesters > maxRequesters {
				return errEntries
			}
			var who string
			err = text(v.bytes, &who)
			q.Requester = append(q.Requester, who)
		case requestParent:
			err = text(v.bytes, &q.Traceparent)
		case requestState:
			err = text(v.bytes, &q.Tracestate)
		case requestBehalf:
			q.OnBehalf = bytes.Clone(v.bytes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) answer(b []byte) (*pb.Answer, error) {
	a := &pb.Answer{}
	for len(b) > 0 {
		v, rest, err := next(b)
		if err != nil {
			return nil, err
		}
		b = rest
		switch {
		case v.field == answerID && v.kind == protowire.VarintType:
			a.Id = v.number
		case v.is(answerBytes):
			a.Payload = r.payload(v.bytes)
		case v.is(answerType):
			err = text(v.bytes, &a.ContentType)
		case v.is(answerFailure):
			if a.Failure == nil {
				a.Failure = &pb.Failure{}
			}
			err = merge(v.bytes, a.Failure)
		}
		if err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (r *reader) receipt(b []byte, to *pb.Receipt) error {
	for len(b) > 0 {
		v, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case v.field == receiptOver && v.kind == protowire.VarintType:
			to.Over = v.number
		case v.is(receiptUndelivered):
			if len(to.Undelivered) == maxEntries {
				return errEntries
			}
			u := &pb.Undelivered{}
			if err := merge(v.bytes, u); err != nil {
				return err
			}
			to.Undelivered = append(to.Undelivered, u)
		}
	}
	return nil
}

// payload is a copy, unless the bytes are long, and most of their buffer: what is kept of one payload
// would keep the rest of it in memory, too.
func (r *reader) payload(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	if len(b) < r.long || 2*len(b) < r.size {
		return bytes.Clone(b)
	}
	return b[:len(b):len(b)]
}

func duration(b []byte, d *durationpb.Duration) error {
	for len(b) > 0 {
		v, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case v.kind != protowire.VarintType:
		case v.field == durationSeconds:
			d.Seconds = int64(v.number)
		case v.field == durationNanos:
			d.Nanos = int32(v.number)
		}
	}
	return nil
}

func text(b []byte, s *string) error {
	if !utf8.Valid(b) {
		return errUTF8
	}
	*s = string(b)
	return nil
}

func merge(b []byte, m pbf.Message) error {
	return pbf.UnmarshalOptions{Merge: true, DiscardUnknown: true}.Unmarshal(b, m)
}

func packed(b []byte, to []uint64) ([]uint64, error) {
	for len(b) > 0 && len(to) <= maxEntries {
		n, size := protowire.ConsumeVarint(b)
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		to, b = append(to, n), b[size:]
	}
	return to, nil
}

// value is one field of a message.
type value struct {
	field  protowire.Number
	kind   protowire.Type
	number uint64 // of a varint
	bytes  []byte // of what is made of bytes
}

func (v value) is(field protowire.Number) bool {
	return v.field == field && v.kind == protowire.BytesType
}

// next takes one field off a message.
func next(b []byte) (v value, rest []byte, err error) {
	field, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return v, nil, protowire.ParseError(n)
	}
	if field > protowire.MaxValidNumber {
		return v, nil, fmt.Errorf("%w: a frame has a field of number %d", errForbidden, field)
	}
	v.field, v.kind = field, kind
	b = b[n:]
	switch kind {
	case protowire.VarintType:
		v.number, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		v.bytes, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(field, kind, b)
	}
	if n < 0 {
		return v, nil, protowire.ParseError(n)
	}
	return v, b[n:], nil
}
