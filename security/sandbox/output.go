package sandbox

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// Output is the beginning and the end of a command's output, one half each. Both matter to a
// reader: the first error is at the beginning, the summary at the end.
type Output struct {
	// Head is all of it, and Tail empty, unless something was cut.
	Head, Tail []byte
	// Cut counts the bytes between them that were dropped.
	Cut int64
}

// String returns what was kept, with a line in between that says how many bytes were cut.
func (o Output) String() string {
	if o.Cut == 0 {
		return string(o.Head) + string(o.Tail)
	}
	return fmt.Sprintf("%s\n[… %d bytes cut …]\n%s", o.Head, o.Cut, o.Tail)
}

// recorder keeps the first and the last half of keep bytes that are written to it, and counts the
// rest. Its memory is bounded by keep, however much a command prints. It may be used from many
// goroutines.
type recorder struct {
	// keep is at least 2, so that the tail has room; flood is shared with the command's other
	// stream.
	keep  int
	flood *flood
	// seen sees what is written, too; its errors are ignored. nil is none.
	seen io.Writer

	mu sync.Mutex
	// head grows to its half and then stays; guarded by mu.
	head []byte
	// tail is the text after it; the last half of keep is wanted; guarded by mu.
	tail []byte
	// cut counts the bytes that were dropped; guarded by mu.
	cut int64
}

// Write records p and never fails, so that a command does not end with a broken pipe because
// its output is not kept. The flood limit ends it instead.
func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	n := min(len(p), r.keep-r.keep/2-len(r.head))
	r.head, r.tail = append(r.head, p[:n]...), append(r.tail, p[n:]...)
	if len(r.tail) > r.keep { // not each time: that would move what is kept for each byte
		r.trim()
	}
	r.mu.Unlock()
	r.flood.add(len(p))
	if r.seen != nil {
		r.seen.Write(p)
	}
	return len(p), nil
}

// trim drops what comes before the last half of keep. The caller holds r.mu.
func (r *recorder) trim() {
	if over := len(r.tail) - r.keep/2; over > 0 {
		r.cut += int64(over)
		r.tail = append(r.tail[:0], r.tail[over:]...)
	}
}

// output returns what was recorded so far. It shares its memory with the recorder: it is called
// after the last write.
func (r *recorder) output() Output {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trim()
	if r.cut == 0 {
		return Output{Head: append(r.head, r.tail...)}
	}
	return Output{r.head, r.tail, r.cut}
}

// flood ends a command that prints without end. Both streams of a command share one. It may be
// used from many goroutines.
type flood struct {
	// most is the limit in bytes, over what to call when it is passed, once.
	most  int64
	over  func()
	total atomic.Int64
}

// add counts n bytes.
func (f *flood) add(n int) {
	if total := f.total.Add(int64(n)); total > f.most && total-int64(n) <= f.most {
		f.over()
	}
}
