package calls

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "symbio/proto/symbio/v1"
)

// The fields of a frame that the codec handles itself, by their numbers in peer.proto.
const (
	frameCalls, frameAnswers, frameCancels, frameSends, frameReceipt protowire.Number = 2, 3, 4, 10, 11

	callID, callRequest                                protowire.Number = 1, 2
	requestPayload, requestDeadline, requestRequesters protowire.Number = 4, 6, 7
	answerPayload                                      protowire.Number = 2
	receiptUndelivered                                 protowire.Number = 2
)

// cached uses the sizes that Size has just computed.
var cached = proto.MarshalOptions{UseCachedSize: true}

// callRoom and answerRoom are the usual sizes of entries without their payloads, in bytes.
const callRoom, answerRoom = 224, 32

// writer encodes a frame. Long payloads become buffers of their own.
type writer struct {
	out  mem.BufferSlice
	b    []byte
	long int
}

// encode is proto.Marshal without a copy of long payloads. A payload is the last field of its message, so
// that it ends a buffer.
func (c codec) encode(f *pb.Frame) (mem.BufferSlice, error) {
	w := writer{long: c.long}
	size := callRoom*(len(f.Calls)+len(f.Sends)) + answerRoom*len(f.Answers) + 10*len(f.Cancels)
	for _, call := range f.Calls {
		size += w.inlineSize(call.GetRequest().GetPayload())
	}
	for _, r := range f.Sends {
		size += w.inlineSize(r.GetPayload())
	}
	for _, a := range f.Answers {
		size += w.inlineSize(a.GetPayload())
	}
	w.b = make([]byte, 0, size)
	if f.Open != nil || f.Receipt != nil || len(f.Cancels) > 0 {
		var err error
		rest := pb.Frame{Open: f.Open, Cancels: f.Cancels, Receipt: f.Receipt}
		if w.b, err = (proto.MarshalOptions{}).MarshalAppend(w.b, &rest); err != nil {
			return nil, err
		}
	}
	for _, call := range f.Calls {
		if err := w.call(call); err != nil {
			return nil, err
		}
	}
	for _, r := range f.Sends {
		if err := w.request(frameSends, r, nil); err != nil {
			return nil, err
		}
	}
	for _, a := range f.Answers {
		if err := w.answer(a); err != nil {
			return nil, err
		}
	}
	if len(w.b) > 0 {
		w.out = append(w.out, mem.SliceBuffer(w.b))
	}
	return w.out, nil
}

// inlineSize returns how many bytes of a payload go into the common buffer.
func (w *writer) inlineSize(payload []byte) int {
	if len(payload) >= w.long {
		return 0
	}
	return len(payload)
}

func (w *writer) call(c *pb.Call) error {
	var id []byte
	var room [16]byte
	if c.GetId() != 0 {
		id = protowire.AppendVarint(protowire.AppendTag(room[:0], callID, protowire.VarintType), c.Id)
	}
	if c.GetRequest() == nil {
		w.b = protowire.AppendBytes(protowire.AppendTag(w.b, frameCalls, protowire.BytesType), id)
		return nil
	}
	return w.request(frameCalls, c.Request, id)
}

// request writes a request as a send, or, in a call, behind the call's id.
func (w *writer) request(field protowire.Number, r *pb.InvokeRequest, id []byte) error {
	if r == nil {
		r = &pb.InvokeRequest{}
	}
	payload := r.Payload
	r.Payload = nil
	defer func() { r.Payload = payload }()
	size := proto.Size(r) + payloadSize(requestPayload, payload)
	if field == frameCalls {
		w.entry(field, len(id)+protowire.SizeTag(callRequest)+protowire.SizeBytes(size))
		w.b = append(w.b, id...)
		field = callRequest
	}
	return w.message(field, size, r, requestPayload, payload)
}

func (w *writer) answer(a *pb.Answer) error {
	if a == nil {
		a = &pb.Answer{}
	}
	payload := a.Payload
	a.Payload = nil
	defer func() { a.Payload = payload }()
	return w.message(frameAnswers, proto.Size(a)+payloadSize(answerPayload, payload), a, answerPayload, payload)
}

// message writes m, whose size was just computed, and the payload that was taken out of it.
func (w *writer) message(field protowire.Number, size int, m proto.Message, at protowire.Number, payload []byte) (err error) {
	w.entry(field, size)
	if w.b, err = cached.MarshalAppend(w.b, m); err != nil || len(payload) == 0 {
		return err
	}
	w.entry(at, len(payload))
	if len(payload) < w.long {
		w.b = append(w.b, payload...)
		return nil
	}
	w.out = append(w.out, mem.SliceBuffer(w.b), mem.SliceBuffer(payload))
	w.b = w.b[len(w.b):]
	return nil
}

// entry writes the tag and the length of a field.
func (w *writer) entry(field protowire.Number, size int) {
	w.b = protowire.AppendVarint(protowire.AppendTag(w.b, field, protowire.BytesType), uint64(size))
}

func payloadSize(field protowire.Number, payload []byte) int {
	if len(payload) == 0 {
		return 0
	}
	return protowire.SizeTag(field) + protowire.SizeBytes(len(payload))
}
