package actor_test

import (
	"context"
	"errors"
	"fmt"

	"symbio/actor"
)

// counter is an actor's state: no lock, for it handles one message at a time.
type counter struct{ n int }

func (c *counter) Receive(_ context.Context, msg any) (any, error) {
	by, ok := msg.(int)
	if !ok {
		return nil, fmt.Errorf("counting %T: only int counts", msg)
	}
	c.n += by
	return c.n, nil
}

func Example() {
	ctx := context.Background()
	s := actor.NewSystem(actor.Config{})
	r, err := s.Spawn(actor.Props{
		Name: "counter",
		New:  func() (actor.Behavior, error) { return &counter{}, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Tell(2)) // and does not wait
	fmt.Println(r.Ask(ctx, 40))
	fmt.Println(r.Ask(ctx, "one"))

	fmt.Println(s.Shutdown(ctx))
	_, err = r.Ask(ctx, 1)
	fmt.Println(err, errors.Is(err, actor.ErrStopped))
	// Output:
	// <nil>
	// 42 <nil>
	// <nil> counting string: only int counts
	// <nil>
	// no such actor: it was stopped true
}
