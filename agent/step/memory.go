package step

import "sync"

// Memory is a value that steps share. It is safe for concurrent use, and an Update
// is atomic. The zero Memory holds the zero value. It must not be copied; steps are given its
// Relay.
type Memory[T any] struct {
	mu    sync.Mutex
	value T    // guarded by mu
	ours  bool // no caller holds a reference into value; guarded by mu
}

// NewMemory returns a Memory that holds v.
func NewMemory[T any](v T) *Memory[T] { return &Memory[T]{value: v} }

// Relay is the way to the value for those that are to share it.
func (m *Memory[T]) Relay() Relay[T] { return Relay[T]{m.do} }

// Get returns the value.
func (m *Memory[T]) Get() T { return m.Relay().Get() }

// Set replaces the value.
func (m *Memory[T]) Set(v T) { m.Relay().Set(v) }

// Update is Relay.Update.
func (m *Memory[T]) Update(f func(T) T) T { return m.Relay().Update(f) }

func (m *Memory[T]) do(f func(v T, ours bool) (T, effect)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, e := f(m.value, m.ours)
	switch e {
	case looked:
	case lent:
		m.ours = false
	case wrote:
		m.value, m.ours = v, false
	case wroteOurs:
		m.value, m.ours = v, true
	}
}

// effect is what a function did with the value of a Memory. It is how collections grow in place as
// long as no caller has been given them, and are copied once when one has.
type effect int

const (
	looked    effect = iota // nothing of it was kept
	lent                    // a caller has it now
	wrote                   // there is another, which a caller may have
	wroteOurs               // there is another, which no caller has
)
