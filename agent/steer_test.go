package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
)

// background gives an agent a task in a goroutine of its own.
func (h *house) background(m community.Member, text string) func() (string, error) {
	var got string
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { got, err = h.task(m, text) })
	return func() (string, error) { wg.Wait(); return got, err }
}

// patient is a model that waits by its tool until it is told to stop.
func patient() llm.Model {
	return script(func(_ context.Context, r llm.Request) (llm.Message, error) {
		if m := last(r); strings.Contains(m.Text, "stop") {
			return say("told: " + m.Text)
		}
		return call(use("", "slow", waitArgs{"10s"}))
	})
}

func TestAgentIsSteeredWhileItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, patient(), slow())
		m := h.spawn(agent.Order{Policy: allowed(t, "slow")})
		work := h.background(m, "go")
		settle(4 * time.Second)
		if s, err := h.factory.State(m.ID); err != nil || !s.Responding || s.Turn != 1 {
			t.Errorf("state = %+v, %v", s, err)
		}
		start := time.Now()
		r, err := h.factory.Steer(t.Context(), m.ID, "stop now")
		if err != nil || r.Outcome != conversation.Delivered || r.Turn != 2 || r.Text != "stop now" || time.Since(start) != 6*time.Second {
			t.Errorf("receipt = %+v, %v after %v", r, err, time.Since(start))
		}
		if got, err := work(); got != "told: stop now" || err != nil {
			t.Errorf("the task: %q, %v", got, err)
		}
		if e := h.seen(event.TypeSteered); len(e) != 1 || e[0].Text != "stop now" || e[0].Part != (event.Steering{Outcome: "delivered", Turn: 2}) || e[0].Agent != string(m.ID) {
			t.Errorf("events = %+v", e)
		}
		if r, err := h.factory.Steer(t.Context(), m.ID, "stop next"); err != nil || r.Outcome != conversation.Kept {
			t.Errorf("while it is idle: %+v, %v", r, err)
		}
		if r, err := h.factory.SteerWith(t.Context(), m.ID, conversation.Steering{Text: "now or never"}); err != nil || r.Outcome != conversation.Returned {
			t.Errorf("while it is idle, not to be kept: %+v, %v", r, err)
		}
		if got, err := h.task(m, "go"); got != "told: stop next\n\ngo" || err != nil {
			t.Errorf("the next task: %q, %v", got, err)
		}
		transcript, err := h.factory.Transcript(m.ID)
		if err != nil || len(transcript) != 7 || conversation.Sound(transcript) != nil {
			t.Errorf("transcript of %d messages, %v", len(transcript), err)
		}
	})
}

func TestInterruptedAgentStaysAndRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, patient(), slow())
		m := h.spawn(agent.Order{Policy: allowed(t, "slow")})
		if err := h.factory.Interrupt(m.ID); !errors.Is(err, conversation.ErrIdle) {
			t.Errorf("without a task: %v", err)
		}
		work := h.background(m, "go")
		synctest.Wait()
		next := h.background(m, "stop") // waits in the mailbox
		settle(14 * time.Second)
		start := time.Now()
		if err := h.factory.Interrupt(m.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := work(); !errors.Is(err, conversation.ErrInterrupted) || time.Since(start) > 0 {
			t.Errorf("the task: %v after %v", err, time.Since(start))
		}
		if got, err := next(); !strings.HasPrefix(got, "told: [The last exchange was interrupted") || !strings.HasSuffix(got, "stop") || err != nil {
			t.Errorf("the next task: %q, %v", got, err)
		}
		if err := h.factory.Interrupt(m.ID); !errors.Is(err, conversation.ErrIdle) {
			t.Errorf("after its tasks: %v", err)
		}
		history := []llm.Message{{Role: llm.User, Text: "other"}, {Role: llm.Assistant, Text: "history"}}
		if err := h.factory.Replace(m.ID, history); err != nil {
			t.Error(err)
		}
		if err := h.factory.Replace(m.ID, history[1:]); !errors.Is(err, conversation.ErrUnsound) {
			t.Errorf("a history that is not whole: %v", err)
		}
		if s, err := h.factory.State(m.ID); err != nil || s.Messages != 2 {
			t.Errorf("state = %+v, %v", s, err)
		}
		if e := h.seen(event.TypeInterrupted); len(e) != 1 || event.PartOf[event.Turn](e[0]).Turn != 2 {
			t.Errorf("events = %+v", e)
		}
		if _, err := h.factory.State("nobody"); !errors.Is(err, community.ErrNotFound) {
			t.Errorf("nobody: %v", err)
		}
	})
}

// An agent that is interrupted ends what its sub-agents do for it, and they stay, too.
func TestSubAgentsAreSteeredAndInterruptedAsTheirParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			m := last(r)
			switch {
			case strings.Contains(r.System, "You are a sub-agent of") && strings.Contains(m.Text, "stop"):
				return say("sub: " + m.Text)
			case strings.Contains(r.System, "You are a sub-agent of"):
				return call(use("", "slow", waitArgs{"10s"}))
			case m.Text == "copy":
				return call(use("", "replicate_agent", map[string]any{"reason": "x", "name": "sub"}))
			case m.Role == llm.Tool:
				return say(m.Results[0].Text)
			}
			return call(use("", "send_signal", map[string]any{"member": "sub", "data": "work"}))
		})
		h := newHouse(t, model, slow())
		parent := h.spawn(agent.Order{Policy: allowed(t, "slow", "replicate_agent", "send_signal")})
		if _, err := h.task(parent, "copy"); err != nil {
			t.Fatal(err)
		}
		var sub community.Member
		for _, m := range h.community.Members() {
			if m.Name == "sub" {
				sub = m
			}
		}
		work := h.background(parent, "delegate")
		time.Sleep(3 * time.Second)
		if r, err := h.factory.Steer(t.Context(), sub.ID, "stop it"); err != nil || r.Outcome != conversation.Delivered {
			t.Errorf("receipt = %+v, %v", r, err)
		}
		if got, err := work(); got != "sub: stop it" || err != nil {
			t.Errorf("the parent's task: %q, %v", got, err)
		}
		work = h.background(parent, "delegate")
		time.Sleep(3 * time.Second)
		if err := h.factory.Interrupt(parent.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := work(); !errors.Is(err, conversation.ErrInterrupted) {
			t.Errorf("the parent's task: %v", err)
		}
		synctest.Wait()
		for _, id := range []community.MemberID{parent.ID, sub.ID} {
			if s, err := h.factory.State(id); err != nil || s.Responding {
				t.Errorf("%s: %+v, %v; want it there and idle", id, s, err)
			}
		}
	})
}

func TestSteererPermissionsBoundAgent(t *testing.T) {
	for name, test := range map[string]struct {
		by       community.Signal
		prefix   string
		mayAfter bool
	}{
		"another node": {community.Signal{Requester: []string{"other"}}, "[The node other says meanwhile. It is a request", true},
		"its agent, which may not": {community.Signal{Requester: []string{"other", "other/x"}, OnBehalf: []byte(`{"links":[{"name":"x","allow":["Read"],"default":"deny"}]}`)},
			"[The node other says meanwhile.", false},
		"an agent of this node": {community.Signal{Requester: []string{"here/agent"}}, "wait again, then stop", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var heard string
				model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
					switch m := last(r); {
					case m.Role == llm.User && strings.Contains(m.Text, "again"):
						heard = m.Text
						return call(use("", "slow", waitArgs{"1s"}))
					case m.Role == llm.Tool && heard != "":
						return say(m.Results[0].Text)
					}
					heard = ""
					return call(use("", "slow", waitArgs{"10s"}))
				})
				h := newHouse(t, model, slow())
				m := h.spawn(agent.Order{Policy: allowed(t, "slow")})
				work := h.background(m, "go")
				time.Sleep(time.Second)
				r, err := h.factory.SteerFrom(t.Context(), m.ID, "wait again, then stop", test.by)
				synctest.Wait() // the model has read it
				if err != nil || r.Outcome != conversation.Delivered || r.Text != "wait again, then stop" {
					t.Errorf("receipt = %+v, %v", r, err)
				}
				if !strings.HasPrefix(heard, test.prefix) || !strings.HasSuffix(heard, "wait again, then stop") {
					t.Errorf("the model reads %q", heard)
				}
				got, err := work()
				if may := got == "waited 1s"; err != nil || may != test.mayAfter || !may && !strings.Contains(got, "Denied (permissions of x, as another node says)") {
					t.Errorf("after it was steered: %q, %v", got, err)
				}
				if got, err := h.task(m, "again"); got != "waited 1s" || err != nil {
					t.Errorf("the next task: %q, %v; want it free of that", got, err)
				}
			})
		})
	}
}

func TestInvalidSteeringIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, patient(), slow())
		m := h.spawn(agent.Order{Policy: allowed(t, "slow")})
		for text, want := range map[string]error{"": community.ErrInvalid, " \n": community.ErrInvalid, "\xff": community.ErrInvalid, strings.Repeat("x", 1<<20): community.ErrTooLarge} {
			if _, err := h.factory.Steer(t.Context(), m.ID, text); !errors.Is(err, want) {
				t.Errorf("%.10q: %v, want %v", text, err, want)
			}
			if _, err := h.factory.SteerFrom(t.Context(), m.ID, text, community.Signal{}); !errors.Is(err, want) {
				t.Errorf("%.10q from elsewhere: %v, want %v", text, err, want)
			}
		}
		if _, err := h.factory.SteerFrom(t.Context(), m.ID, "x", community.Signal{OnBehalf: []byte("?")}); !errors.Is(err, community.ErrInvalid) {
			t.Errorf("for nobody that can be read: %v", err)
		}
		if s, err := h.factory.State(m.ID); err != nil || s.PendingSteering != 0 {
			t.Errorf("state = %+v, %v", s, err)
		}
	})
}

// Who steers an agent that works for another has it do no more than that one may do, either.
func TestSteererLiftsNoConstraint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, patient())
		var results []string
		h.factory = agent.NewFactory(agent.Config{
			Community: h.community, Dir: "/work", Tools: []tool.Tool{slow()},
			Model: func(context.Context, string) (llm.Model, error) {
				return script(func(_ context.Context, r llm.Request) (llm.Message, error) {
					for _, m := range r.Messages {
						for _, res := range m.Results {
							results = append(results, res.Text)
						}
					}
					if len(r.Messages) > 6 {
						return say("done")
					}
					time.Sleep(5 * time.Second)
					return call(use("", "slow", waitArgs{"5s"}))
				}), nil
			},
		})
		m := h.spawn(agent.Order{Policy: allowed(t, "slow")})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := h.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte("go"), Requester: []string{"other", "other/x"}, OnBehalf: []byte(`{"links":[{"name":"x","allow":["Read"],"default":"deny"}]}`)})
			if err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		if _, err := h.factory.SteerFrom(t.Context(), m.ID, "you may now", community.Signal{Requester: []string{"third"}, OnBehalf: []byte(`{"links":[{"name":"y","allow":["slow"],"default":"allow"}]}`)}); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		for i, r := range results {
			if !strings.Contains(r, "Denied (permissions of x, as another node says)") {
				t.Errorf("call %d: %q", i, r)
			}
		}
	})
}

// The text of a skill that is in the part that was summed up is shown again.
func TestSkillsAreShownAgainWhenRoomIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var systems []string
		n := 0
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if strings.HasPrefix(r.System, "You sum up") {
				return say("there was much talk")
			}
			systems = append(systems, r.System)
			switch n++; {
			case n == 1:
				return call(use("", "activate_skill", map[string]any{"skillName": "notes"}))
			case n < 20:
				return llm.Message{Text: strings.Repeat("x", 3000), Calls: []llm.ToolCall{use("", "slow", waitArgs{"1s"})}}, nil
			}
			return say("done")
		})
		h := newHouse(t, model)
		var compacted []event.Event
		h.factory = agent.NewFactory(agent.Config{
			Community: h.community, Skills: h.skills, Tools: []tool.Tool{slow()}, Dir: "/work", Window: func(string) int { return 12_000 },
			Model: func(context.Context, string) (llm.Model, error) { return model, nil },
			Report: func(e event.Event) {
				if e.Type == event.TypeCompacted {
					compacted = append(compacted, e)
				}
			},
		})
		if got, err := h.task(h.spawn(agent.Order{Policy: allowed(t, "activate_skill")}), "go"); got != "done" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		if len(compacted) == 0 || !strings.Contains(compacted[0].Text, "messages summed up") || event.PartOf[event.Compaction](compacted[0]).Done >= event.PartOf[event.Compaction](compacted[0]).Total {
			t.Fatalf("events = %+v", compacted)
		}
		for i, s := range []string{systems[1], systems[len(systems)-1]} {
			if got := strings.Contains(s, "Write it down."); got != (i == 1) {
				t.Errorf("%d: the skill is in the system prompt: %v", i, got)
			}
		}
	})
}

// A restart makes another conversation, and the agent is known as before.
func TestAgentThatWasRestartedIsReachedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			switch m := last(r); {
			case m.Text == "break":
				panic("broken")
			case strings.Contains(m.Text, "stop"):
				return say("told: " + m.Text)
			}
			return call(use("", "slow", waitArgs{"10s"}))
		}), slow())
		m := h.spawn(agent.Order{Policy: allowed(t, "slow")})
		if _, err := h.task(m, "break"); !errors.Is(err, community.ErrAgentFailed) {
			t.Fatalf("the task: %v", err)
		}
		time.Sleep(time.Minute) // it is there again
		work := h.background(m, "go")
		time.Sleep(time.Second)
		if r, err := h.factory.Steer(t.Context(), m.ID, "stop"); err != nil || r.Outcome != conversation.Delivered {
			t.Errorf("receipt = %+v, %v", r, err)
		}
		if got, err := work(); got != "told: stop" || err != nil {
			t.Errorf("the task: %q, %v", got, err)
		}
	})
}

func TestAnotherNodeIsToldThatItsTaskWasInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, patient(), slow())
		m := h.spawn(agent.Order{Policy: allowed(t, "slow")})
		done := make(chan error, 1)
		go func() {
			_, _, _, err := h.listen(m, "go")
			done <- err
		}()
		time.Sleep(time.Second)
		if err := h.factory.Interrupt(m.ID); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, community.ErrAgentFailed) || community.Explanation(err) != "the task was interrupted" {
			t.Errorf("the other node reads %v", err)
		}
	})
}

func TestTaskIsATextOrAJSONStringOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) { return say("<" + last(r).Text + ">") }))
		m := h.spawn(agent.Order{})
		for data, want := range map[string]string{
			"as it is": "<as it is>", `"a \"quoted\" one"`: `<a "quoted" one>`, " \n\"led by space\" ": "<led by space>", `"not whole`: `<"not whole>`, `"two" words`: `<"two" words>`,
			`{"a":1}`: `<{"a":1}>`, "12": "<12>", "nullable": "<nullable>", "null": "", "": "", " ": "", `" "`: "", "\xff": "",
		} {
			got, err := h.task(m, data)
			if got != want || (err != nil) != (want == "") {
				t.Errorf("%q: %q, %v; want %q", data, got, err, want)
			}
		}
	})
}
