package calls

import (
	"slices"
	"time"
)

// turn is a call, and how it is sent.
type turn struct {
	message *callMessage
	size    int // bytes
	out     *outbox
	at      time.Time // its deadline
}

func (t turn) item() item { return item{call: &t.message.call, size: t.size} }

// turns is a queue of calls, the oldest first. The zero value is empty.
type turns struct {
	all  []turn
	gone int // of all, from the front
}

func (q *turns) len() int { return len(q.all) - q.gone }

// push appends a call. It moves the others to the front only when half of the memory is free there.
func (q *turns) push(t turn) {
	if len(q.all) == cap(q.all) && 2*q.gone >= len(q.all) {
		q.all, q.gone = slices.Delete(q.all, 0, q.gone), 0
	}
	q.all = append(q.all, t)
}

// pop takes the oldest call out. It returns false if there is none.
func (q *turns) pop() (t turn, ok bool) {
	if q.len() == 0 {
		return turn{}, false
	}
	t, q.all[q.gone] = q.all[q.gone], turn{}
	q.gone++
	return t, true
}

// remove takes a call out, and reports whether it was there.
func (q *turns) remove(id uint64) bool {
	at := slices.IndexFunc(q.all[q.gone:], func(t turn) bool { return t.message.call.GetId() == id })
	if at < 0 {
		return false
	}
	q.all = slices.Delete(q.all, q.gone+at, q.gone+at+1)
	return true
}
