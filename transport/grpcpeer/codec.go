package grpcpeer

import (
	"bytes"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	pbf "google.golang.org/protobuf/proto"

	pb "symbio/proto/symbio/v1"
)

// codec is gRPC's for protobuf, but for frames with long payloads: those it does not copy. The standard
// one copies a payload of 64 KiB into a pooled buffer of 1 MiB, which it clears first, at each end, and
// once more at the end that reads. A message that is being sent is nobody else's: the codec takes it
// apart, and puts it together again.
type codec struct {
	encoding.CodecV2
	long int // bytes of a payload that is worth the trouble
}

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name), 8 << 10} }

// Numbers of the fields that the codec writes itself.
const (
	frameCalls, frameAnswers  protowire.Number = 2, 3
	callRequest, requestBytes protowire.Number = 2, 4
	answerBytes               protowire.Number = 2
)

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*pb.Frame)
	if !ok || !c.heavy(f) {
		return c.CodecV2.Marshal(v)
	}
	var out mem.BufferSlice
	calls, answers := f.Calls, f.Answers
	light := f // what the codec does not write itself
	light.Calls, light.Answers = nil, nil
	defer func() { f.Calls, f.Answers = calls, answers }()
	for _, call := range calls {
		if len(call.GetRequest().GetPayload()) < c.long {
			light.Calls = append(light.Calls, call)
			continue
		}
		head, err := callHead(call)
		if err != nil {
			return nil, err
		}
		out = append(out, mem.SliceBuffer(head), mem.SliceBuffer(call.Request.Payload))
	}
	for _, answer := range answers {
		if len(answer.GetPayload()) < c.long {
			light.Answers = append(light.Answers, answer)
			continue
		}
		head, err := answerHead(answer)
		if err != nil {
			return nil, err
		}
		out = append(out, mem.SliceBuffer(head), mem.SliceBuffer(answer.Payload))
	}
	rest, err := pbf.Marshal(light)
	if err != nil {
		return nil, err
	}
	return append(out, mem.SliceBuffer(rest)), nil
}

func (c codec) heavy(f *pb.Frame) bool {
	for _, call := range f.Calls {
		if len(call.GetRequest().GetPayload()) >= c.long {
			return true
		}
	}
	for _, a := range f.Answers {
		if len(a.GetPayload()) >= c.long {
			return true
		}
	}
	return false
}

// callHead is a call as an entry of a frame, all but the bytes of its payload, which come last.
func callHead(c *pb.Call) ([]byte, error) {
	r, payload := c.Request, c.Request.Payload
	c.Request, r.Payload = nil, nil
	defer func() { c.Request, r.Payload = r, payload }()
	rest, err := pbf.Marshal(c)
	if err != nil {
		return nil, err
	}
	envelope, err := pbf.Marshal(r)
	if err != nil {
		return nil, err
	}
	inner := len(envelope) + protowire.SizeTag(requestBytes) + protowire.SizeBytes(len(payload))
	size := len(rest) + protowire.SizeTag(callRequest) + protowire.SizeBytes(inner)
	b := make([]byte, 0, len(rest)+len(envelope)+64)
	b = append(entry(b, frameCalls, size), rest...)
	b = entry(b, callRequest, inner)
	b = append(b, envelope...)
	return entry(b, requestBytes, len(payload)), nil
}

// answerHead is the same of an answer.
func answerHead(a *pb.Answer) ([]byte, error) {
	payload := a.Payload
	a.Payload = nil
	envelope, err := pbf.Marshal(a)
	a.Payload = payload
	if err != nil {
		return nil, err
	}
	size := len(envelope) + protowire.SizeTag(answerBytes) + protowire.SizeBytes(len(payload))
	b := entry(make([]byte, 0, len(envelope)+32), frameAnswers, size)
	b = append(b, envelope...)
	return entry(b, answerBytes, len(payload)), nil
}

// entry begins a field of some bytes.
func entry(b []byte, field protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(size))
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*pb.Frame)
	if !ok || data.Len() < c.long {
		return c.CodecV2.Unmarshal(data, v)
	}
	// Payloads stay where they are in it, so it is nobody's to use again.
	b := make([]byte, data.Len())
	data.CopyTo(b)
	if !c.heavyBytes(b) {
		return pbf.Unmarshal(b, f)
	}
	return c.readFrame(b, f)
}

// heavyBytes reports whether a frame has a long entry.
func (c codec) heavyBytes(b []byte) bool {
	for len(b) > 0 {
		_, value, n, err := next(b)
		if err != nil || len(value) >= c.long {
			return err == nil
		}
		b = b[n:]
	}
	return false
}

// readFrame is proto.Unmarshal, but long payloads are parts of b.
func (c codec) readFrame(b []byte, f *pb.Frame) error {
	pbf.Reset(f)
	size := len(b)
	var light []byte
	for len(b) > 0 {
		field, value, n, err := next(b)
		if err != nil {
			return err
		}
		switch {
		case field == frameCalls && len(value) >= c.long:
			call := &pb.Call{}
			if err := readCall(value, call, size); err != nil {
				return err
			}
			f.Calls = append(f.Calls, call)
		case field == frameAnswers && len(value) >= c.long:
			answer := &pb.Answer{}
			rest, payload, err := lift(value, answerBytes, size)
			if err == nil {
				err = pbf.Unmarshal(rest, answer)
			}
			if err != nil {
				return err
			}
			answer.Payload = payload
			f.Answers = append(f.Answers, answer)
		default:
			light = append(light, b[:n]...)
		}
		b = b[n:]
	}
	return pbf.UnmarshalOptions{Merge: true}.Unmarshal(light, f)
}

func readCall(b []byte, c *pb.Call, size int) error {
	var rest []byte
	for len(b) > 0 {
		field, value, n, err := next(b)
		if err != nil {
			return err
		}
		if field != callRequest || value == nil {
			rest = append(rest, b[:n]...)
			b = b[n:]
			continue
		}
		if c.Request == nil {
			c.Request = &pb.InvokeRequest{}
		}
		envelope, payload, err := lift(value, requestBytes, size)
		if err == nil {
			err = pbf.UnmarshalOptions{Merge: true}.Unmarshal(envelope, c.Request)
		}
		if err != nil {
			return err
		}
		if payload != nil { // as for any field that comes twice, the last one counts
			c.Request.Payload = payload
		}
		b = b[n:]
	}
	return pbf.UnmarshalOptions{Merge: true}.Unmarshal(rest, c)
}

// lift takes the field out of a message. What it took is part of b, unless b's buffer, which is of a
// size, is mostly something else that would be kept in memory with it.
func lift(b []byte, field protowire.Number, size int) (rest, lifted []byte, err error) {
	for len(b) > 0 {
		found, value, n, err := next(b)
		if err != nil {
			return nil, nil, err
		}
		if found == field && value != nil {
			lifted = value
		} else {
			rest = append(rest, b[:n]...)
		}
		b = b[n:]
	}
	if 2*len(lifted) < size {
		lifted = bytes.Clone(lifted)
	}
	return rest, lifted, nil
}

// next reads one field: its number, its bytes if it is made of bytes, else nil, and its whole length.
func next(b []byte) (field protowire.Number, value []byte, n int, err error) {
	field, kind, n := protowire.ConsumeField(b)
	if n < 0 {
		return 0, nil, 0, protowire.ParseError(n)
	}
	if kind != protowire.BytesType {
		return field, nil, n, nil
	}
	_, _, tag := protowire.ConsumeTag(b)
	value, _ = protowire.ConsumeBytes(b[tag:n])
	return field, value, n, nil
}
