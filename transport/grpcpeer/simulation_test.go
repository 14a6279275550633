package grpcpeer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/actor"
	"symbio/community"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// simulationSeed names the variable that sets another seed than 1.
const simulationSeed = "SYMBIO_SIMULATION_SEED"

const (
	// simulatedNodes and simulatedRounds are enough for each kind of fault to meet each other kind, and
	// for a growth with each round to show.
	simulatedNodes  = 9
	simulatedRounds = 4
)

// forgetAfter is how long the members of lost nodes stay in the simulation: longer than it takes to come back
// after a heal, and shorter than it takes to notice a partition, so that the crashed are forgotten then.
const forgetAfter = 2 * time.Second

// A cluster whose nodes join, leave, crash, freeze and are cut off, under calls, again and again. After
// each of these, every node sees exactly the live members of all nodes that it can reach. Nothing that
// happens leaves memory or goroutines behind.
func TestClusterConvergesAndDoesNotGrow(t *testing.T) {
	seed := uint64(1)
	if text := os.Getenv(simulationSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	base := runtime.NumGoroutine()
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{
			t: t, random: rand.New(rand.NewPCG(seed, 0)), system: actor.NewSystem(actor.Config{}),
			lan:  grpcpeertest.NewLAN(t, grpcpeertest.Config{Delay: 2 * time.Millisecond, Jitter: 20 * time.Millisecond}),
			live: map[string]*simulatedNode{}, lost: map[community.NodeID]time.Time{}, ends: map[string]int{},
		}
		defer s.end()
		for i := range simulatedNodes {
			s.join(fmt.Sprint("n", i))
		}
		s.settle("all have joined", 3*time.Second)
		var first uint64
		for round := range simulatedRounds {
			s.round()
			if round == 1 { // by then most pairs have called each other once
				first = heap()
			}
		}
		last := heap()
		t.Logf("%d KiB of heap after %d rounds, %d KiB after 2; calls: %v", last>>10, simulatedRounds, first>>10, s.ends)
		if last > first*6/5 {
			t.Errorf("the heap has grown from %d to %d bytes", first, last)
		}
		if s.ends["answered"] == 0 || s.ends["unavailable"] == 0 {
			t.Error("the calls met nothing, or nothing else")
		}
	})
	if n := goroutines(); n > base+10 {
		t.Errorf("%d goroutines at the end, %d at the beginning", n, base)
	}
}

// goroutines returns how many goroutines there are. runtime.NumGoroutine reads several lists without a lock, and counts
// too many while the runtime moves 32 ended goroutines from one to another: the least of some readings is right.
func goroutines() int {
	n := runtime.NumGoroutine()
	for range 100 {
		runtime.Gosched()
		n = min(n, runtime.NumGoroutine())
	}
	return n
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// simulation is the cluster, and who should be in it.
type simulation struct {
	t      *testing.T
	lan    *grpcpeertest.LAN
	random *rand.Rand
	system *actor.System // of all, since one takes more memory than all else here
	live   map[string]*simulatedNode
	away   []string                       // have left or crashed, and may come back
	lost   map[community.NodeID]time.Time // crashed then
	side   map[string]int                 // of the partition; nil = none
	frozen map[string]bool
	parted time.Time // when the latest partition began

	mu   sync.Mutex
	ends map[string]int // how calls ended; guarded by mu
}

type simulatedNode struct {
	*community.Community
	agents []community.MemberID
	stop   context.CancelFunc
	done   chan error
}

// names are the nodes that live, in an order that does not depend on the map.
func (s *simulation) names() []string { return slices.Sorted(maps.Keys(s.live)) }

// some are n of the nodes that live.
func (s *simulation) some(n int) []string {
	all := s.names()
	s.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:n]
}

func (s *simulation) join(name string) {
	id := grpcpeertest.ID(name)
	c := community.New(community.Config{
		Node: id, Name: name, System: s.system, Network: s.lan.Join(name).Network, Forget: forgetAfter,
		Authorize: func(community.Peer, community.Call) error { return nil },
	})
	ctx, stop := context.WithCancel(context.Background())
	n := &simulatedNode{Community: c, stop: stop, done: make(chan error, 1)}
	go func() { n.done <- c.Run(ctx) }()
	if err := c.Offer(community.Capability{Name: "echo"}, echo); err != nil {
		s.t.Fatal(err)
	}
	s.live[name] = n
	delete(s.lost, id)
	for range s.random.IntN(3) {
		s.spawn(n)
	}
}

func (s *simulation) spawn(n *simulatedNode) {
	m, err := n.Spawn(context.Background(), fmt.Sprint("agent ", len(n.agents)),
		func(community.Member) (community.Agent, error) { return idle{}, nil })
	if err != nil {
		s.t.Fatal(err)
	}
	n.agents = append(n.agents, m.ID)
}

// leave ends a node in order; crash ends it for everybody else first.
func (s *simulation) leave(name string) {
	n := s.live[name]
	n.stop()
	if err := <-n.done; err != nil {
		s.t.Errorf("%s ended with %v", name, err)
	}
	delete(s.live, name)
	s.away = append(s.away, name)
}

func (s *simulation) crash(name string) {
	s.lan.Kill(grpcpeertest.ID(name))
	s.lost[grpcpeertest.ID(name)] = time.Now()
	s.leave(name)
}

func (s *simulation) end() {
	for _, n := range s.live {
		n.stop()
	}
	for name, n := range s.live {
		if err := <-n.done; err != nil {
			s.t.Errorf("%s ended with %v", name, err)
		}
	}
	if err := s.system.Shutdown(context.Background()); err != nil {
		s.t.Error(err)
	}
}

// round does everything once that can befall a cluster.
func (s *simulation) round() {
	s.under(func() {
		for _, name := range s.some(1) {
			s.leave(name)
		}
		for _, name := range s.some(4) {
			n := s.live[name]
			s.spawn(n)
			if err := n.Terminate(context.Background(), n.agents[0]); err != nil {
				s.t.Error(err)
			}
			n.agents = n.agents[1:]
		}
		s.settle("some have left, and agents come and gone", time.Second)
	})
	s.under(func() {
		for _, name := range s.some(1) {
			s.crash(name)
		}
		s.settle("some have crashed", time.Second)
	})
	s.under(func() {
		s.split(s.some(3), s.some(1))
		s.freeze(s.some(1))
		s.settle("the network is in parts, and some are frozen", 4*time.Second)
	})
	s.lan.Heal()
	s.side = nil
	for name := range s.frozen {
		s.lan.Wake(grpcpeertest.ID(name))
	}
	s.frozen = nil
	s.settle("it is whole again, and all are awake", 5*time.Second)
	for _, name := range s.away {
		s.join(name)
	}
	s.away = nil
	s.settle("all who were away are back", 3*time.Second)
}

// split cuts groups of nodes off; of groups that have nodes in common the last counts.
func (s *simulation) split(groups ...[]string) {
	s.side, s.parted = map[string]int{}, time.Now()
	for i, g := range groups {
		var ids []community.NodeID
		for _, name := range g {
			s.side[name] = i + 1
			ids = append(ids, grpcpeertest.ID(name))
		}
		s.lan.Partition(ids...)
	}
}

func (s *simulation) freeze(names []string) {
	s.frozen = map[string]bool{}
	for _, name := range names {
		s.frozen[name] = true
		s.lan.Freeze(grpcpeertest.ID(name))
	}
}

// reaches tells whether one node can talk to another.
func (s *simulation) reaches(a, b string) bool {
	return s.side[a] == s.side[b] && !s.frozen[a] && !s.frozen[b]
}

// settle gives the cluster as long as it is promised, until every node sees what there is.
func (s *simulation) settle(what string, promise time.Duration) {
	s.t.Helper()
	begun := time.Now()
	for {
		fault := ""
		for _, name := range s.names() {
			if fault = s.fault(name); fault != "" {
				fault = name + ": " + fault
				break
			}
		}
		took := time.Since(begun)
		switch {
		case fault == "":
			s.t.Logf("%s: every node sees it after %v", what, took)
			return
		case took >= promise:
			s.t.Fatalf("%s: after %v %s", what, took, fault)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// fault says what a node sees that is not so, or does not see.
func (s *simulation) fault(name string) string {
	self := s.live[name]
	seen := map[community.MemberID]community.Member{}
	for _, m := range self.Members() {
		seen[m.ID] = m
	}
	check := func(id community.MemberID, other string, available bool) string {
		m, ok := seen[id]
		delete(seen, id)
		switch {
		case !ok && !available && time.Since(s.parted) > forgetAfter:
			return "" // its heartbeats were lost for a while before, too
		case !ok:
			return fmt.Sprintf("it does not know %s of %s", id, other)
		case m.Available != available:
			return fmt.Sprintf("%s of %s is available: %v", m.Name, other, m.Available)
		}
		return ""
	}
	for other, n := range s.live {
		reached := other == name || s.reaches(name, other)
		all := n.agents
		if other != name {
			all = append([]community.MemberID{community.MemberID(grpcpeertest.ID(other))}, all...)
		}
		for _, id := range all {
			if fault := check(id, other, reached); fault != "" {
				return fault
			}
		}
	}
	for _, m := range seen { // what is left are members of nodes that have crashed, until they are forgotten
		since, lost := s.lost[m.Node]
		if !lost || m.Available || time.Since(since) > forgetAfter {
			return fmt.Sprintf("it knows %s of node %s, available: %v", m.Name, m.Node, m.Available)
		}
	}
	return ""
}

// under runs f while nodes call each other.
func (s *simulation) under(f func()) {
	over := make(chan struct{})
	var wg sync.WaitGroup
	defer func() { close(over); wg.Wait() }() // also when f has failed
	for i := range simulatedNodes {
		from, to := s.live[s.some(1)[0]], grpcpeertest.ID(s.some(1)[0])
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(time.Duration(50+i) * time.Millisecond):
					s.call(from, to)
				}
			}
		})
	}
	f()
}

// call makes a call, which has to end in time, in an answer or in an error that says what it is.
func (s *simulation) call(from *simulatedNode, to community.NodeID) {
	const timeout = 500 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	begun := time.Now()
	_, err := from.Invoke(ctx, community.MemberID(to), "echo", community.Signal{Data: []byte("1")})
	took := time.Since(begun)
	end := "answered"
	switch {
	case err == nil:
	case errors.Is(err, community.ErrUnavailable):
		end = "unavailable"
	case errors.Is(err, context.DeadlineExceeded):
		end = "late"
	case errors.Is(err, community.ErrNotFound), errors.Is(err, community.ErrLocalMember):
		end = "not there"
	default:
		s.t.Errorf("a call ended with %v", err)
	}
	if took > timeout {
		s.t.Errorf("a call with a deadline of %v took %v, and ended with %v", timeout, took, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends[end]++
}

// idle is an agent that does nothing.
type idle struct{}

func (idle) Perceptions() []string { return []string{"work"} }
func (idle) Receive(context.Context, community.Signal) (community.Reply, error) {
	return community.Reply{}, nil
}
