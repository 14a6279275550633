package mdns

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	responder "github.com/hashicorp/mdns"
	"github.com/miekg/dns"
)

const (
	port = 5353
	// maxPacket is the largest mDNS packet in bytes (RFC 6762 section 17). maxQuestion bounds the
	// questions of one packet; more is an attack.
	maxPacket   = 9000
	maxQuestion = 32
)

// network is what a Source needs of the machine. system implements it; tests use a LAN in memory.
type network interface {
	// interfaces lists the interfaces that are up.
	interfaces() ([]iface, error)
	// open begins to receive on the used interfaces; deliver is called concurrently and does not block.
	open(v view, deliver func(packet)) (link, error)
	// serve starts the library's server on one interface.
	serve(i iface, z *zone) (stop func(), err error)
}

// link sends and receives messages on the interfaces of a view.
type link interface {
	// send multicasts a message on an interface: from port 5353 if it announces, from our own port if it asks.
	send(m *dns.Msg, i iface) error
	// reply answers a packet by unicast, on the interface it came over.
	reply(m *dns.Msg, to packet) error
	// degraded returns what does not work although the rest does, or nil. canRecover reports that
	// it would work if the link were opened anew.
	degraded() error
	canRecover() bool
	// isDead reports that nothing is received any more.
	isDead() bool
	// close closes the sockets and waits for the readers.
	close()
}

// system is the real network.
type system struct{}

func (system) interfaces() ([]iface, error) { return usableInterfaces() }

// serve starts a server of hashicorp/mdns. Its Shutdown closes the sockets without waiting for the goroutines that
// read them, at most two: those may still be returning from their read for an instant after stop, but they hold nothing
// of ours any more, because the zone has been retired.
func (system) serve(i iface, z *zone) (func(), error) {
	server, err := responder.NewServer(&responder.Config{
		Zone: z, Iface: &i.Interface,
		Logger: log.New(io.Discard, "", 0), // it logs whole packets of strangers
	})
	if err != nil {
		return nil, fmt.Errorf("answering on %s: %w", i.Name, err)
	}
	return func() {
		z.retire()
		_ = server.Shutdown() // it returns nil always
	}, nil
}

// sockets is a link over UDP. Per address family it has a socket on port 5353, shared with other
// responders of this machine, and a socket on a port of its own for queries, to which peers answer
// by unicast.
type sockets struct {
	view    view
	listen  []*socket
	query   []*socket
	readers sync.WaitGroup
	alive   atomic.Int32
	partly  error
}

// open opens the sockets for the interfaces of v. It returns an error when neither address family
// works; one that works is enough.
func (system) open(v view, deliver func(packet)) (link, error) {
	if len(v.used) == 0 {
		return nil, errors.New("mdns: no usable network interface: none is up, has an address and can carry multicast" +
			" (and is allowed by the configuration); connect one, or name peers with discovery.peers")
	}
	l := &sockets{view: v}
	var errs []error
	for _, v6 := range []bool{false, true} {
		if err := l.openFamily(v6); err != nil {
			errs = append(errs, err)
		}
	}
	if len(l.listen) == 0 {
		return nil, fmt.Errorf("mdns: receiving on UDP port %d: %w; if another program holds the port alone, stop it or make"+
			" it share the port; or name peers with discovery.peers", port, errors.Join(errs...))
	}
	v4 := slices.ContainsFunc(v.used, func(i iface) bool { return i.own(false).IsValid() })
	if v4 && l.listen[0].v6 { // without IPv6 nothing is amiss
		l.partly = fmt.Errorf("mdns: only IPv6 works: receiving on UDP port %d: %w", port, errors.Join(errs...))
	}
	for _, s := range append(slices.Clone(l.listen), l.query...) {
		l.alive.Add(1)
		l.readers.Go(func() {
			defer l.alive.Add(-1)
			l.read(s, slices.Contains(l.query, s), deliver)
		})
	}
	return l, nil
}

// openFamily opens both sockets of an address family, or neither.
func (l *sockets) openFamily(v6 bool) error {
	listen, err := openSocket(v6, port)
	if err != nil {
		return err
	}
	if err := listen.join(l.view.used); err != nil {
		return errors.Join(err, listen.close())
	}
	ask, err := openSocket(v6, 0)
	if err != nil {
		return errors.Join(err, listen.close())
	}
	l.listen, l.query = append(l.listen, listen), append(l.query, ask)
	return nil
}

// read passes packets to deliver until the socket is closed. It drops malformed packets. Errors of
// a socket usually come from one interface, so it goes on after them; 100 in a row end it, and
// the loop then opens a new link (isDead).
func (l *sockets) read(s *socket, unicast bool, deliver func(packet)) {
	buf := make([]byte, maxPacket)
	for failures := 0; failures < 100; {
		n, index, from, err := s.read(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			failures++ // an interface went down, say; only a socket that never works again ends this
			continue
		}
		failures = 0
		if p, ok := l.parse(buf[:n], index, from); ok {
			p.unicast = unicast
			deliver(p)
		}
	}
}

// parse decodes a packet and checks its origin. Answers count only from port 5353 of a neighbor
// (RFC 6762 sections 6 and 11); a question from elsewhere is passed on without an interface,
// because the filter must know of it.
func (l *sockets) parse(b []byte, index int, from netip.AddrPort) (packet, bool) {
	m := new(dns.Msg)
	if m.Unpack(b) != nil || len(m.Question) > maxQuestion {
		return packet{}, false
	}
	i, near := l.view.arrived(index, from.Addr())
	if m.Response && (!near || from.Port() != port) {
		return packet{}, false // RFC 6762 section 6 and 11: answers come from port 5353 of a neighbor
	}
	return packet{msg: m, from: from, iface: i}, true // a question from elsewhere has no interface
}

// send multicasts a message on one interface, in each address family that the interface has. One
// success is enough.
func (l *sockets) send(m *dns.Msg, i iface) error {
	b, err := m.Pack()
	if err != nil {
		return err
	}
	from := l.query
	if m.Response {
		from = l.listen
	}
	var errs []error
	for _, s := range from {
		if i.own(s.v6).IsValid() {
			errs = append(errs, s.multicast(b, i))
		}
	}
	if slices.Contains(errs, nil) {
		return nil
	}
	return errors.Join(errs...)
}

// reply sends an answer by unicast, from port 5353, over the interface on which the question came.
func (l *sockets) reply(m *dns.Msg, to packet) error {
	b, err := m.Pack()
	if err != nil {
		return err
	}
	for _, s := range l.listen {
		if s.v6 == to.from.Addr().Is6() {
			return s.write(b, to.iface, to.from)
		}
	}
	return errors.New("no socket of this address family")
}

func (l *sockets) degraded() error { return l.partly }

// canRecover tries to open the socket that was missing, and closes it again.
func (l *sockets) canRecover() bool {
	if l.partly == nil {
		return false
	}
	s, err := openSocket(false, port)
	return err == nil && errors.Join(s.join(l.view.used), s.close()) == nil
}

func (l *sockets) isDead() bool { return l.alive.Load() == 0 }

// close closes the sockets, which ends the readers, and waits for them.
func (l *sockets) close() {
	for _, s := range append(slices.Clone(l.listen), l.query...) {
		_ = s.close() // nothing is buffered; there is nothing to do about it
	}
	l.readers.Wait()
}
