package grpcpeer

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	pbf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "symbio/proto/symbio/v1"
)

// The fields of a frame, by their numbers. A test knows when one is missing.
const (
	frameOpen, frameCalls, frameAnswers, frameCancels, frameSends, frameReceipt protowire.Number = 1, 2, 3, 4, 10, 11

	callID, callRequest protowire.Number = 1, 2

	requestID, requestMember, requestCapability, requestBytes, requestType, requestDeadline,
	requestRequester, requestParent, requestState, requestBehalf protowire.Number = 1, 2, 3, 4, 5, 6, 7, 8, 9, 70

	answerID, answerBytes, answerType, answerFailure protowire.Number = 1, 2, 3, 4

	receiptOver, receiptUndelivered protowire.Number = 1, 2

	durationSeconds, durationNanos protowire.Number = 1, 2
)

// writer gathers a message of which some parts are other people's bytes.
type writer struct {
	out  mem.BufferSlice
	b    []byte
	long int
}

// encode is proto.Marshal. Payloads are last in what they belong to, so that long ones can be left where
// they are.
func (c codec) encode(f *pb.Frame) (mem.BufferSlice, error) {
	w := writer{long: c.long}
	size := 0
	for _, call := range f.Calls {
		size += sizeRequest(call.GetRequest()) + 32
		if n := len(call.GetRequest().GetPayload()); n >= c.long {
			size -= n
		}
	}
	for _, r := range f.Sends {
		size += sizeRequest(r) + 16
		if n := len(r.GetPayload()); n >= c.long {
			size -= n
		}
	}
	for _, a := range f.Answers {
		size += sizeAnswer(a) + 32
		if n := len(a.GetPayload()); n >= c.long {
			size -= n
		}
	}
	w.b = make([]byte, 0, size+10*len(f.Cancels)+64)
	if f.Open != nil {
		open, err := pbf.Marshal(f.Open)
		if err != nil {
			return nil, err
		}
		w.bytes(frameOpen, open)
	}
	for _, call := range f.Calls {
		w.call(call)
	}
	for _, r := range f.Sends {
		w.entry(frameSends, sizeRequest(r))
		w.request(r)
	}
	if f.Receipt != nil {
		receipt, err := pbf.Marshal(f.Receipt)
		if err != nil {
			return nil, err
		}
		w.bytes(frameReceipt, receipt)
	}
	for _, a := range f.Answers {
		if err := w.answer(a); err != nil {
			return nil, err
		}
	}
	for _, id := range f.Cancels {
		w.number(frameCancels, id)
	}
	if len(w.b) > 0 {
		w.out = append(w.out, mem.SliceBuffer(w.b))
	}
	return w.out, nil
}

func (w *writer) call(c *pb.Call) {
	size := sizeNumber(callID, c.GetId())
	request := 0
	if c.GetRequest() != nil {
		request = sizeRequest(c.Request)
		size += protowire.SizeTag(callRequest) + protowire.SizeBytes(request)
	}
	w.entry(frameCalls, size)
	if c.GetId() != 0 {
		w.number(callID, c.Id)
	}
	if c.GetRequest() != nil {
		w.entry(callRequest, request)
		w.request(c.Request)
	}
}

func (w *writer) request(r *pb.InvokeRequest) {
	if r == nil {
		return
	}
	w.text(requestID, r.CallId)
	w.text(requestMember, r.Member)
	w.text(requestCapability, r.Capability)
	w.text(requestType, r.ContentType)
	if d := r.Deadline; d != nil {
		w.entry(requestDeadline, sizeDuration(d))
		if d.Seconds != 0 {
			w.number(durationSeconds, uint64(d.Seconds))
		}
		if d.Nanos != 0 {
			w.number(durationNanos, uint64(int64(d.Nanos)))
		}
	}
	for _, who := range r.Requester {
		w.b = protowire.AppendString(protowire.AppendTag(w.b, requestRequester, protowire.BytesType), who)
	}
	w.text(requestParent, r.Traceparent)
	w.text(requestState, r.Tracestate)
	if len(r.OnBehalf) > 0 {
		w.bytes(requestBehalf, r.OnBehalf)
	}
	w.payload(requestBytes, r.Payload)
}

func (w *writer) answer(a *pb.Answer) error {
	w.entry(frameAnswers, sizeAnswer(a))
	if a.GetId() != 0 {
		w.number(answerID, a.Id)
	}
	w.text(answerType, a.GetContentType())
	if a.GetFailure() != nil {
		w.entry(answerFailure, pbf.Size(a.Failure))
		var err error
		if w.b, err = (pbf.MarshalOptions{UseCachedSize: true}).MarshalAppend(w.b, a.Failure); err != nil {
			return err
		}
	}
	w.payload(answerBytes, a.GetPayload())
	return nil
}

// entry begins a field of some bytes.
func (w *writer) entry(field protowire.Number, size int) {
	w.b = protowire.AppendVarint(protowire.AppendTag(w.b, field, protowire.BytesType), uint64(size))
}

func (w *writer) bytes(field protowire.Number, b []byte) {
	w.entry(field, len(b))
	w.b = append(w.b, b...)
}

func (w *writer) text(field protowire.Number, s string) {
	if s != "" {
		w.b = protowire.AppendString(protowire.AppendTag(w.b, field, protowire.BytesType), s)
	}
}

func (w *writer) number(field protowire.Number, n uint64) {
	w.b = protowire.AppendVarint(protowire.AppendTag(w.b, field, protowire.VarintType), n)
}

func (w *writer) payload(field protowire.Number, b []byte) {
	switch {
	case len(b) == 0:
	case len(b) < w.long:
		w.bytes(field, b)
	default:
		w.entry(field, len(b))
		w.out = append(w.out, mem.SliceBuffer(w.b), mem.SliceBuffer(b))
		w.b = w.b[len(w.b):]
	}
}

func sizeNumber(field protowire.Number, n uint64) int {
	if n == 0 {
		return 0
	}
	return protowire.SizeTag(field) + protowire.SizeVarint(n)
}

func sizeText(field protowire.Number, n int) int {
	if n == 0 {
		return 0
	}
	return protowire.SizeTag(field) + protowire.SizeBytes(n)
}

func sizeDuration(d *durationpb.Duration) int {
	return sizeNumber(durationSeconds, uint64(d.Seconds)) + sizeNumber(durationNanos, uint64(int64(d.Nanos)))
}

func sizeRequest(r *pb.InvokeRequest) int {
	if r == nil {
		return 0
	}
	n := sizeText(requestID, len(r.CallId)) + sizeText(requestMember, len(r.Member)) + sizeText(requestCapability, len(r.Capability)) +
		sizeText(requestBytes, len(r.Payload)) + sizeText(requestType, len(r.ContentType)) +
		sizeText(requestParent, len(r.Traceparent)) + sizeText(requestState, len(r.Tracestate)) + sizeText(requestBehalf, len(r.OnBehalf))
	if r.Deadline != nil {
		n += protowire.SizeTag(requestDeadline) + protowire.SizeBytes(sizeDuration(r.Deadline))
	}
	for _, who := range r.Requester {
		n += protowire.SizeTag(requestRequester) + protowire.SizeBytes(len(who))
	}
	return n
}

func sizeAnswer(a *pb.Answer) int {
	n := sizeNumber(answerID, a.GetId()) + sizeText(answerType, len(a.GetContentType())) + sizeText(answerBytes, len(a.GetPayload()))
	if a.GetFailure() != nil {
		n += protowire.SizeTag(answerFailure) + protowire.SizeBytes(pbf.Size(a.Failure))
	}
	return n
}
