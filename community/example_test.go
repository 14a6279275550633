package community_test

import (
	"context"
	"fmt"
	"strings"

	"symbio/community"
)

// crier is an agent that says everything louder.
type crier struct{}

func (crier) Perceptions() []string { return []string{"say"} }

func (crier) Receive(_ context.Context, s community.Signal) (community.Reply, error) {
	return community.Reply{Data: []byte(strings.ToUpper(string(s.Data))), ContentType: "text/plain"}, nil
}

// A community without a network: one node, one agent, one signal of bytes.
func Example() {
	ctx := context.Background()
	home := community.New(community.Config{Name: "kitchen"})

	ann, err := home.Spawn(ctx, "ann", func(community.Member) (community.Agent, error) { return crier{}, nil })
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range home.WhoCanReceive("say") {
		reply, err := home.Send(ctx, m.ID, community.Signal{Perception: "say", Data: []byte("hello")})
		fmt.Println(m.Name, string(reply.Data), err)
	}
	_, err = home.Send(ctx, ann.ID, community.Signal{Perception: "sing"})
	fmt.Println(err)
	fmt.Println(home.Terminate(ctx, ann.ID), len(home.Members()))
	// Output:
	// ann HELLO <nil>
	// send sing to ann: the member does not accept that perception
	// <nil> 0
}

// A perception with types, for its senders and for the agents that receive it.
func ExamplePerception() {
	const count community.Perception[string, int] = "count"
	ctx, home := context.Background(), community.New(community.Config{})

	ann, err := home.Spawn(ctx, "ann", func(community.Member) (community.Agent, error) {
		return community.Handlers{
			count.Receive(func(_ context.Context, text string) (int, error) { return len(strings.Fields(text)), nil }),
		}, nil
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(count.Send(ctx, home, ann.ID, "the tide rises"))
	fmt.Println(count.Tell(ctx, home, ann.ID, "the tide falls")) // and does not wait
	// Output:
	// 3 <nil>
	// <nil>
}

type WorkSignal struct{ Task string }

const Work community.Perception[WorkSignal, struct{}] = "work"

// WorkerAgent is the spec's example of an agent: it receives work, and tidies up at its end.
type WorkerAgent struct{ community.Handlers }

func NewWorkerAgent(community.Member) (community.Agent, error) {
	return WorkerAgent{community.Handlers{Work.Receive(func(_ context.Context, s WorkSignal) (struct{}, error) {
		fmt.Println("working on", s.Task)
		return struct{}{}, nil
	})}}, nil
}

func (WorkerAgent) Terminate(context.Context) error { fmt.Println("tidied up"); return nil }

// The spec's example of a community: spawn, send, look for, watch, terminate.
func ExampleCommunity() {
	ctx, c := context.Background(), community.New(community.Config{})
	changes := c.Subscribe()
	defer changes.Close()

	worker, err := c.Spawn(ctx, "worker", NewWorkerAgent)
	if err != nil {
		fmt.Println(err)
	}
	_, err = Work.Send(ctx, c, worker.ID, WorkSignal{Task: "process"})
	fmt.Println(err, len(c.WhoCanReceive("work")))
	fmt.Println(c.Terminate(ctx, worker.ID))

	for change, err := changes.Next(ctx); err == nil; change, err = changes.Next(ctx) {
		switch change.Kind {
		case community.Joined:
			fmt.Println("Joined:", change.Member.Name)
		case community.Left:
			fmt.Println("Left:", change.Member.Name)
			return
		}
	}
	// Output:
	// working on process
	// <nil> 1
	// tidied up
	// <nil>
	// Joined: worker
	// Left: worker
}

// ReplicableAgent is the spec's example of an agent that makes another of its kind.
type ReplicableAgent struct {
	WorkerAgent
	community *community.Community
}

func (a ReplicableAgent) Replicate(ctx context.Context, r community.Replica) (community.Member, error) {
	return a.community.Spawn(ctx, r.Name, func(community.Member) (community.Agent, error) { return a, nil })
}

// A model does the same by the tool replicate_agent.
func ExampleReplicator() {
	ctx, c := context.Background(), community.New(community.Config{})
	var agent community.Replicator = ReplicableAgent{WorkerAgent{community.Handlers{Work.Receive(nil)}}, c}
	helper, err := agent.Replicate(ctx, community.Replica{Name: "helper", Reason: "many parts that need not wait for each other"})
	fmt.Println(helper.Name, helper.Accepts, err)
	// Output: helper [work] <nil>
}
