package grpcpeer_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"

	"symbio/community"
	"symbio/discovery"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// lan is a network in memory: nodes with certificates of one authority, and wires that can be cut.
type lan struct {
	t          testing.TB
	dir        string
	tune       func(*grpcpeer.Config) // of every Network; may be nil
	authority  *identity.Authority
	identities map[community.NodeID]*identity.Identity // of the stations; guarded by mu
	cluster    *identity.Cluster                       // instead of authority, where there is one
	addressed  bool                                    // connections have the addresses of their ends

	shut map[string]bool // by name: the stations that only dial out

	mu    sync.Mutex
	all   []*station
	apart map[community.NodeID]bool // cut off from all who are not in it; guarded by mu
	turn  chan struct{}             // closed and replaced when apart changes; guarded by mu
}

// station is one Network on the lan. The same node may have had others before.
type station struct {
	lan      *lan
	id       community.NodeID
	addr     netip.AddrPort
	listener *pipeListener
	network  *grpcpeer.Network
	dead     chan struct{}
	shut     bool // only dials out; guarded by lan.mu
}

func newLAN(t testing.TB) *lan {
	t.Helper()
	dir := t.TempDir()
	a, err := identity.OpenLocalAuthority(filepath.Join(dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	l := &lan{t: t, dir: dir, shut: map[string]bool{}, authority: a, apart: map[community.NodeID]bool{}, identities: map[community.NodeID]*identity.Identity{}, turn: make(chan struct{})}
	t.Cleanup(l.Heal) // last of all: wires that are cut end then
	return l
}

// identity returns that of the node called name, the same each time.
func (l *lan) identity(name string) *identity.Identity {
	l.t.Helper()
	k, err := identity.LoadOrCreateKey(filepath.Join(l.dir, name, "key.pem"))
	if err != nil {
		l.t.Fatal(err)
	}
	if l.cluster != nil {
		return l.member(k, name)
	}
	i, err := l.authority.Issue(k)
	if err != nil {
		l.t.Fatal(err)
	}
	return i
}

// add makes a station for the node called name that nobody has heard of yet.
func (l *lan) add(name string, tune ...func(*grpcpeer.Config)) *station {
	l.t.Helper()
	l.mu.Lock()
	addr := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(1000+len(l.all)))
	l.mu.Unlock()
	s := &station{lan: l, addr: addr, listener: newPipeListener(), dead: make(chan struct{})}
	if l.addressed {
		s.listener.addr = net.TCPAddrFromAddrPort(addr)
	}
	cfg := grpcpeer.Config{Identity: l.identity(name), Listener: s.listener, Name: name, Dial: s.dial}
	if l.tune != nil {
		tune = append(tune, l.tune)
	}
	for _, f := range tune {
		f(&cfg)
	}
	n, err := grpcpeer.New(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	s.id, s.network, s.shut = cfg.Identity.ID(), n, l.shut[name]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.identities[s.id] = cfg.Identity
	l.all = append(l.all, s)
	return s
}

func (s *station) hint() discovery.Candidate {
	return discovery.Candidate{Key: string(s.id), Node: string(s.id), Addrs: []netip.AddrPort{s.addr}}
}

// Join is part of Fixture.
func (l *lan) Join(t *testing.T, name string) Node {
	t.Helper()
	s := l.add(name)
	l.mu.Lock()
	others := l.all[:len(l.all)-1]
	l.mu.Unlock()
	for _, o := range others {
		if o.id != s.id && !o.isDead() {
			o.network.AddHint(s.hint())
			s.network.AddHint(o.hint())
		}
	}
	return Node{ID: s.id, Network: s.network}
}

// Kill is part of Killer.
func (l *lan) Kill(id community.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.all {
		if s.id == id && !s.isDead() {
			close(s.dead)
		}
	}
}

// Partition is part of Partitioner.
func (l *lan) Partition(ids ...community.NodeID) {
	l.change(func() {
		for _, id := range ids {
			l.apart[id] = true
		}
	})
}

// Heal is part of Partitioner.
func (l *lan) Heal() { l.change(func() { clear(l.apart) }) }

func (l *lan) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.turn)
	l.turn = make(chan struct{})
}

func (s *station) isDead() bool {
	select {
	case <-s.dead:
		return true
	default:
		return false
	}
}

// pass waits until something can get from a to b, or stop is closed.
func (l *lan) pass(a, b *station, stop <-chan struct{}) bool {
	for {
		l.mu.Lock()
		cut, turn := l.apart[a.id] != l.apart[b.id], l.turn
		l.mu.Unlock()
		if !cut {
			return true
		}
		select {
		case <-turn:
		case <-stop:
			return false
		}
	}
}

// dial opens a wire from s to the station at addr: two pipes and somebody who carries between them.
func (s *station) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	var to *station
	s.lan.mu.Lock()
	for _, o := range s.lan.all {
		if o.addr == addr {
			to = o
		}
	}
	s.lan.mu.Unlock()
	if to != nil && !s.lan.pass(s, to, ctx.Done()) {
		return nil, ctx.Err()
	}
	if to == nil || to.isDead() || s.isDead() || to.isShut() {
		return nil, errors.New("connection refused")
	}
	far, err := to.listener.dial(ctx, func(c *pipeEnd) {
		if s.lan.addressed {
			c.local, c.remote = net.TCPAddrFromAddrPort(addr), net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.addr.Addr(), 9))
		}
	})
	if err != nil {
		return nil, err
	}
	near, end := newPipe()
	if s.lan.addressed {
		near.local, near.remote = net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.addr.Addr(), 9)), net.TCPAddrFromAddrPort(addr)
	}
	s.lan.wire(s, to, end, far)
	return near, nil
}

// wire carries between two connections until one of them closes or one of the stations dies.
func (l *lan) wire(a, b *station, ca, cb net.Conn) {
	over := make(chan struct{})
	end := sync.OnceFunc(func() { close(over); ca.Close(); cb.Close() })
	carry := func(from, to *station, src io.Reader, dst io.Writer) {
		buf := make([]byte, 32<<10)
		for {
			n, err := src.Read(buf)
			if !l.pass(from, to, over) { // what is under way when the wire is cut arrives after it heals
				return
			}
			if err == nil {
				_, err = dst.Write(buf[:n])
			}
			if err != nil {
				end()
				return
			}
		}
	}
	go carry(a, b, ca, cb)
	go carry(b, a, cb, ca)
	go func() {
		select {
		case <-a.dead:
		case <-b.dead:
		case <-over:
		}
		end()
	}()
}

// Freeze is part of Freezer. Seen from outside, a frozen node is one that nothing reaches
// and nothing comes from; a process that is really stopped is in TestFrozenProcessComesBack.
func (l *lan) Freeze(id community.NodeID) { l.Partition(id) }

// Wake is part of Freezer.
func (l *lan) Wake(id community.NodeID) { l.change(func() { delete(l.apart, id) }) }

// OnlyDialsOut is part of Shutter.
func (l *lan) OnlyDialsOut(name string) { l.shut[name] = true }

func (s *station) isShut() bool {
	s.lan.mu.Lock()
	defer s.lan.mu.Unlock()
	return s.shut
}

// shuts lets nobody dial the station, or everybody again.
func (s *station) shuts(shut bool) {
	s.lan.mu.Lock()
	defer s.lan.mu.Unlock()
	s.shut = shut
}
