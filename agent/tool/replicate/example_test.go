package replicate_test

import (
	"cmp"
	"context"
	"fmt"

	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/replicate"
	"symbio/community"
	"symbio/security/permission"
)

// spawning is a model that calls replicate_agent, gives the new agent work, and then says what it answered.
var spawning = llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
	call := llm.ToolCall{ID: "1", Name: replicate.Name, Args: llm.Args(`{"reason":"many files","name":"helper"}`)}
	if last := r.Messages[len(r.Messages)-1]; last.Role == llm.Tool && last.Results[0].Name == replicate.Name {
		call = llm.ToolCall{ID: "2", Name: "send_signal", Args: llm.Args(`{"member":"helper","data":"Look at a.go."}`)}
	} else if last.Role == llm.Tool {
		return llm.Response{Message: llm.Message{Text: "The helper says: " + last.Results[0].Text}}, nil
	}
	return llm.Response{Message: llm.Message{Calls: []llm.ToolCall{call}}, Stop: llm.StopTools}, nil
})

func (worker) Perceptions() []string { return []string{"work"} }

func (worker) Receive(_ context.Context, s community.Signal) (community.Reply, error) {
	return community.Reply{Data: append([]byte("done: "), s.Data...)}, nil
}

// worker is an agent written in Go that can make more of its kind.
type worker struct{ community *community.Community }

func (w worker) Replicate(ctx context.Context, r community.Replica) (community.Member, error) {
	return w.community.Spawn(ctx, cmp.Or(r.Name, "worker"), func(community.Member) (community.Agent, error) { return w, nil })
}

// A model spawns a helper of an agent that is written in Go, and sends it work.
func ExampleTools() {
	c := community.New(community.Config{})
	guard := permission.Chain{{Policy: permission.Permissive()}}
	session := conversation.New(conversation.Config{
		Model: spawning,
		Tools: tool.NewSet(tool.SetConfig{Guard: guard}, replicate.Tools(c, worker{c})...),
		Instructions: "You can spawn helper agents when tasks are complex.\n" +
			"Use replicate_agent when you have many TODOs or parallelizable work.",
	})
	reply, err := session.Send(context.Background(), "Look at all files.")
	fmt.Println(reply.Text, err)
	for _, m := range c.WhoCanReceive("work") {
		fmt.Println(m.Name, m.Accepts)
	}
	// Output:
	// The helper says: done: "Look at a.go." <nil>
	// helper [work]
}
