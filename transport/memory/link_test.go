package memory_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"
	"symbio/transport/memory"
)

func idOf(name string) community.NodeID {
	sum := sha256.Sum256([]byte(name))
	return community.NodeID(hex.EncodeToString(sum[:16]))
}

// up runs a community on the LAN until the test ends, or stop is called.
func up(t *testing.T, h *memory.Hub, name string) (c *community.Community, stop func() error) {
	t.Helper()
	c = community.New(community.Config{
		Node: idOf(name), Name: name, Network: h.Node(idOf(name), name),
		Authorize: func(community.Peer, community.Call) error { return nil },
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { err = c.Run(ctx) })
	stop = func() error { cancel(); wg.Wait(); return err }
	t.Cleanup(func() { stop() })
	return c, stop
}

// echoes offers a capability that answers with what it was sent.
func echoes(t *testing.T, c *community.Community) {
	t.Helper()
	if err := c.Offer(community.Capability{Name: "echo"}, func(_ context.Context, s community.Signal) (community.Reply, error) {
		return community.Reply{Data: s.Data}, nil
	}); err != nil {
		t.Fatal(err)
	}
}

func invoke(t *testing.T, from *community.Community, to community.NodeID, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	_, err := from.Invoke(ctx, community.MemberID(to), "echo", community.Signal{})
	return err
}

func TestDelayIsAsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := memory.NewHub(memory.Config{Delay: 70 * time.Millisecond})
		a, _ := up(t, h, "a")
		b, _ := up(t, h, "b")
		echoes(t, b)
		time.Sleep(time.Second)
		begun := time.Now()
		if err := invoke(t, a, b.Node(), time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != 140*time.Millisecond {
			t.Errorf("there and back took %v, want 140ms", took)
		}
	})
}

// fates makes calls over a lossy link, and says what came of them and when.
func fates(t *testing.T, seed uint64) (all []string) {
	synctest.Test(t, func(t *testing.T) {
		h := memory.NewHub(memory.Config{Loss: 0.2, Jitter: 10 * time.Millisecond, Seed: seed})
		a, _ := up(t, h, "a")
		b, _ := up(t, h, "b")
		echoes(t, b)
		time.Sleep(2*time.Second + 500*time.Millisecond) // a call in the middle between two heartbeats
		for range 30 {
			begun := time.Now()
			err := invoke(t, a, b.Node(), 100*time.Millisecond)
			took := time.Since(begun)
			switch {
			case err == nil:
				all = append(all, fmt.Sprint("answered after ", took))
			case errors.Is(err, community.ErrUnavailable):
				all = append(all, fmt.Sprint("unavailable after ", took))
			default:
				t.Errorf("a call returned %v", err)
			}
		}
	})
	return all
}

func TestLostCallsAreUnavailableAndRepeatable(t *testing.T) {
	first := fates(t, 1)
	lost := 0
	for _, f := range first {
		if strings.HasPrefix(f, "unavailable after 100ms") {
			lost++
		}
	}
	if lost < 3 || lost > 20 {
		t.Errorf("%d of 30 calls were lost with their deadline, want about 11:\n%s", lost, strings.Join(first, "\n"))
	}
	if second := fates(t, 1); !slices.Equal(first, second) {
		t.Errorf("with the same seed\n%s\nand then\n%s", strings.Join(first, "\n"), strings.Join(second, "\n"))
	}
	if other := fates(t, 2); slices.Equal(first, other) {
		t.Error("another seed makes no difference")
	}
}

func TestLossyLinkStillTellsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := memory.NewHub(memory.Config{Loss: 0.3, Delay: 5 * time.Millisecond, Jitter: 50 * time.Millisecond, Seed: 3})
		a, _ := up(t, h, "a")
		b, _ := up(t, h, "b")
		for i := range 50 {
			m, err := b.Spawn(t.Context(), fmt.Sprint(i), func(community.Member) (community.Agent, error) { return idle{}, nil })
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				if err := b.Terminate(t.Context(), m.ID); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Duration(i) * time.Millisecond)
		}
		time.Sleep(30 * time.Second)
		if n := len(a.WhoCanReceive("work")); n != 25 {
			t.Errorf("a sees %d agents, want 25", n)
		}
	})
}

type idle struct{}

func (idle) Perceptions() []string { return []string{"work"} }
func (idle) Receive(context.Context, community.Signal) (community.Reply, error) {
	return community.Reply{}, nil
}

func TestTwoNodesCannotHaveOneIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := memory.NewHub(memory.Config{})
		a, _ := up(t, h, "a")
		b, _ := up(t, h, "b")
		synctest.Wait()
		_, stop := up(t, h, "b")
		synctest.Wait()
		if err := stop(); err == nil || !strings.Contains(err.Error(), "one identity") {
			t.Errorf("the second node ended with %v", err)
		}
		echoes(t, b)
		synctest.Wait()
		if err := invoke(t, a, b.Node(), time.Second); err != nil {
			t.Errorf("the first one does not answer: %v", err)
		}
	})
}

func TestKilledNodeReachesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := memory.NewHub(memory.Config{})
		a, _ := up(t, h, "a")
		b, stop := up(t, h, "b")
		echoes(t, a)
		synctest.Wait()
		h.Kill(b.Node())
		h.Kill(b.Node())
		synctest.Wait()
		if err := invoke(t, b, a.Node(), time.Second); !errors.Is(err, community.ErrUnavailable) {
			t.Errorf("it can call: %v", err)
		}
		sub := a.Subscribe()
		if err := stop(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if _, err := sub.Next(t.Context()); err != nil { // the snapshot
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if ch, err := sub.Next(ctx); err == nil {
			t.Errorf("its end was heard: %+v", ch)
		}
	})
}

// A caller's bytes are its own again after the call, and nothing the other side does changes them.
func TestPayloadsAreCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := memory.NewHub(memory.Config{})
		a, _ := up(t, h, "a")
		b, _ := up(t, h, "b")
		kept := []byte("kept")
		if err := b.Offer(community.Capability{Name: "echo"}, func(_ context.Context, s community.Signal) (community.Reply, error) {
			clear(s.Data)
			return community.Reply{Data: kept}, nil
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		sent := []byte("sent")
		r, err := a.Invoke(t.Context(), community.MemberID(b.Node()), "echo", community.Signal{Data: sent})
		if err != nil {
			t.Fatal(err)
		}
		clear(r.Data)
		if string(sent) != "sent" || string(kept) != "kept" {
			t.Errorf("the caller has %q, the provider %q", sent, kept)
		}
	})
}
