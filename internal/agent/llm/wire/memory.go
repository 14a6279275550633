package wire

import (
	"fmt"
	"sync/atomic"
	"time"

	"symbio/agent/llm"
)

// Memory bounds what the answers that a node reads at the same time have together, so that servers that send without end
// cannot use it up. It is safe for concurrent use and must not be copied.
type Memory struct {
	most int64
	used atomic.Int64
}

// NewMemory returns a Memory of so many bytes. An answer needs about six times its bytes while it is read, kept and shown.
func NewMemory(bytes int64) *Memory { return &Memory{most: bytes} }

// small is what each answer may have in any case, in bytes: longer than nearly all are.
const small = 256 << 10

// Grow counts n more bytes of the answer. The error is llm.ErrMalformed when it has more than maxAnswer, and llm.ErrUnavailable when
// it is large and all answers together fill the Memory.
func (x *Exchange) Grow(n int) error {
	if n == 0 {
		return nil
	}
	x.size += n
	x.grown = time.Now()
	if x.size > maxAnswer {
		return x.server.Fail(llm.ErrMalformed, 0, fmt.Sprintf("the answer is too long: more than %d MiB", maxAnswer>>20))
	}
	m := x.server.cfg.Memory
	if m == nil {
		return nil
	}
	x.taken += n
	if used := m.used.Add(int64(n)); used > m.most && x.size > small {
		return x.server.Fail(llm.ErrUnavailable, 0, "the answers that this node reads now are too long together, and this one is longer than others")
	}
	return nil
}

// release gives back what the answer has taken of the Memory.
func (x *Exchange) release() {
	if m := x.server.cfg.Memory; m != nil {
		m.used.Add(-int64(x.taken))
	}
	x.size, x.taken = 0, 0
}
