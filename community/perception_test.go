package community_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"symbio/community"
)

const (
	add  community.Perception[[]int, int]          = "add"
	name community.Perception[struct{}, string]    = "name"
	note community.Perception[string, struct{}]    = "note"
	odd  community.Perception[map[string]int, int] = "odd"
)

// adder handles each of its perceptions with a function of its types.
func adder(noted chan<- string) community.Handlers {
	return community.Handlers{
		add.Receive(func(_ context.Context, in []int) (sum int, err error) {
			for _, n := range in {
				sum += n
			}
			return sum, nil
		}),
		name.Receive(func(context.Context, struct{}) (string, error) { return "ann", nil }),
		note.Receive(func(_ context.Context, text string) (struct{}, error) { noted <- text; return struct{}{}, nil }),
	}
}

func TestPerceptionCarriesGoValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted := make(chan string, 2)
		c, _ := run(t, community.Config{})
		m, err := c.Spawn(t.Context(), "ann", func(community.Member) (community.Agent, error) { return adder(noted), nil })
		if err != nil {
			t.Fatal(err)
		}
		if got, err := add.Send(t.Context(), c, m.ID, []int{1, 2, 3}); got != 6 || err != nil {
			t.Errorf("add: got %d, %v", got, err)
		}
		if got, err := name.Send(t.Context(), c, m.ID, struct{}{}); got != "ann" || err != nil {
			t.Errorf("name: got %q, %v", got, err)
		}
		if _, err := note.Send(t.Context(), c, m.ID, "one"); err != nil {
			t.Error(err)
		}
		if err := note.Tell(t.Context(), c, m.ID, "two"); err != nil {
			t.Error(err)
		}
		if got := <-noted + " " + <-noted; got != "one two" {
			t.Errorf("noted %q", got)
		}
		if reply, err := c.Send(t.Context(), m.ID, community.Signal{Perception: "name"}); err != nil || string(reply.Data) != `"ann"` ||
			reply.ContentType != "application/json" {
			t.Errorf("without data: got %q, %q, %v", reply.Data, reply.ContentType, err)
		}
	})
}

func TestPerceptionRefusesOtherTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{})
		m, err := c.Spawn(t.Context(), "ann", func(community.Member) (community.Agent, error) { return adder(nil), nil })
		if err != nil {
			t.Fatal(err)
		}
		words := community.Perception[string, int]("add")
		if _, err := words.Send(t.Context(), c, m.ID, "three"); !errors.Is(err, community.ErrInvalid) {
			t.Errorf("another input: got %v, want ErrInvalid", err)
		}
		number := community.Perception[struct{}, int]("name")
		if got, err := number.Send(t.Context(), c, m.ID, struct{}{}); !errors.Is(err, community.ErrAgentFailed) || got != 0 {
			t.Errorf("another reply: got %d, %v, want ErrAgentFailed", got, err)
		}
		if _, err := odd.Send(t.Context(), c, m.ID, nil); !errors.Is(err, community.ErrNotAccepted) {
			t.Errorf("another perception: got %v, want ErrNotAccepted", err)
		}
		broken := community.Perception[chan int, int]("add")
		if _, err := broken.Send(t.Context(), c, m.ID, nil); !errors.Is(err, community.ErrInvalid) {
			t.Errorf("a value that is no JSON: got %v, want ErrInvalid", err)
		}
		if err := broken.Tell(t.Context(), c, m.ID, nil); !errors.Is(err, community.ErrInvalid) {
			t.Errorf("told a value that is no JSON: got %v, want ErrInvalid", err)
		}
	})
}

func TestPerceptionReadsTextOfAnyAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{})
		m := spawn(t, c, "ann", &worker{receive: func(context.Context, community.Signal) (community.Reply, error) {
			return community.Reply{Data: []byte("done, and well"), ContentType: "text/plain; charset=utf-8"}, nil
		}})
		task := community.Perception[string, string]("work")
		if got, err := task.Send(t.Context(), c, m.ID, "go"); got != "done, and well" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
