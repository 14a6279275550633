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

// A community without a network: one node, one agent, one signal.
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
