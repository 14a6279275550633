package calls

import (
	"bytes"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	pb "symbio/proto/symbio/v1"
)

// codec is gRPC's codec for protobuf, except that it writes and reads frames piecewise (encode.go, decode.go),
// for three reasons. Long payloads are not copied: the standard codec copies 64 KiB into a pooled buffer of
// 1 MiB, which it clears first, at each end, and once more at the end that reads. A short call costs fewer
// objects. And the limits of a frame hold before its entries are allocated.
//
// A message must not be changed while it is sent. Unknown fields of a received frame are dropped.
type codec struct {
	encoding.CodecV2
	long   int            // bytes; payloads from this size on are not copied
	frames mem.BufferPool // for frames without long payloads
}

// NewCodec returns the codec that servers and clients of Peer must use for Link streams. It handles
// all other messages as gRPC's own does.
func NewCodec() encoding.CodecV2 { return newCodec() }

func newCodec() codec {
	return codec{encoding.GetCodecV2(proto.Name), 8 << 10, mem.NewTieredBufferPool(4<<10, 16<<10, maxFrame+maxFrame/2)}
}

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*pb.Frame)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	return c.encode(f)
}

// Unmarshal decodes data. For a frame with long payloads it copies data once, into a buffer that
// the payloads then share; a short frame is decoded from a pooled buffer, from which everything is
// copied.
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
	// Long payloads remain parts of this buffer, so it must not be reused. Join does not clear it first, and
	// copies a single part, too.
	parts := make([][]byte, len(data))
	for i, part := range data {
		parts[i] = part.ReadOnlyData()
	}
	return c.decode(bytes.Join(parts, nil), f)
}
