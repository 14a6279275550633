package community_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"
)

func TestCallMayOutlastTheCapWhereBothEndsSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{Authorize: anybody, MaxCall: time.Minute})
		var left time.Duration
		look := func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			end, _ := ctx.Deadline()
			left = time.Until(end)
			return community.Reply{}, nil
		}
		for _, err := range []error{
			c.Offer(community.Capability{Name: "short"}, look),
			c.Offer(community.Capability{Name: "long"}, look, community.WithMaxCallDuration(time.Hour)),
			c.Offer(community.Capability{Name: "less"}, look, community.WithMaxCallDuration(time.Second)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		factory := func(community.Member) (community.Agent, error) { return &worker{receive: look}, nil }
		ann, err := c.Spawn(t.Context(), "ann", factory)
		if err != nil {
			t.Fatal(err)
		}
		bob, err := c.Spawn(t.Context(), "bob", factory, community.WithMaxCall(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for name, tt := range map[string]struct {
			call   community.Call
			within time.Duration // what the caller gives; 0 = nothing
			want   time.Duration
		}{
			"a capability":                   {community.Call{Capability: "short"}, 0, time.Minute},
			"a capability for long":          {community.Call{Capability: "short"}, 2 * time.Hour, time.Minute},
			"a lease":                        {community.Call{Capability: "long"}, 2 * time.Hour, time.Hour},
			"a lease without a deadline":     {community.Call{Capability: "long"}, 0, time.Hour},
			"a lease for less":               {community.Call{Capability: "long"}, 30 * time.Minute, 30 * time.Minute},
			"a lease by the node's own id":   {community.Call{Member: community.MemberID(c.Node()), Capability: "long"}, 2 * time.Hour, time.Hour},
			"a lease below the cap":          {community.Call{Capability: "less"}, 2 * time.Hour, time.Minute},
			"an agent":                       {community.Call{Member: ann.ID, Capability: "agent.perception.work"}, 2 * time.Hour, time.Minute},
			"an agent that takes its time":   {community.Call{Member: bob.ID, Capability: "agent.perception.work"}, 2 * time.Hour, time.Hour},
			"the same, asked for a shorter":  {community.Call{Member: bob.ID, Capability: "agent.perception.work"}, time.Second, time.Second},
			"the same, without any deadline": {community.Call{Member: bob.ID, Capability: "agent.perception.work"}, 0, time.Hour},
		} {
			ctx, cancel := t.Context(), func() {}
			if tt.within > 0 {
				ctx, cancel = context.WithTimeout(ctx, tt.within)
			}
			if _, err := c.Serve(ctx, stranger, tt.call); err != nil || left != tt.want {
				t.Errorf("%s: it has %v, %v; want %v", name, left, err, tt.want)
			}
			cancel()
		}
	})
}

func TestLongTimeoutWaitsForAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left time.Duration
		c, _ := withPeer(t, &wire{invoke: func(ctx context.Context, _ community.NodeID, _ community.Call) (community.Reply, error) {
			end, _ := ctx.Deadline()
			left = time.Until(end)
			return community.Reply{}, nil
		}}, func(cfg *community.Config) { cfg.MaxCall = time.Minute })
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, tt := range []struct {
			ctx  context.Context
			want time.Duration
		}{
			{t.Context(), time.Minute}, {community.WithCallDuration(t.Context(), time.Hour), time.Hour},
			{community.WithCallDuration(short, time.Hour), time.Second}, {community.WithCallDuration(t.Context(), time.Second), time.Minute},
		} {
			if _, err := c.Invoke(tt.ctx, community.MemberID(peer), "text.upper", community.Signal{}); err != nil || left != tt.want {
				t.Errorf("it has %v, %v; want %v", left, err, tt.want)
			}
		}
	})
}

func TestProviderKnowsWhetherItIsListenedTo(t *testing.T) {
	c, _ := run(t, community.Config{Authorize: anybody})
	listened := false
	if err := c.Offer(community.Capability{Name: "look"}, func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		listened = community.HasListener(ctx) && !community.HasListener(community.WithoutListener(ctx))
		return community.Reply{}, nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, listen := range []func(community.Update){nil, func(community.Update) {}} {
		if _, err := c.Serve(t.Context(), stranger, community.Call{Capability: "look", Listen: listen}); err != nil ||
			listened != (listen != nil) {
			t.Errorf("with a listener %v: it knows of %v, %v", listen != nil, listened, err)
		}
	}
}
