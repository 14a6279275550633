package grpcpeer

import "context"

// dialSlots are those for dials at once: to candidates that were never reached, to those connected
// before, to those that only other nodes name, and to those that the configuration names.
type dialSlots struct{ unproven, proven, byOthers, configured *adaptiveLimit }

// newDialSlots returns n slots for each kind of target, and 16 times as many for configured ones.
func newDialSlots(n int) dialSlots {
	return dialSlots{newAdaptiveLimit(n), newAdaptiveLimit(n), newAdaptiveLimit(n), newAdaptiveLimit(16 * n)}
}

// acquire waits for a slot to dial in, and returns where it is to be released. The kinds of targets have slots of their own:
// false hints, which anyone on the LAN can send, must not delay nodes that were connected before or that the
// configuration names.
func (s dialSlots) acquire(ctx context.Context, t target) (*adaptiveLimit, error) {
	places := s.unproven
	switch {
	case t.proven != "":
		places = s.proven
	case t.introduced:
		places = s.byOthers
	case !t.unproven:
		places = s.configured
	}
	return places, places.acquire(ctx, t)
}
