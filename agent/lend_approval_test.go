package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/security/permission"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// person answers questions, and keeps them. nil = there is no person.
type person struct {
	answer tool.Answer
	waits  bool // it never answers

	mu    sync.Mutex
	asked []agent.ApprovalRequest // guarded by mu
	left  int                     // questions that ended without an answer; guarded by mu
}

func (p *person) ask() func(context.Context, agent.ApprovalRequest) tool.Answer {
	if p == nil {
		return nil
	}
	return func(ctx context.Context, r agent.ApprovalRequest) tool.Answer {
		p.mu.Lock()
		p.asked = append(p.asked, r)
		p.mu.Unlock()
		if p.waits {
			<-ctx.Done()
			p.mu.Lock()
			defer p.mu.Unlock()
			p.left++
			return tool.Answer{Why: "It was not answered."}
		}
		return p.answer
	}
}

// questions returns how many there were, and how many ended without an answer.
func (p *person) questions() (asked, left int) {
	if p == nil {
		return 0, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked), p.left
}

// about is a policy with a verdict about the tool slow that allows agents to borrow.
func about(t *testing.T, slow permission.Action) permission.Policy {
	p := allowed(t, "replicate_agent", "invoke_capability", "send_signal")
	switch rule := allowed(t, "slow").Allow; slow {
	case permission.Allow:
		p.Allow = append(p.Allow, rule...)
	case permission.Deny:
		p.Deny = rule
	default:
		p.Default = permission.Ask
	}
	return p
}

// lendAs makes the node lend its agents anew, with an order of the test.
func (p *place) lendAs(t *testing.T, cfg lending.LenderConfig, o agent.Order) {
	t.Helper()
	if p.lender != nil {
		if err := p.community.Withdraw(lending.Capability); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Community, cfg.Definitions, cfg.Spawn = p.community, general().Definitions, p.factory.Lend(o)
	p.lender = lending.NewLender(cfg)
	c, err := p.lender.Capability()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.community.Offer(c, p.lender.Provide, community.WithMaxCallDuration(p.lender.MaxCallTime())); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
}

// waiter is a model whose helpers wait a second with slow, and answer with its result.
func waiter() llm.Model {
	return helper(func(_ context.Context, r llm.Request, _ string) (llm.Message, error) {
		if m := last(r); m.Role == llm.Tool {
			return say(m.Results[0].Text)
		}
		return call(use("1", "slow", waitArgs{"1s"}))
	})
}

// What a lent agent may do is the strictest of what both nodes say.
func TestLentAgentMayWhatBothNodesAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, waiter(), general(), slow())
		for _, there := range []permission.Action{permission.Deny, permission.Ask, permission.Allow} {
			l.b.lendAs(t, lending.LenderConfig{}, agent.Order{Policy: about(t, there)})
			for _, here := range []permission.Action{permission.Deny, permission.Ask, permission.Allow} {
				p := &person{answer: tool.Answer{Allow: true, By: "me"}}
				m := l.a.spawn(t, agent.Order{Policy: about(t, here), Ask: p.ask()})
				got, err := l.a.task(t.Context(), m, "have help: x")
				if err := l.a.community.Terminate(t.Context(), m.ID); err != nil {
					t.Error(err)
				}
				asked, _ := p.questions()
				if ran := got == "waited 1s"; err != nil || ran != (min(here, there) > permission.Deny) || (asked > 0) != (min(here, there) == permission.Ask) {
					t.Errorf("%v here and %v there: %q, %v, asked %d times", here, there, got, err, asked)
				}
			}
		}
	})
}

func TestCallOfLentAgentIsDecidedWhereLenderSays(t *testing.T) {
	yes, no := tool.Answer{Allow: true, By: "me"}, tool.Answer{By: "me", Reason: "not\x1b now"}
	type want struct {
		text             string
		borrower, lender int // how often they are asked
	}
	for name, tt := range map[string]struct {
		approvals        lending.Approvals
		borrower, lender *person
		want             want
		told             bool // the borrower's node that it was denied unasked or unanswered
	}{
		"yes":                      {"", &person{answer: yes}, &person{answer: no}, want{"waited 1s", 1, 0}, false},
		"no":                       {lending.AskBorrower, &person{answer: no}, &person{answer: yes}, want{"The person said no: not now.", 1, 0}, false},
		"no person":                {"", nil, &person{answer: yes}, want{tool.NoPerson, 0, 0}, false},
		"no answer":                {"", &person{waits: true}, nil, want{"did not answer within 10m0s", 1, 0}, true},
		"here":                     {lending.AskHere, &person{answer: yes}, &person{answer: no}, want{"The person said no", 0, 1}, false},
		"here, without a person":   {lending.AskHere, &person{answer: yes}, nil, want{tool.NoPerson, 0, 0}, true},
		"both":                     {lending.AskBoth, &person{answer: yes}, &person{answer: yes}, want{"waited 1s", 1, 1}, false},
		"both, and one says no":    {lending.AskBoth, &person{answer: yes}, &person{answer: no}, want{"The person said no", 1, 1}, false},
		"both, and the first no":   {lending.AskBoth, &person{answer: no}, &person{answer: yes}, want{"The person said no", 1, 0}, false},
		"both, with one person":    {lending.AskBoth, &person{answer: yes}, nil, want{tool.NoPerson, 1, 0}, true},
		"both, with the other one": {lending.AskBoth, nil, &person{answer: yes}, want{tool.NoPerson, 0, 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLAN(t, waiter(), general(), slow())
				l.b.lendAs(t, lending.LenderConfig{Approvals: tt.approvals}, agent.Order{Policy: about(t, permission.Ask), Ask: tt.lender.ask()})
				m := l.a.spawn(t, agent.Order{Ask: tt.borrower.ask()})
				got, err := l.a.task(t.Context(), m, "have help: x")
				if err != nil || !strings.Contains(got, tt.want.text) {
					t.Errorf("the result is %q, %v; want %q", got, err, tt.want.text)
				}
				synctest.Wait()
				borrower, left := tt.borrower.questions()
				lender, _ := tt.lender.questions()
				if borrower != tt.want.borrower || lender != tt.want.lender {
					t.Errorf("the borrower is asked %d times, the lender %d times", borrower, lender)
				}
				if tt.borrower != nil && tt.borrower.waits && left != 1 {
					t.Error("a question that needs no answer any more still waits")
				}
				account, err := l.b.community.Serve(t.Context(), community.Peer{ID: l.a.id}, community.Call{Capability: lending.Capability, Payload: fmt.Appendf(nil, `{"account":%q}`, l.b.here()[0].ID)})
				if told := strings.Contains(string(account.Data), `"denied":[{"id":"","name":"general-1","tool":"slow","args":{"for":"1s"}`); err != nil || told != tt.told {
					t.Errorf("the borrower is told %s, %v", account.Data, err)
				}
				if borrower == 1 {
					r := tt.borrower.asked[0]
					if r.Name != "general-1, on node bob" || r.Tool != "slow" || r.Args["for"] != "1s" || len(r.OnBehalfOf) != 1 || r.Agent != string(l.b.here()[0].ID) || len(r.LastingRules)+len(r.Offers) > 0 {
						t.Errorf("it is asked %+v", r)
					}
				}
			})
		})
	}
}

// An answer for always holds as long as the lent agent lives, for the same call alone.
func TestAlwaysHoldsForLifeOfLentAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			task, m := firstTask(r), last(r)
			switch {
			case m.Role == llm.Tool:
				return say(m.Results[0].Text)
			case task == "spawn":
				return call(use("1", "replicate_agent", map[string]any{"reason": "it is to help", "node": "bob"}))
			case strings.HasPrefix(task, "send "):
				to := strings.Fields(task)
				return call(use("2", "send_signal", map[string]any{"member": to[1], "data": to[2]}))
			}
			return call(use("3", "slow", waitArgs{task}))
		})
		l := newLAN(t, model, general(), slow())
		l.b.lendAs(t, lending.LenderConfig{}, agent.Order{Policy: about(t, permission.Ask)})
		p := &person{answer: tool.Answer{Allow: true, Always: true, By: "me"}}
		m := l.a.spawn(t, agent.Order{Ask: p.ask()})
		for i, want := range []int{2, 4} {
			got, err := l.a.task(t.Context(), m, "spawn")
			if err != nil {
				t.Fatal(err)
			}
			for _, wait := range []string{"1s", "1s", "2s", "1s"} {
				if got, err := l.a.task(t.Context(), m, "send "+agentID(got)+" "+wait); err != nil || got != "waited "+wait {
					t.Fatalf("%q, %v", got, err)
				}
			}
			if asked, _ := p.questions(); asked != want {
				t.Errorf("agent %d: asked %d times in all, want %d", i+1, asked, want)
			}
		}
	})
}

// A question ends with the lease, and the end of the lease does not wait for its answer.
func TestQuestionEndsWithLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, waiter(), general(), slow())
		l.b.lendAs(t, lending.LenderConfig{}, agent.Order{Policy: about(t, permission.Ask)})
		p := &person{waits: true}
		m := l.a.spawn(t, agent.Order{Ask: p.ask()})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = l.a.task(t.Context(), m, "have help: x")
		}()
		settle(5 * time.Second)
		if asked, left := p.questions(); asked != 1 || left != 0 {
			t.Fatalf("asked %d times, %d ended", asked, left)
		}
		begin := time.Now()
		end, cancel := context.WithCancel(t.Context())
		cancel() // it does not wait for the task
		if err := l.a.community.Terminate(end, m.ID); err != nil {
			t.Fatal(err)
		}
		<-done
		if asked, left := p.questions(); asked != 1 || left != 1 || time.Since(begin) > 5*time.Second {
			t.Errorf("after %v asked %d times, %d ended", time.Since(begin), asked, left)
		}
		if left := l.b.here(); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	})
}

// The question of an agent that a lent agent has borrowed goes over its node to the person whose task it is.
func TestNestedQuestionGoesToFirstNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			m, task := last(r), firstTask(r)
			to, rest, deeper := strings.Cut(task, " ")
			switch {
			case m.Role == llm.User && deeper:
				return call(use("1", "replicate_agent", map[string]any{"reason": "it is to help", "node": to}))
			case m.Role == llm.User:
				return call(use("1", "slow", waitArgs{"1s"}))
			case m.Results[0].Name == "replicate_agent" && !m.Results[0].IsError:
				return call(use("2", "send_signal", map[string]any{"member": agentID(m.Results[0].Text), "data": rest}))
			}
			return say(m.Results[0].Text)
		})
		l := newLAN(t, model, general(), slow())
		l.b.lendAs(t, lending.LenderConfig{}, agent.Order{Policy: about(t, permission.Allow)})
		c := &place{id: grpcpeertest.ID("carl"), name: "carl", network: l.network, model: model, tools: []tool.Tool{slow()}}
		c.start(t)
		defer func() {
			if err := c.end(); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Second)
		c.lendAs(t, lending.LenderConfig{}, agent.Order{Policy: about(t, permission.Ask)})
		for _, allow := range []bool{true, false} {
			p := &person{answer: tool.Answer{Allow: allow, By: "me"}}
			m := l.a.spawn(t, agent.Order{Ask: p.ask()})
			got, err := l.a.task(t.Context(), m, "bob carl x")
			if asked, _ := p.questions(); err != nil || asked != 1 || (got == "waited 1s") != allow {
				t.Fatalf("%q, %v, asked %d times", got, err, asked)
			}
			if name := p.asked[0].Name; !strings.HasSuffix(name, ", on node carl, on node bob") {
				t.Errorf("it is asked for %q", name)
			}
			if err := l.a.community.Terminate(t.Context(), m.ID); err != nil {
				t.Error(err)
			}
		}
	})
}

// A lender may ask what it wants, in bounds: its words are printable, and an answer is for it alone.
func TestLenderThatAsksTooMuch(t *testing.T) {
	question := func(change func(q map[string]any)) string {
		q := map[string]any{"id": "1", "name": "x", "tool": "Bash", "args": map[string]any{"command": "ls"}, "why": "because"}
		change(q)
		data, err := json.Marshal(map[string]any{"question": q})
		if err != nil {
			panic(err)
		}
		return string(data) + "\n"
	}
	many := ""
	for i := range 40 {
		many += question(func(q map[string]any) { q["id"] = fmt.Sprint(i) })
	}
	for name, tt := range map[string]struct {
		lines string
		asked int
		ended bool // the lease
	}{
		"printable":     {question(func(q map[string]any) { q["name"], q["why"] = "\x1b[2Jx\u202e", strings.Repeat("y\n", 9000) }), 1, false},
		"no tool":       {question(func(q map[string]any) { q["tool"] = "question of files" }), 0, true},
		"no id":         {question(func(q map[string]any) { q["id"] = "" }), 0, true},
		"trust":         {question(func(q map[string]any) { q["tool"] = "trust_skill" }), 0, false},
		"without end":   {question(func(q map[string]any) { q["args"] = map[string]any{"command": strings.Repeat("x", 300<<10)} }), 0, true},
		"twice":         {strings.Repeat(question(func(map[string]any) {}), 2), 1, true},
		"many":          {many, 32, true},
		"and withdrawn": {question(func(map[string]any) {}) + `{"withdrawn":"1"}` + "\n" + `{"withdrawn":"2"}` + "\n", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLAN(t, helper(hang), general())
				l.b.lendAs(t, lending.LenderConfig{}, agent.Order{Policy: about(t, permission.Ask)})
				if err := l.b.community.Withdraw(lending.Capability); err != nil {
					t.Fatal(err)
				}
				c, err := l.b.lender.Capability()
				if err != nil {
					t.Fatal(err)
				}
				var asking sync.WaitGroup
				asks := func(ctx context.Context, s community.Signal) (community.Reply, error) {
					if strings.Contains(string(s.Data), `"agent":"general"`) {
						asking.Go(func() {
							time.Sleep(3 * time.Second)
							_ = community.Emit(ctx, []byte(tt.lines), "")
						})
					}
					return l.b.lender.Provide(ctx, s)
				}
				if err := l.b.community.Offer(c, asks, community.WithMaxCallDuration(time.Hour)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				p := &person{waits: true}
				m := l.a.spawn(t, agent.Order{Ask: p.ask()})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_, _ = l.a.task(ctx, m, "have help: x")
				asking.Wait()
				settle(time.Second)
				asked, left := p.questions()
				if asked > tt.asked || tt.asked == 1 && asked != 1 {
					t.Errorf("asked %d times, want %d", asked, tt.asked)
				}
				if name == "and withdrawn" && left != 1 {
					t.Error("a withdrawn question still waits")
				}
				if ended := len(l.b.here()) == 0; ended != tt.ended {
					t.Errorf("the lease has ended: %v", ended)
				}
				if name == "printable" && (p.asked[0].Name != "[2Jx, on node bob" || len(p.asked[0].Verdict.Why) > 1010 || strings.Contains(p.asked[0].Verdict.Why, "\n")) {
					t.Errorf("it is asked as %q for %q", p.asked[0].Name, p.asked[0].Verdict.Why)
				}
			})
		})
	}
}

// Only the borrower answers, and only what is asked.
func TestAnswerIsTakenFromBorrowerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, waiter(), general(), slow())
		l.b.lendAs(t, lending.LenderConfig{}, agent.Order{Policy: about(t, permission.Ask)})
		p := &person{waits: true}
		m := l.a.spawn(t, agent.Order{Ask: p.ask()})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = l.a.task(ctx, m, "have help: x")
		}()
		settle(5 * time.Second)
		for name, from := range map[string]community.NodeID{"another node": grpcpeertest.ID("eve"), "a guess": l.a.id} {
			data, err := json.Marshal(map[string]any{"answer": map[string]any{"member": l.b.here()[0].ID, "question": "guess", "allow": true}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.b.community.Serve(t.Context(), community.Peer{ID: from}, community.Call{Capability: lending.Capability, Payload: data}); !errors.Is(err, community.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		<-done
	})
}
