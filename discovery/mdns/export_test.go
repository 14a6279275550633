package mdns

import (
	"errors"
	"net/netip"
)

// AnnounceAndDie announces a source's node once and ends without a goodbye.
func AnnounceAndDie(s *Source) error {
	me, err := newSelf(s.cfg)
	if err != nil {
		return err
	}
	l := newLoop(s, me, nil)
	defer l.disconnect()
	l.checkInterfaces()
	if l.link == nil {
		return errors.Join(errors.New("no link"), s.Health())
	}
	l.announce(l.view.used[0].Index, recordTTL)
	return nil
}

// Overhear reports the senders of all responses on loopback until stop is called.
func Overhear(sender func(netip.Addr)) (stop func(), err error) {
	all, err := usableInterfaces()
	if err != nil {
		return nil, err
	}
	l, err := system{}.open(choose(all, true, nil, nil), func(in packet) {
		if in.msg.Response {
			sender(in.from.Addr())
		}
	})
	if err != nil {
		return nil, err
	}
	return l.close, nil
}
