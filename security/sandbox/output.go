package sandbox

import (
	"fmt"
	"sync"
)

// Output is the beginning and the end of what a command printed, one half each. Both matter to a
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

	mu sync.Mutex
	// head grows to its half and then stays; guarded by mu.
	head []byte
	// tail is a ring once it is full; guarded by mu.
	tail []byte
	// next is the oldest byte of the full ring, which is overwritten next; guarded by mu.
	next int
	// cut counts the bytes that were overwritten or never kept; guarded by mu.
	cut int64
}

// Write records p and never fails, so that a command does not end with a broken pipe because
// its output is not kept. The flood limit ends it instead.
func (r *recorder) Write(p []byte) (int, error) {
	n := len(p)
	r.mu.Lock()
	r.add(p)
	r.mu.Unlock()
	r.flood.add(n)
	return n, nil
}

// add records p; the tail is a ring once it is full. The caller holds r.mu.
func (r *recorder) add(p []byte) {
	half := r.keep / 2
	if room := r.keep - half - len(r.head); room > 0 {
		k := min(room, len(p))
		r.head = append(r.head, p[:k]...)
		p = p[k:]
	}
	// Of a large write only the end can stay in the ring.
	if over := len(p) - half; over > 0 { // only its end can stay
		r.cut += int64(over)
		p = p[over:]
	}
	if room := half - len(r.tail); room > 0 {
		k := min(room, len(p))
		r.tail = append(r.tail, p[:k]...)
		p = p[k:]
	}
	r.cut += int64(len(p))
	for len(p) > 0 {
		k := copy(r.tail[r.next:], p)
		r.next = (r.next + k) % half
		p = p[k:]
	}
}

// output returns what was recorded so far. Head shares its memory with the recorder: it is called
// after the last write.
func (r *recorder) output() Output {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := Output{Head: r.head, Cut: r.cut}
	o.Tail = append(append(o.Tail, r.tail[r.next:]...), r.tail[:r.next]...)
	if o.Cut == 0 {
		o.Head, o.Tail = append(o.Head, o.Tail...), nil
	}
	return o
}

// flood ends a command that prints without end. Both streams of a command share one. It may be
// used from many goroutines.
type flood struct {
	// most is the limit in bytes, over what to call when it is passed.
	most int64
	over func()

	mu    sync.Mutex
	total int64 // guarded by mu
}

// add counts n bytes, and calls over once when the limit is passed; not under the lock,
// because over ends the process.
func (f *flood) add(n int) {
	f.mu.Lock()
	before := f.total
	f.total += int64(n)
	over := before <= f.most && f.total > f.most
	f.mu.Unlock()
	if over {
		f.over()
	}
}
