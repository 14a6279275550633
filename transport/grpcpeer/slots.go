package grpcpeer

import "context"

// dialSlots are those for dials at once: to candidates that were never reached, to those connected
// before, to those that only other nodes name, and to those that the configuration names.
type dialSlots struct{ unproven, proven, byOthers, configured chan struct{} }

// newDialSlots returns n slots for each kind of target, and 16 times as many for configured ones.
func newDialSlots(n int) dialSlots {
	places := func(n int) chan struct{} { return make(chan struct{}, n) }
	return dialSlots{places(n), places(n), places(n), places(16 * n)}
}

// acquire waits for a slot to dial in. The kinds of targets have slots of their own: false hints,
// which anyone on the LAN can send, must not delay nodes that were connected before or that the
// configuration names. release frees the slot.
func (s dialSlots) acquire(ctx context.Context, t target) (release func(), err error) {
	places := s.unproven
	switch {
	case t.proven != "":
		places = s.proven
	case t.introduced:
		places = s.byOthers
	case !t.unproven:
		places = s.configured
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-t.better:
		return nil, errNewHint
	case <-t.dropped:
		return nil, errNewHint
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
