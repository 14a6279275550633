package transfer

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/klauspost/compress/zstd"

	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/security/strictjson"
)

// Capability is the name of the capability. It is reached by the rule under authorize that allows
// agents.spawn.
const Capability = "agents.workspace"

// The operations of Capability.
const (
	opMissing = "missing" // which of Hashes, or of the contents of the manifest Hash, the lender lacks
	opPut     = "put"     // the body has the contents of Hashes, of Sizes
	opJoin    = "join"    // Hash is the contents of Hashes, one after the other
	opPatch   = "patch"   // makes the patch of Member's changes, and tells its hash and size
	opGet     = "get"     // sends the content Hash from Offset on
)

const (
	// maxChunk is the size of a content that is sent in one piece, and of the contents of one message, in
	// bytes. With what goes with it, it stays below the default of limits.message, 1 MiB.
	maxChunk = 768 << 10
	// maxHashes is how many hashes are in one message, for the same reason.
	maxHashes = 8000
	// maxUnpacked bounds a message that was decompressed: a chunk and its hashes.
	maxUnpacked = 2 << 20
	// maxManifest bounds an encoded manifest or patch: 20,000 files with long names.
	maxManifest = 16 << 20
)

// header is the first line of a call and of its reply.
type header struct {
	Op     string             `json:"op,omitempty"`
	Hash   content.Hash       `json:"hash,omitzero"`
	Hashes []content.Hash     `json:"hashes,omitempty"`
	Sizes  []int              `json:"sizes,omitempty"`
	Member community.MemberID `json:"member,omitempty"`
	Size   int64              `json:"size,omitempty"` // of the content Hash
	Offset int64              `json:"offset,omitempty"`
	// Chunk is how many bytes of contents the lender takes in one message; in the reply to missing.
	Chunk int `json:"chunk,omitempty"`
	// Left are the changes that a patch does not have.
	Left string `json:"left,omitempty"`
}

// codec encodes and decodes messages. It is safe for concurrent use.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// newCodec returns a codec that makes at most maxUnpacked bytes of a message, whatever that says.
func newCodec() (c codec, err error) {
	// contents have a hash
	if c.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20),
		zstd.WithEncoderCRC(false)); err == nil {
		c.dec, err = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecoderMaxWindow(1<<20), zstd.WithDecoderLowmem(true))
	}
	return c, err
}

// The first byte of a message.
const plain, packed = 'P', 'Z'

// encode returns a message, compressed if that makes it shorter.
func (c codec) encode(h header, body []byte) ([]byte, error) {
	line, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	text := append(append(append(make([]byte, 0, len(line)+len(body)+2), plain), line...), '\n')
	text = append(text, body...)
	if small := c.enc.EncodeAll(text[1:], append(make([]byte, 0, len(text)), packed)); len(small) < len(text) {
		return small, nil
	}
	return text, nil
}

// decode reads a message. It refuses unknown fields, so that a newer node learns at once that this one
// does not know the request.
func (c codec) decode(data []byte) (h header, body []byte, err error) {
	switch {
	case len(data) > 0 && data[0] == plain:
		data = data[1:]
	case len(data) > 0 && data[0] == packed:
		if data, err = c.dec.DecodeAll(data[1:], nil); err != nil {
			return h, nil, errors.New("the message cannot be decompressed, or is too long then")
		}
	default:
		data = nil
	}
	line, body, found := bytes.Cut(data, []byte("\n"))
	if err := strictjson.Unmarshal(line, &h); err != nil || !found {
		return header{}, nil, errors.New("the header of the message cannot be read")
	}
	if h.Size < 0 || h.Offset < 0 || len(h.Hashes) > maxHashes {
		return header{}, nil, errors.New("a number in the header of the message is out of range")
	}
	return h, body, nil
}
