package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/transport/grpcpeer/grpcpeertest"
)

func TestLenderTakesNothingAtItsWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, helper(func(context.Context, llm.Request, string) (llm.Message, error) { return say("done") }), general())
		hear := func(community.Update) {}
		own := l.b.spawn(t, agent.Order{})
		for name, tt := range map[string]struct {
			data   string
			behalf string
			listen func(community.Update)
			want   error
		}{
			"nothing":                {"", "", hear, community.ErrInvalid},
			"no JSON":                {"{", "", hear, community.ErrInvalid},
			"another agent":          {`{"agent":"root"}`, "", hear, community.ErrInvalid},
			"nobody listens":         {`{"agent":"general"}`, "", nil, community.ErrInvalid},
			"a name that is none":    {`{"agent":"general","name":"a\u001bb"}`, "", hear, community.ErrInvalid},
			"unreadable permissions": {`{"agent":"general"}`, `{"links":[{"name":"x","default":"allow","unless":[]}]}`, hear, community.ErrInvalid},
			"a parent of here":       {`{"agent":"general","parent":"` + string(own.ID) + `"}`, "", hear, community.ErrInvalid},
			"a parent elsewhere":     {`{"agent":"general","parent":"node/x"}`, "", hear, community.ErrInvalid},
			"an end of nobody":       {`{"end":"aa000000000000000000000000000000"}`, "", nil, community.ErrNotFound},
			"a huge number":          {`{"agent":"general","share":{"tokens":1e400}}`, "", hear, community.ErrInvalid},
			"no time":                {`{"agent":"general","share":{"wall":0}}`, "", hear, community.ErrInvalid},
			"a negative one":         {`{"agent":"general","share":{"agents":-1}}`, "", hear, community.ErrInvalid},
			"a skill by its path":    {`{"agent":"general","skills":[{"name":"/etc","hash":"` + strings.Repeat("a", 64) + `"}]}`, "", hear, community.ErrInvalid},
			"a skill of any hash":    {`{"agent":"general","skills":[{"name":"one"}]}`, "", hear, community.ErrInvalid},
		} {
			call := community.Call{Capability: lending.Capability, Payload: []byte(tt.data), OnBehalf: []byte(tt.behalf), Listen: tt.listen}
			if _, err := l.b.community.Serve(t.Context(), community.Peer{ID: l.a.id}, call); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", name, err, tt.want)
			}
		}
		if left := l.b.here(); len(left) != 1 {
			t.Errorf("there are %v", left)
		}
	})
}

// Only the node that has an agent can end it, and only that one is known to have it.
func TestLoanIsItsBorrowersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, helper(hang), general())
		lease(t, l)
		child := l.b.here()[0]
		end, err := json.Marshal(map[string]any{"end": child.ID})
		if err != nil {
			t.Fatal(err)
		}
		stranger := grpcpeertest.ID("eve")
		if _, err := l.b.community.Serve(t.Context(), community.Peer{ID: stranger}, community.Call{Capability: lending.Capability, Payload: end}); !errors.Is(err, community.ErrNotFound) {
			t.Errorf("another node ends it: %v, want ErrNotFound", err)
		}
		if !l.b.lender.Has(l.a.id, child.ID) || l.b.lender.Has(stranger, child.ID) || l.b.lender.Has(l.a.id, "") {
			t.Error("it is not known whose it is")
		}
		if len(l.b.here()) != 1 {
			t.Error("it has ended")
		}
	})
}

// A node that says it lends, and does not, costs no more than the share, and no more than some time.
func TestLenderThatLies(t *testing.T) {
	const hers = "cc000000000000000000000000000000"
	for name, tt := range map[string]struct {
		lines, answer string
		want          string
		spent         int // model calls, of a share of 49; the parent's own are 2
	}{
		"it answers at once":           {"", `{"spent":{"model_calls":3,"tokens":0,"wall":0}}`, "no sub-agent was spawned: node bob: it ended", 5},
		"with rubbish":                 {"", `true`, "no sub-agent was spawned: node bob: what it says cannot be read", 2},
		"it says rubbish":              {"hello\n", "", "no sub-agent was spawned: node bob: what it says cannot be read", 2},
		"nobody is spawned":            {"", "-", "it did not name the spawned agent within 15s", 2},
		"somebody who is not there":    {`{"member":{"id":"` + hers + `","name":"x","accepts":["task"]}}` + "\n", "-", "is not among its members", 51},
		"one of the borrower's own":    {`{"member":{"id":"OURS","name":"x","accepts":["task"]}}` + "\n", "-", "is not among its members", 51},
		"an absurd account":            {`{"spent":{"model_calls":9007199254740993,"tokens":9223372036854775807,"cost":1e308,"wall":-1}}` + "\n", `{"spent":{"agents":-5,"model_calls":-1,"tokens":-1,"wall":0}}`, "no sub-agent", 51},
		"an account that cannot be":    {`{"spent":{"model_calls":1e400}}` + "\n", "", "cannot be read", 2},
		"an account that grows, twice": {`{"spent":{"model_calls":7,"tokens":0,"wall":0}}` + "\n" + `{"spent":{"model_calls":2,"tokens":0,"wall":0}}` + "\n", `{"spent":{"model_calls":1,"tokens":0,"wall":0}}`, "no sub-agent", 9},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLAN(t, helper(hang), general())
				parent := l.a.spawn(t, agent.Order{Limits: budget.Limits{ModelCalls: 100}, LifetimeBudget: true})
				if err := l.b.community.Withdraw(lending.Capability); err != nil {
					t.Fatal(err)
				}
				c, err := l.b.lender.Capability()
				if err != nil {
					t.Fatal(err)
				}
				lie := func(ctx context.Context, s community.Signal) (community.Reply, error) {
					if strings.Contains(string(s.Data), `"end"`) {
						return community.Reply{Data: []byte("true")}, nil
					}
					if err := community.Emit(ctx, []byte(strings.ReplaceAll(tt.lines, "OURS", string(parent.ID))), ""); err != nil {
						return community.Reply{}, err
					}
					if tt.answer == "-" || tt.answer == "" {
						<-ctx.Done()
						return community.Reply{}, ctx.Err()
					}
					return community.Reply{Data: []byte(tt.answer)}, nil
				}
				if err := l.b.community.Offer(c, lie, community.WithMaxCallDuration(time.Hour)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				got, err := l.a.task(t.Context(), parent, "have help: x")
				if err != nil || !strings.Contains(got, tt.want) {
					t.Errorf("the parent reads %q, %v; want %q", got, err, tt.want)
				}
				settle(time.Second)
				if s, _ := l.a.factory.Spent(parent.ID); s.ModelCalls != tt.spent {
					t.Errorf("%+v is spent, want %d calls", s, tt.spent)
				}
			})
		})
	}
}

// Signals without end from a lender are held to what any call may say.
func TestLenderThatSaysTooMuchIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, helper(hang), general())
		if err := l.b.community.Withdraw(lending.Capability); err != nil {
			t.Fatal(err)
		}
		c, err := l.b.lender.Capability()
		if err != nil {
			t.Fatal(err)
		}
		flood := func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			for i := 0; ; i++ {
				if err := community.Emit(ctx, fmt.Appendf(nil, `{"spent":{"model_calls":%d,"tokens":0,"wall":0},"why":"%s"}`+"\n", i, strings.Repeat("x", 30_000)), ""); err != nil {
					return community.Reply{}, err
				}
			}
		}
		if err := l.b.community.Offer(c, flood, community.WithMaxCallDuration(time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		parent := l.a.spawn(t, agent.Order{})
		if got, err := l.a.task(t.Context(), parent, "have help: x"); err != nil || !strings.Contains(got, "no sub-agent was spawned") {
			t.Errorf("the parent reads %q, %v", got, err)
		}
	})
}
