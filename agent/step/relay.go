package step

import (
	"maps"
	"slices"
)

// Relay is a way to a value that is kept elsewhere: in a Memory, or made of one that is. Relays are values to be
// handed to steps; the zero Relay is Constant of the zero value.
//
// The value of Get must not be changed, where it is a map or a slice: Insert, Union and Append do
// that, and what was returned before stays as it was.
type Relay[T any] struct {
	do func(f func(v T, ours bool) (T, effect)) // nil = the zero value, to be read
}

// Get returns the value.
func (r Relay[T]) Get() (v T) {
	if r.do != nil {
		r.do(func(now T, _ bool) (T, effect) { v = now; return now, lent })
	}
	return v
}

// Set replaces the value.
func (r Relay[T]) Set(v T) {
	if r.do != nil {
		r.do(func(T, bool) (T, effect) { return v, wrote })
	}
}

// Update replaces the value by f of the value, atomically, and returns the new value. f must
// not use this relay or another to the same Memory, which would wait for itself.
func (r Relay[T]) Update(f func(T) T) (v T) {
	if r.do == nil {
		return f(v)
	}
	r.do(func(now T, _ bool) (T, effect) { v = f(now); return v, wrote })
	return v
}

// NewRelay returns a Relay of two functions, for a value that is kept anywhere else.
// Get and set must be safe for concurrent use. An Update calls get and then set; between them
// others may set the value.
func NewRelay[T any](get func() T, set func(T)) Relay[T] {
	return Relay[T]{func(f func(T, bool) (T, effect)) {
		if v, e := f(get(), false); e == wrote || e == wroteOurs {
			set(v)
		}
	}}
}

// MapRelay is a relay to what to makes of the value; what is written to it is written as back makes it.
func MapRelay[T, U any](r Relay[T], to func(T) U, back func(U) T) Relay[U] {
	return Relay[U]{func(f func(U, bool) (U, effect)) {
		if r.do == nil {
			var v T
			f(to(v), false)
			return
		}
		r.do(func(now T, _ bool) (T, effect) {
			u, e := f(to(now), false)
			if e == wrote || e == wroteOurs {
				return back(u), wrote
			}
			return now, lent // to may have kept a part of it
		})
	}}
}

// ReadOnly is a relay to what f makes of the value. Writes to it are forgotten.
func ReadOnly[T, U any](r Relay[T], f func(T) U) Relay[U] {
	return Relay[U]{func(g func(U, bool) (U, effect)) { g(f(r.Get()), false) }}
}

// Constant is a relay to v. Writes to it are forgotten.
func Constant[T any](v T) Relay[T] {
	return Relay[T]{func(f func(T, bool) (T, effect)) { f(v, false) }}
}

// Set is a set of values, for a Memory of seen values.
type Set[T comparable] map[T]struct{}

// Contains reports whether a set has a value.
func Contains[T comparable](r Relay[Set[T]], v T) (has bool) {
	if r.do != nil {
		r.do(func(now Set[T], _ bool) (Set[T], effect) { _, has = now[v]; return now, looked })
	}
	return has
}

// Insert adds a value to a set, and reports whether it was not there: of many that insert the same
// one, one is told so.
func Insert[T comparable](r Relay[Set[T]], v T) bool { return Union(r, Set[T]{v: {}}) == 1 }

// Union adds all of more to a set, and returns how many were not there.
func Union[T comparable](r Relay[Set[T]], more Set[T]) (added int) {
	if r.do == nil {
		return 0
	}
	r.do(func(now Set[T], ours bool) (Set[T], effect) {
		before := len(now)
		if !ours || now == nil {
			copied := make(Set[T], before+len(more))
			maps.Copy(copied, now)
			now = copied
		}
		maps.Copy(now, more)
		added = len(now) - before
		return now, wroteOurs
	})
	return added
}

// Append adds values to the end of a list.
func Append[T any](r Relay[[]T], more ...T) {
	if r.do == nil {
		return
	}
	r.do(func(now []T, ours bool) ([]T, effect) {
		if !ours {
			now = slices.Clip(now) // so that append copies it
		}
		return append(now, more...), wroteOurs
	})
}

// Integer is every type of whole numbers.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Add adds n to a number and returns the sum.
func Add[T Integer](r Relay[T], n T) T { return r.Update(func(now T) T { return now + n }) }
