package calls

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "symbio/proto/symbio/v1"
)

// full gives every field of m a value, two to those that are lists.
func full(m protoreflect.Message, payload int) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		one := func() protoreflect.Value {
			switch f.Kind() {
			case protoreflect.MessageKind:
				v := m.NewField(f)
				if f.IsList() {
					v = v.List().NewElement()
				}
				full(v.Message(), payload)
				return v
			case protoreflect.StringKind:
				return protoreflect.ValueOfString("text of " + string(f.Name()))
			case protoreflect.BytesKind:
				return protoreflect.ValueOfBytes(bytes.Repeat([]byte("x"), payload))
			case protoreflect.BoolKind:
				return protoreflect.ValueOfBool(true)
			case protoreflect.Int64Kind:
				return protoreflect.ValueOfInt64(-7)
			case protoreflect.Int32Kind:
				return protoreflect.ValueOfInt32(-8)
			case protoreflect.Uint32Kind:
				return protoreflect.ValueOfUint32(9)
			}
			return protoreflect.ValueOfUint64(300)
		}
		if !f.IsList() {
			m.Set(f, one())
			continue
		}
		all := m.NewField(f).List()
		all.Append(one())
		all.Append(one())
		m.Set(f, protoreflect.ValueOfList(all))
	}
}

// The codec has the fields of a frame by heart; this fails when a message has got one more.
func TestCodecKnowsEveryField(t *testing.T) {
	for _, size := range []int{1, 100, 16 << 10, 64 << 10} {
		want := &pb.Frame{}
		full(want.ProtoReflect(), size)
		c := newCodec()
		sent, err := c.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got := &pb.Frame{}
		if err := proto.Unmarshal(sent.Materialize(), got); err != nil || !proto.Equal(got, want) {
			t.Errorf("payloads of %d: sent %v, want %v: %v", size, got, want, err)
		}
		b, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got = &pb.Frame{}
		if err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, got); err != nil || !proto.Equal(got, want) {
			t.Errorf("payloads of %d: read %v, want %v: %v", size, got, want, err)
		}
	}
}

func TestFrameHasSoManyEntriesAndNoMore(t *testing.T) {
	calls := func(n int) *pb.Frame { return &pb.Frame{Calls: make([]*pb.Call, n)} }
	answers := func(n int) *pb.Frame { return &pb.Frame{Answers: make([]*pb.Answer, n)} }
	cancels := func(n int) *pb.Frame { return &pb.Frame{Cancels: make([]uint64, n)} }
	sends := func(n int) *pb.Frame { return &pb.Frame{Sends: make([]*pb.InvokeRequest, n)} }
	receipts := func(n int) *pb.Frame {
		return &pb.Frame{Receipt: &pb.Receipt{Undelivered: make([]*pb.Undelivered, n)}}
	}
	requesters := func(n int) *pb.Frame {
		return &pb.Frame{Calls: []*pb.Call{{Request: &pb.InvokeRequest{Requester: make([]string, n/2)}},
			{Request: &pb.InvokeRequest{Requester: make([]string, n-n/2)}}}}
	}
	for name, c := range map[string]struct {
		frame func(int) *pb.Frame
		most  int
	}{"calls": {calls, maxEntries},
		"answers": {answers, maxEntries}, "cancels": {cancels, maxEntries}, "sends": {sends, maxEntries},
		"receipts": {receipts, maxEntries}, "requesters": {requesters, maxRequesters}} {
		for n, want := range map[int]error{c.most: nil, c.most + 2: errEntries, 400_000: errEntries} {
			f := c.frame(n)
			f.Open = &pb.Open{Bulk: true}
			b, err := proto.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			var got pb.Frame
			if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, &got); !errors.Is(err, want) {
				t.Errorf("%d %s: got %v, want %v", n, name, err, want)
			}
			if held := len(got.Calls) + len(got.Answers) + len(got.Cancels) + len(got.Sends) +
				len(got.GetReceipt().GetUndelivered()); held > maxEntries+2 {
				t.Errorf("%d %s: %d were read before it was refused", n, name, held)
			}
		}
	}
}
