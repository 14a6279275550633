package grpcpeer_test

import (
	"sync"
	"testing"

	"symbio/community"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// lan is a LAN in memory, whose nodes may be of a cluster.
type lan struct {
	*grpcpeertest.LAN
	t       testing.TB
	tune    func(*grpcpeer.Config) // of every Network; may be nil
	cluster *identity.Cluster      // instead of the LAN's authority, where there is one

	shut map[string]bool // by name: the stations that only dial out

	mu       sync.Mutex
	stations map[community.NodeID]*station // the latest of each node; guarded by mu
}

// station is a node of the lan.
type station struct {
	*grpcpeertest.Node
	lan      *lan
	identity *identity.Identity
}

func newLAN(t testing.TB) *lan { return newSlowLAN(t, grpcpeertest.Config{}) }

func newSlowLAN(t testing.TB, cfg grpcpeertest.Config) *lan {
	t.Helper()
	return &lan{LAN: grpcpeertest.NewLAN(t, cfg), t: t, shut: map[string]bool{}, stations: map[community.NodeID]*station{}}
}

// identity returns that of the node called name; in a cluster the same each time.
func (l *lan) identity(name string) *identity.Identity {
	l.t.Helper()
	if l.cluster != nil {
		return l.member(l.Key(name), name)
	}
	return l.Identity(name)
}

// add makes a station for the node called name that no other has heard of yet.
func (l *lan) add(name string, tune ...func(*grpcpeer.Config)) *station {
	l.t.Helper()
	return l.addAs(l.identity(name), name, tune...)
}

// addAs is add of a node that has its identity already.
func (l *lan) addAs(id *identity.Identity, name string, tune ...func(*grpcpeer.Config)) *station {
	l.t.Helper()
	if l.tune != nil {
		tune = append(tune, l.tune)
	}
	s := &station{l.Add(name, id, tune...), l, id}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stations[s.ID] = s
	return s
}

// stationOf returns the latest station of a node.
func (l *lan) stationOf(id community.NodeID) *station {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stations[id]
}

// Join is part of Fixture.
func (l *lan) Join(t *testing.T, name string) Node {
	t.Helper()
	s := l.add(name)
	s.SetDialOnly(l.shut[name])
	l.Introduce(s.Node)
	return Node{ID: s.ID, Network: s.Network}
}

// OnlyDialsOut is part of Shutter.
func (l *lan) OnlyDialsOut(name string) { l.shut[name] = true }
