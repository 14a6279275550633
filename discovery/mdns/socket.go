package mdns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// hopLimit is the TTL of all packets (RFC 6762 section 11). A receiver that sees it knows that no
// router was in between.
const hopLimit = 255

var (
	// group4 and group6 are the multicast addresses of mDNS (RFC 6762 section 3).
	group4 = netip.MustParseAddr("224.0.0.251")
	group6 = netip.MustParseAddr("ff02::fb")
)

// socket is a UDP socket of one address family that knows the interface of each packet, both ways.
// The packages ipv4 and ipv6 have the same methods with different types, so each method here has
// two similar halves. It is safe for concurrent use.
type socket struct {
	v6 bool
	p4 *ipv4.PacketConn
	p6 *ipv6.PacketConn

	// mu serializes sends on Windows, where the interface is a property of the socket, not of the
	// packet.
	mu sync.Mutex // serialises sends where the interface is the socket's, not the packet's
}

// openSocket opens a socket of a family; port 0 is a port of its own. Multicast loopback must work,
// because two nodes on one machine hear each other only by it. Other options may be missing (on
// Windows packets carry no interface) and are done without.
func openSocket(v6 bool, port int) (*socket, error) {
	c, err := listenPacket(v6, port)
	if err != nil {
		return nil, err
	}
	s := &socket{v6: v6}
	// Two nodes of one machine hear each other only if multicasts come back to it. Where an option does not exist
	// (interfaces per packet, on Windows), we do without, so only loopback's failure counts.
	if v6 {
		s.p6 = ipv6.NewPacketConn(c)
		_ = s.p6.SetControlMessage(ipv6.FlagInterface, true)
		_ = s.p6.SetMulticastHopLimit(hopLimit)
		err = s.p6.SetMulticastLoopback(true)
	} else {
		s.p4 = ipv4.NewPacketConn(c)
		_ = s.p4.SetControlMessage(ipv4.FlagInterface, true)
		_ = s.p4.SetMulticastTTL(hopLimit)
		err = s.p4.SetMulticastLoopback(true)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("setting multicast loopback: %w", err), c.Close())
	}
	return s, nil
}

// join joins the multicast group on each interface. It returns an error only when it could join on
// none: an interface that has only the other family is normal.
func (s *socket) join(ifaces []iface) error {
	var errs []error
	for _, i := range ifaces {
		if err := s.joinOne(i); err != nil {
			errs = append(errs, fmt.Errorf("joining %s on %s: %w", s.group(), i.Name, err))
		}
	}
	if len(errs) == len(ifaces) {
		return errors.Join(errs...)
	}
	return nil // an interface of the other family only is no trouble
}

// joinOne joins the group on one interface.
func (s *socket) joinOne(i iface) error {
	group := &net.UDPAddr{IP: s.group().AsSlice()}
	if s.v6 {
		return s.p6.JoinGroup(&i.Interface, group)
	}
	return s.p4.JoinGroup(&i.Interface, group)
}

// group returns the mDNS multicast address of the socket's family.
func (s *socket) group() netip.Addr {
	if s.v6 {
		return group6
	}
	return group4
}

// read returns one packet, the index of its interface (0 where the system does not say), and its
// sender. It blocks until close.
func (s *socket) read(b []byte) (n, index int, from netip.AddrPort, err error) {
	var src net.Addr
	if s.v6 {
		var cm *ipv6.ControlMessage
		if n, cm, src, err = s.p6.ReadFrom(b); cm != nil {
			index = cm.IfIndex
		}
	} else {
		var cm *ipv4.ControlMessage
		if n, cm, src, err = s.p4.ReadFrom(b); cm != nil {
			index = cm.IfIndex
		}
	}
	if u, ok := src.(*net.UDPAddr); ok {
		from = netip.AddrPortFrom(u.AddrPort().Addr().Unmap(), u.AddrPort().Port())
	}
	return n, index, from, err
}

// multicast sends a packet to the group on one interface.
func (s *socket) multicast(b []byte, i iface) error {
	group := s.group()
	if s.v6 {
		group = group.WithZone(i.Name)
	}
	return s.write(b, i, netip.AddrPortFrom(group, port))
}

// write sends a packet to one address over one interface.
func (s *socket) write(b []byte, i iface, to netip.AddrPort) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.setInterface(i); err != nil {
		return err
	}
	// On loopback the system would choose the address of another interface as the sender's, which neighbors there
	// are not (RFC 6762 section 11).
	var sender net.IP
	if i.loopback() {
		sender = i.own(s.v6).AsSlice()
	}
	var err error
	if s.v6 {
		_, err = s.p6.WriteTo(b, &ipv6.ControlMessage{IfIndex: i.Index, Src: sender}, net.UDPAddrFromAddrPort(to))
	} else {
		_, err = s.p4.WriteTo(b, &ipv4.ControlMessage{IfIndex: i.Index, Src: sender}, net.UDPAddrFromAddrPort(to))
	}
	return err
}

// setInterface sets the socket's outgoing interface on Windows, where a packet cannot carry it. The
// caller holds s.mu.
func (s *socket) setInterface(i iface) error {
	switch {
	case runtime.GOOS != "windows":
		return nil
	case s.v6:
		return s.p6.SetMulticastInterface(&i.Interface)
	}
	return s.p4.SetMulticastInterface(&i.Interface)
}

func (s *socket) close() error {
	if s.v6 {
		return s.p6.Close()
	}
	return s.p4.Close()
}

// share sets the options with which several programs can receive on the same port.
func share(_, _ string, c syscall.RawConn) error {
	var opt error
	err := c.Control(func(fd uintptr) { opt = setShared(fd) })
	return errors.Join(err, opt)
}

// listenPacket opens the UDP socket; only the well-known port is shared.
func listenPacket(v6 bool, port int) (net.PacketConn, error) {
	family, host := "udp4", "0.0.0.0"
	if v6 {
		family, host = "udp6", "::"
	}
	var lc net.ListenConfig
	if port != 0 {
		lc.Control = share
	}
	return lc.ListenPacket(context.Background(), family, net.JoinHostPort(host, strconv.Itoa(port)))
}
