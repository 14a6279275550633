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

// callRoom and answerRoom are the usual sizes of entries without their payloads, in bytes. They
// only size the buffer; a larger entry makes it grow.
const callRoom, answerRoom = 224, 32

// writer encodes one frame. Short payloads go into the common buffer b; long ones become buffers of
// their own in out, without a copy.
type writer struct {
	out  mem.BufferSlice
	b    []byte
	long int
}

// encode returns what proto.Marshal would, as a list of buffers, without copying payloads of at
// least c.long bytes. Those buffers alias the messages, which must not change until gRPC has sent
// them.
//
// A payload is written as the last field of its message, so that the buffer before it can end
// there. The order of fields does not matter to a protobuf decoder, and golden_test.go compares the
// bytes with proto.Marshal's.
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
	room := c.frames.Get(size)
	w.b = (*room)[:0]
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
	switch {
	case len(w.b) == 0:
	case len(w.out) == 0:
		*room = w.b
		w.out = append(w.out, mem.NewBuffer(room, c.frames)) // which takes it back when it is sent
	default:
		w.out = append(w.out, mem.SliceBuffer(w.b))
	}
	return w.out, nil
}

// inlineSize returns how many bytes of a payload go into the common buffer: all of a short one,
// none of a long one.
func (w *writer) inlineSize(payload []byte) int {
	if len(payload) >= w.long {
		return 0
	}
	return len(payload)
}

// call writes a call: its id and then its request.
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

// request writes a request: as an entry of sends, or as part of a call whose encoded id is given.
// The payload is taken out of r while the rest is encoded; r is unchanged when request returns. So
// r must not be read concurrently.
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

// answer writes an answer, in the same way as request.
func (w *writer) answer(a *pb.Answer) error {
	if a == nil {
		a = &pb.Answer{}
	}
	payload := a.Payload
	a.Payload = nil
	defer func() { a.Payload = payload }()
	return w.message(frameAnswers, proto.Size(a)+payloadSize(answerPayload, payload), a, answerPayload, payload)
}

// message writes the tag, the length and the fields of m, and then its payload. size is the encoded
// size with the payload, as just computed by proto.Size, whose result the encoder reuses.
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

// entry writes the tag and the length that precede a field of bytes.
func (w *writer) entry(field protowire.Number, size int) {
	w.b = protowire.AppendVarint(protowire.AppendTag(w.b, field, protowire.BytesType), uint64(size))
}

// payloadSize returns the encoded size of a payload field; an empty payload is not encoded.
func payloadSize(field protowire.Number, payload []byte) int {
	if len(payload) == 0 {
		return 0
	}
	return protowire.SizeTag(field) + protowire.SizeBytes(len(payload))
}
