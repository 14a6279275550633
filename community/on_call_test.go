package community_test

import (
	"context"
	"errors"
	"testing"

	"symbio/community"
)

func TestServedCallHasContextOfOnCall(t *testing.T) {
	trace := community.ParseTrace(parent, "")
	var began community.CallInfo
	var ended []error
	var allowed error
	c, _ := run(t, community.Config{
		Authorize: func(community.Peer, community.Call) error { return allowed },
		OnCall: func(ctx context.Context, info community.CallInfo) (context.Context, func(error)) {
			began = info
			return community.WithTrace(ctx, trace), func(err error) { ended = append(ended, err) }
		},
	})
	failure := errors.New("failed")
	m := spawn(t, c, "ann", &worker{receive: func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		if got := community.TraceOf(ctx); got != trace {
			t.Errorf("the call has the trace %q", got)
		}
		return community.Reply{}, failure
	}})
	call := community.Call{Member: m.ID, Capability: "agent.perception.work"}
	if _, err := c.Serve(t.Context(), stranger, call); err == nil {
		t.Error("the call did not fail")
	}
	if want := (community.CallInfo{Node: stranger.ID, Served: true, Capability: call.Capability}); began != want {
		t.Errorf("OnCall got %+v, want %+v", began, want)
	}
	if len(ended) != 1 || !errors.Is(ended[0], failure) {
		t.Errorf("the call ended with %v, want the error of the agent", ended)
	}
	allowed = errors.New("no")
	if _, err := c.Serve(t.Context(), stranger, call); err == nil || len(ended) != 1 {
		t.Errorf("a refused call ended with %v, and OnCall was called %d times", err, len(ended))
	}
}
