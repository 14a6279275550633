package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"

	"symbio/community"
)

// maxPacket is the longest packet that is sent: what an Ethernet takes whole, with some room for tunnels.
const maxPacket = 1400

// transport carries memberlist's packets over Config.Packets, and its streams over the Group's.
type transport struct {
	group   *Group
	packets chan *memberlist.Packet
	streams chan net.Conn
}

func newTransport(g *Group) *transport {
	return &transport{group: g, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn)}
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// FinalAdvertiseAddr returns where another node has reached this one.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	a := t.group.advertised()
	return a.Addr().AsSlice(), int(a.Port()), nil
}

func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress sends one packet, encrypted. A packet that the network does not take is lost, as any may be.
func (t *transport) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	addr, err := netip.ParseAddrPort(to.Addr)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.group.cfg.Packets.WriteTo(t.group.keys.seal(b), net.UDPAddrFromAddrPort(addr))
	return time.Now(), err
}

func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }
func (t *transport) StreamCh() <-chan net.Conn           { return t.streams }

func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream to the node of a member.
func (t *transport) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	addr, err := netip.ParseAddrPort(to.Addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(t.group.ctx, timeout)
	defer cancel()
	id, _, _ := strings.Cut(to.Name, ".")
	return t.group.open(ctx, addr, community.NodeID(id), kindMembers)
}

// Shutdown has nothing to do: the Group's context ends the streams, and Run closes the packets.
func (t *transport) Shutdown() error { return nil }

// receive reads packets until Config.Packets is closed. Those that cannot be decrypted are dropped.
func (t *transport) receive() error {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := t.group.cfg.Packets.ReadFrom(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case t.group.ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("read packets: %w", err)
		}
		now := time.Now()
		text, err := t.group.keys.open(buf[:n])
		if errors.Is(err, errUnknownKey) {
			t.group.askForKey(from)
		}
		if err != nil || !t.group.takesPart() {
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: text, From: from, Timestamp: now}:
		case <-t.group.ctx.Done():
			return nil
		}
	}
}
