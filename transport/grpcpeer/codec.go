package grpcpeer

import (
	"bytes"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	pb "symbio/proto/symbio/v1"
)

// codec is gRPC's for protobuf, but for frames. Those it writes and reads itself (encode.go, decode.go),
// for three reasons: long payloads are not copied, while the standard one copies 64 KiB into a pooled
// buffer of 1 MiB, which it clears first, at each end, and once more at the end that reads; a short call
// costs half as many objects; and what a frame may make this node allocate is known before it does.
//
// A message that is being sent is nobody else's. What is of a later minor version in one that came is
// left out.
type codec struct {
	encoding.CodecV2
	long int // bytes of a payload that is worth the trouble
}

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name), 8 << 10} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*pb.Frame)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	return c.encode(f)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*pb.Frame)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if data.Len() < c.long {
		b := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer b.Free()
		return c.decode(b.ReadOnlyData(), f)
	}
	// Long payloads stay where they are in it, so it is nobody's to use again. Join does not clear it first,
	// and copies a single part, too.
	parts := make([][]byte, len(data))
	for i, part := range data {
		parts[i] = part.ReadOnlyData()
	}
	return c.decode(bytes.Join(parts, nil), f)
}
