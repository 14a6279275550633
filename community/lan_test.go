package community_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"symbio/actor"
	"symbio/community"
)

// worker is an agent made of functions; all may be nil.
type worker struct {
	takes     []string // nil = work
	receive   community.Provider
	terminate func(context.Context) error
}

func (w *worker) Perceptions() []string {
	if w.takes == nil {
		return []string{"work"}
	}
	return w.takes
}

func (w *worker) Receive(ctx context.Context, s community.Signal) (community.Reply, error) {
	if w.receive == nil {
		return community.Reply{Data: s.Data, ContentType: s.ContentType}, nil
	}
	return w.receive(ctx, s)
}

func (w *worker) Terminate(ctx context.Context) error {
	if w.terminate == nil {
		return nil
	}
	return w.terminate(ctx)
}

// makes is the factory of one worker.
func makes(w *worker) func(community.Member) (community.Agent, error) {
	return func(community.Member) (community.Agent, error) { return w, nil }
}

func spawn(t testing.TB, c *community.Community, name string, w *worker, opts ...community.SpawnOption) community.Member {
	t.Helper()
	m, err := c.Spawn(context.Background(), name, makes(w), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// run runs a community until the test ends; stop ends it before.
func run(t *testing.T, cfg community.Config) (c *community.Community, stop func() error) {
	t.Helper()
	c = community.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { err = c.Run(ctx) })
	stop = func() error { cancel(); wg.Wait(); return err }
	t.Cleanup(func() { stop() })
	return c, stop
}

// withMailbox returns a System whose actors have room for n messages, and ends it after the test.
func withMailbox(t *testing.T, n int) *actor.System {
	system := actor.NewSystem(actor.Config{Mailbox: n})
	t.Cleanup(func() {
		if err := system.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return system
}

func work(data string) community.Signal {
	return community.Signal{Perception: "work", Data: []byte(data)}
}

func anybody(community.Peer, community.Call) error { return nil }

// id makes an id that is easy to tell from others.
func id[T ~string](s string) T { return T(s + strings.Repeat("0", 32-len(s))) }

// wire is a Network that does what the test says.
type wire struct {
	invoke func(context.Context, community.NodeID, community.Call) (community.Reply, error)
	tell   func(community.NodeID, community.Call) error
}

func (w *wire) Run(ctx context.Context, _ community.Host) error { <-ctx.Done(); return nil }

func (w *wire) Invoke(ctx context.Context, node community.NodeID, call community.Call) (community.Reply, error) {
	if w.invoke == nil {
		return community.Reply{}, errors.New("the test's network carries nothing")
	}
	return w.invoke(ctx, node, call)
}

func (w *wire) Tell(node community.NodeID, call community.Call) error {
	if w.tell == nil {
		return errors.New("the test's network carries nothing")
	}
	return w.tell(node, call)
}

// pending are the changes that a subscriber can have without waiting.
func pending(s *community.Subscription) (all []community.Change) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		ch, err := s.Next(now)
		if err != nil {
			return all
		}
		all = append(all, ch)
	}
}

// told is pending as short text: "joined ann".
func told(s *community.Subscription) (all []string) {
	for _, ch := range pending(s) {
		switch ch.Kind {
		case community.Snapshot:
			all = append(all, fmt.Sprintf("snapshot of %d", len(ch.Members)))
		case community.Gap:
			all = append(all, fmt.Sprintf("gap of %d, %d members", ch.Missed, len(ch.Members)))
		default:
			all = append(all, string(ch.Kind)+" "+ch.Member.Name)
		}
	}
	return all
}

// remote is a member of another node.
func remote(node community.NodeID, i community.MemberID, name string) community.Member {
	return community.Member{ID: i, Name: name, Node: node, Accepts: []string{"work"}, Available: true}
}
