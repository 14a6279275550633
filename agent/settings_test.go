package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/permission"
)

// titledModel is a model with a name that answers by a function.
type titledModel struct {
	llm.Model
	name string
}

func (n titledModel) Name() string { return n.name }

// thoughtful thinks aloud before it says something.
type thoughtful struct{}

func (thoughtful) Name() string { return "thoughtful" }

func (thoughtful) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for _, c := range []llm.Chunk{{Thought: "let me "}, {Thought: "see"}, {Text: "seen"}, {Usage: &llm.Usage{Input: 900, Output: 100}, Stop: llm.StopEnd}} {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// ofType returns the events of a type.
func (h *house) ofType(kind string) (all []event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.Type == kind {
			all = append(all, e)
		}
	}
	return all
}

func TestThoughtsAndFillOfTheWindowAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, thoughtful{})
		m := h.spawn(agent.Order{})
		if got, err := h.task(m, "look"); got != "seen" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		thoughts := h.ofType(event.TypeThought)
		if len(thoughts) != 2 || thoughts[0].Text+thoughts[1].Text != "let me see" || event.PartOf[event.Turn](thoughts[0]).Turn != 1 {
			t.Errorf("thoughts are %+v", thoughts)
		}
		if turns := h.ofType(event.TypeTurn); len(turns) != 1 || event.PartOf[event.Turn](turns[0]).Context < 900 || event.PartOf[event.Turn](turns[0]).Window != 128_000 {
			t.Errorf("turns are %+v, want a context of 1000 or the estimate, and the window", turns)
		}
	})
}

// file is a tool of that name that would change a file.
func file(name string) tool.Tool {
	return tool.New(tool.Spec{Name: name}, func(context.Context, struct {
		File string `json:"file_path"`
	}) tool.Result {
		return tool.Result{Text: "changed"}
	})
}

// look is a tool that declares to change nothing.
func look() tool.Tool {
	return tool.New(tool.Spec{Name: "look", ReadOnly: true}, func(context.Context, struct{}) tool.Result { return tool.Result{Text: "looked"} })
}

func TestPlanModeRunsOnlyToolsThatRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var systems, results []string
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			systems = append(systems, r.System)
			for _, res := range last(r).Results {
				results = append(results, res.Name+": "+res.Text)
			}
			if len(last(r).Results) > 0 {
				return say("the plan")
			}
			return call(use("1", "look", struct{}{}), use("2", "Write", map[string]any{"file_path": "a"}), use("3", "replicate_agent", map[string]any{"reason": "x"}), use("4", "Plan", map[string]any{"steps": []any{map[string]any{"text": "one", "state": "pending"}}}))
		}), file("Write"), look())
		m := h.spawn(agent.Order{Policy: permission.Permissive(), Mode: agent.ModePlan, Ask: func(context.Context, agent.ApprovalRequest) tool.Answer {
			t.Error("a person was asked")
			return tool.Answer{Allow: true}
		}})
		if got, err := h.task(m, "go"); got != "the plan" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		for _, want := range []string{"look: looked", "Write: Denied: The mode is plan: only tools that read may run.", "replicate_agent: Denied: The mode is plan", "Plan: The plan is shown: 1 pending"} {
			if !slices.ContainsFunc(results, func(r string) bool { return strings.HasPrefix(r, want) }) {
				t.Errorf("the results are %q, want %q among them", results, want)
			}
		}
		if plans := h.ofType(event.TypePlan); len(plans) != 1 || event.PartOf[event.Plan](plans[0]).Steps[0].Text != "one" {
			t.Errorf("plans are %+v", plans)
		}
		if err := h.factory.ChangeSettings(t.Context(), m.ID, agent.Settings{Mode: agent.ModeAsk}); err != nil {
			t.Fatal(err)
		}
		results = nil
		if _, err := h.task(m, "now do it"); err != nil || !slices.Contains(results, "Write: changed") {
			t.Errorf("after the change: %q, %v", results, err)
		}
		if told := strings.Contains(systems[0], "The mode is plan"); !told || strings.Contains(systems[len(systems)-1], "The mode is plan") {
			t.Errorf("the model is told of the mode: first %v", told)
		}
	})
}

func TestModeChangesWithinTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *house
		var m community.Member
		var systems []string
		h = newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if systems = append(systems, r.System); len(systems) > 1 {
				return say(last(r).Results[0].Text)
			}
			if err := h.factory.ChangeSettings(t.Context(), m.ID, agent.Settings{Mode: agent.ModePlan, Effort: "high"}); err != nil {
				t.Error(err)
			}
			return call(use("1", "Write", map[string]any{"file_path": "a"}))
		}), file("Write"))
		m = h.spawn(agent.Order{Policy: permission.Permissive()})
		if got, err := h.task(m, "go"); err != nil || !strings.Contains(got, "The mode is plan") {
			t.Errorf("got %q, %v, want a denial", got, err)
		}
		if len(systems) != 2 || strings.Contains(systems[0], "The mode is plan") || !strings.Contains(systems[1], "The mode is plan") {
			t.Errorf("the second request has another system prompt: %q", systems)
		}
	})
}

func TestSubAgentInheritsPlanAndNotEdits(t *testing.T) {
	for mode, want := range map[agent.Mode]string{agent.ModePlan: "The mode is plan", agent.ModeEdits: "The person said no."} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h *house
				var root community.Member
				asked, turn, child := 0, 0, ""
				h = newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
					switch {
					case strings.Contains(r.System, "You are a sub-agent") && last(r).Role == llm.User:
						time.Sleep(time.Second) // meanwhile the root begins to wait
						if err := h.factory.ChangeSettings(t.Context(), root.ID, agent.Settings{Mode: mode}); err != nil {
							t.Error(err)
						}
						return call(use("2", "Write", map[string]any{"file_path": "a"}))
					case strings.Contains(r.System, "You are a sub-agent"):
						child = last(r).Results[0].Text
						return say("done")
					}
					switch turn++; turn { // the sub-agent's report may come at any of them
					case 1:
						return call(use("1", "replicate_agent", map[string]any{"reason": "x", "task": "write"}))
					case 2:
						return call(use("3", "wait_agents", struct{}{}))
					}
					return say("over")
				}), file("Write"))
				policy := permission.Standard()
				root = h.spawn(agent.Order{Policy: policy, Ask: func(context.Context, agent.ApprovalRequest) tool.Answer { asked++; return tool.Answer{By: "me"} }})
				if _, err := h.task(root, "go"); err != nil || !strings.Contains(child, want) {
					t.Errorf("the sub-agent read %q, %v, want %q", child, err, want)
				}
				if asks := mode == agent.ModeEdits; asks != (asked == 1) {
					t.Errorf("asked %d times", asked)
				}
			})
		})
	}
}

func TestPlanModeWaitsForSubAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *house
		var root community.Member
		turn := 0
		h = newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if strings.Contains(r.System, "You are a sub-agent") {
				time.Sleep(time.Second)
				return say("counted")
			}
			switch turn++; turn {
			case 1:
				return call(use("1", "replicate_agent", map[string]any{"reason": "x", "task": "count"}))
			case 2:
				if err := h.factory.ChangeSettings(t.Context(), root.ID, agent.Settings{Mode: agent.ModePlan}); err != nil {
					t.Error(err)
				}
				return call(use("2", "wait_agents", struct{}{}), use("3", "stop_agents", struct{}{}))
			}
			return say(last(r).Results[0].Text + last(r).Results[1].Text)
		}))
		root = h.spawn(agent.Order{Policy: permission.Permissive()})
		if got, err := h.task(root, "go"); err != nil || !strings.Contains(got, `"result":"counted"`) || !strings.Contains(got, "Denied: The mode is plan") {
			t.Errorf("got %q, %v, want the result of the sub-agent, which goes on", got, err)
		}
	})
}

func TestEditsModeAnswersForEditsInTheDirectoryOnly(t *testing.T) {
	type test struct {
		tool, file string
		rules      permission.Config
		requester  []string
		guard      bool
		by         string // who answers; "" = no question
		want       string
	}
	const person, mode = "me", "the person, in advance: mode edits"
	none := permission.Config{Preset: "none"}
	for name, tt := range map[string]test{
		"write":            {tool: "Write", file: "a", rules: none, by: mode, want: "changed"},
		"edit below":       {tool: "Edit", file: "sub/a", rules: none, by: mode, want: "changed"},
		"several edits":    {tool: "MultiEdit", file: "./a", rules: none, by: mode, want: "changed"},
		"absolute":         {tool: "Write", file: "/work/a", rules: none, by: mode, want: "changed"},
		"allowed by rule":  {tool: "Write", file: "a", rules: permission.Config{Preset: "development"}, want: "changed"},
		"outside":          {tool: "Write", file: "/etc/hosts", rules: none, by: person, want: "Denied"},
		"up":               {tool: "Write", file: "../a", rules: none, by: person, want: "Denied"},
		"protected":        {tool: "Write", file: "AGENTS.md", rules: none, by: person, want: "Denied"},
		"obeyed by others": {tool: "Write", file: ".vscode/tasks.json", rules: none, by: person, want: "Denied"},
		"denied by rule":   {tool: "Write", file: "a", rules: permission.Config{Preset: "none", Deny: permission.Rules("Write(./a)")}, want: "Denied"},
		"denied by preset": {tool: "Edit", file: "a", rules: permission.Config{Preset: "read_only"}, want: "Denied"},
		"no path":          {tool: "Write", file: "", rules: none, by: person, want: "Denied"},
		"another tool":     {tool: "slow", rules: none, by: person, want: "Denied"},
		"for a node":       {tool: "Write", file: "a", rules: none, requester: []string{"other"}, by: person, want: "Denied"},
		"guardrail asks":   {tool: "Write", file: "a", rules: none, guard: true, by: person, want: "Denied"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				args := map[string]any{"file_path": tt.file}
				if tt.tool == "slow" {
					args = map[string]any{"for": "1s"}
				}
				h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
					if last(r).Role == llm.Tool {
						return say(last(r).Results[0].Text)
					}
					return call(use("1", tt.tool, args))
				}), file("Write"), file("Edit"), file("MultiEdit"), slow())
				var recorded []agent.RecordedDecision
				h.record = func(e agent.RecordedDecision) error { recorded = append(recorded, e); return nil }
				policy, err := tt.rules.Policy()
				if err != nil {
					t.Fatal(err)
				}
				def := definition.General()
				if tt.guard {
					def.Guardrail.Ask = permission.Rules("Write")
				}
				m := h.spawn(agent.Order{Definition: def, Policy: policy, Mode: agent.ModeEdits, Ask: func(context.Context, agent.ApprovalRequest) tool.Answer { return tool.Answer{By: person} }})
				reply, err := h.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte("go"), Requester: tt.requester})
				if err != nil || !strings.Contains(string(reply.Data), tt.want) {
					t.Errorf("got %q, %v, want %q", reply.Data, err, tt.want)
				}
				if len(recorded) != 1 || recorded[0].By != tt.by || recorded[0].Approved != (tt.want == "changed") {
					t.Errorf("recorded is %+v, want it by %q", recorded, tt.by)
				}
			})
		})
	}
}

func TestEditsModeNeedsNoPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var results []string
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if last(r).Role == llm.Tool {
				for _, res := range last(r).Results {
					results = append(results, res.Text)
				}
				return say("done")
			}
			return call(use("1", "Write", map[string]any{"file_path": "a"}), use("2", "Write", map[string]any{"file_path": "CLAUDE.md"}))
		}), file("Write"))
		if _, err := h.task(h.spawn(agent.Order{Policy: permission.Policy{Default: permission.Ask}, Mode: agent.ModeEdits}), "go"); err != nil {
			t.Fatal(err)
		}
		if len(results) != 2 || results[0] != "changed" || !strings.Contains(results[1], "There is no person to ask") {
			t.Errorf("the results are %q", results)
		}
	})
}

func TestSettingsChangeWithTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		model := func(name string) llm.Model {
			return titledModel{script(func(_ context.Context, r llm.Request) (llm.Message, error) {
				asked = append(asked, name+" "+r.Effort)
				if last(r).Text == "stop" {
					return say("stopped")
				}
				return say(name)
			}), name}
		}
		h := newHouse(t, model("first"))
		h.factory = agent.NewFactory(agent.Config{
			Community: h.community, Dir: "/work", Window: func(m string) int { return len(m) * 1000 },
			Model: func(_ context.Context, name string) (llm.Model, error) {
				if name == "gone" {
					return nil, errors.New("no such model")
				}
				return model(name), nil
			},
		})
		def := definition.General()
		def.Effort = "low"
		m := h.spawn(agent.Order{Definition: def, Model: model("first")})
		settings := func() string {
			s, err := h.factory.Settings(m.ID)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("%s %s %s %d", s.Model, s.Effort, s.Mode, s.Window)
		}
		for _, step := range []struct {
			change           agent.Settings
			fails            string
			settings, answer string
		}{
			{agent.Settings{}, "", "first low ask 5000", "first low"},
			{agent.Settings{Model: "second", Effort: "high"}, "", "second high ask 6000", "second high"},
			{agent.Settings{Model: "gone", Effort: "low", Mode: agent.ModePlan}, "no such model", "second high ask 6000", "second high"},
			{agent.Settings{Effort: "most"}, "want low, medium or high", "second high ask 6000", "second high"},
			{agent.Settings{Mode: "yolo"}, "want ask, edits or plan", "second high ask 6000", "second high"},
			{agent.Settings{Effort: "medium"}, "", "second medium ask 6000", "second medium"},
		} {
			err := h.factory.ChangeSettings(t.Context(), m.ID, step.change)
			if (err == nil) != (step.fails == "") || err != nil && !strings.Contains(err.Error(), step.fails) {
				t.Errorf("%+v: error %v, want %q", step.change, err, step.fails)
			}
			if _, err := h.task(m, "go"); err != nil || asked[len(asked)-1] != step.answer || settings() != step.settings {
				t.Errorf("%+v: asked was %q, %v with the settings %q, want %q and %q", step.change, asked[len(asked)-1], err, settings(), step.answer, step.settings)
			}
		}
		if err := h.factory.ChangeSettings(t.Context(), "nobody", agent.Settings{}); !errors.Is(err, community.ErrNotFound) {
			t.Errorf("of an agent that is none: %v", err)
		}
	})
}

func TestModeOfASessionStaysNarrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := inMemory(t)
		h, j := journaled(t, store, script(func(context.Context, llm.Request) (llm.Message, error) { return say("ok") }))
		m := h.spawn(agent.Order{Mode: agent.ModePlan})
		if _, err := h.task(m, "one"); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(h.factory.ChangeSettings(t.Context(), m.ID, agent.Settings{Model: "other", Mode: agent.ModeEdits}), j.Flush()); err != nil {
			t.Fatal(err)
		}
		if _, err := h.task(m, "two"); err != nil {
			t.Fatal(err)
		}
		s := h.factory.Session(m.ID)
		if s.Mode != "edits" || s.Model != "other" {
			t.Errorf("the session has %+v", s)
		}
		if err := h.community.Terminate(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
		m = h.spawn(agent.Order{Mode: agent.ModePlan, Session: s})
		if s = h.factory.Session(m.ID); s.Mode != "plan" {
			t.Errorf("the session that is resumed in another mode has %+v", s)
		}
	})
}

func TestPersonHasRoomMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy, free := make(chan struct{}), make(chan struct{})
		var sizes []int
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if strings.HasPrefix(r.System, "You sum up") {
				return say("there was much talk")
			}
			sizes = append(sizes, len(r.Messages))
			if strings.HasSuffix(last(r).Text, "wait") {
				close(busy)
				<-free
			}
			return say(strings.Repeat("talk ", 300))
		}))
		m := h.spawn(agent.Order{})
		if err := h.factory.Compact(t.Context(), m.ID); err != nil || len(h.ofType(event.TypeNotice)) != 1 {
			t.Errorf("an empty conversation: %v, %+v", err, h.events)
		}
		for range 4 {
			if _, err := h.task(m, "talk"); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.factory.Compact(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
		if c := h.ofType(event.TypeCompacted); len(c) != 1 || event.PartOf[event.Compaction](c[0]).Done >= event.PartOf[event.Compaction](c[0]).Total {
			t.Errorf("compacted is %+v", c)
		}
		h.background(m, "wait")
		<-busy
		if last := sizes[len(sizes)-1]; last >= 9 {
			t.Errorf("the request after that has %d messages of 9", last)
		}
		if err := h.factory.Compact(t.Context(), m.ID); !errors.Is(err, community.ErrBusy) {
			t.Errorf("during a task: %v", err)
		}
		if _, err := h.factory.Clear(m.ID); !errors.Is(err, community.ErrBusy) {
			t.Errorf("cleared during a task: %v", err)
		}
		close(free)
		synctest.Wait()
	})
}

func TestClearBeginsAnotherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := inMemory(t)
		var messages int
		h, j := journaled(t, store, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			messages = len(r.Messages)
			return say("ok")
		}))
		m := h.spawn(agent.Order{})
		if _, err := h.task(m, "one"); err != nil {
			t.Fatal(err)
		}
		before := h.factory.Session(m.ID)
		after, err := h.factory.Clear(m.ID)
		if err != nil || after.ID == before.ID || after.ID != h.factory.Session(m.ID).ID {
			t.Fatalf("%+v, %v", after, err)
		}
		if _, err := h.task(m, "two"); err != nil || messages != 1 {
			t.Errorf("the model got %d messages, %v", messages, err)
		}
		old, _, err := j.Open(t.Context(), before.ID)
		if err != nil {
			t.Fatalf("the old session is in use: %v", err)
		}
		defer old.Close()
		for id, want := range map[string]string{before.ID: "one", after.ID: "two"} {
			entries := entriesOf(t, store, id)
			if entries[0].Kind != session.Task || entries[0].Message.Text != want || entries[len(entries)-1].Status != session.Done {
				t.Errorf("session %s has %+v", id, entries)
			}
		}
	})
}

func TestPicturesOfAPersonReachTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown []int
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			shown = append(shown, len(last(r).Images))
			if len(shown) == 1 {
				return call(use("1", "replicate_agent", map[string]any{"reason": "x", "task": "look"}), use("2", "wait_agents", struct{}{}))
			}
			return say("seen")
		}))
		m := h.spawn(agent.Order{Policy: allowed(t, "replicate_agent")})
		ctx := agent.WithImages(t.Context(), []llm.Image{{Type: "image/png", Data: []byte("x")}})
		if _, err := h.community.Send(ctx, m.ID, community.Signal{Perception: "task", Data: []byte("look")}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.community.Send(ctx, m.ID, community.Signal{Perception: "task", Data: []byte("look"), Requester: []string{"other"}}); err != nil {
			t.Fatal(err)
		}
		if want := []int{1, 0, 0, 0}; !slices.Equal(shown, want) {
			t.Errorf("the requests have %v pictures, want %v: the sub-agent and another node's task have none", shown, want)
		}
	})
}

func TestReasonOfANoReachesTheModelAndTheRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := inMemory(t)
		a := newAsker(t)
		h, j := journaled(t, store, nil)
		_ = h
		var recorded []agent.RecordedDecision
		a.factory = agent.NewFactory(agent.Config{
			Community: a.community, Tools: []tool.Tool{slow()}, Dir: filepath.FromSlash("/work"), Journal: j, Record: func(e agent.RecordedDecision) error { recorded = append(recorded, e); return nil },
			Model: func(context.Context, string) (llm.Model, error) {
				return script(func(_ context.Context, r llm.Request) (llm.Message, error) {
					if last(r).Role == llm.Tool {
						return say(last(r).Results[0].Text)
					}
					return call(use("1", "slow", waitArgs{"1s"}))
				}), nil
			},
		})
		a.answer = tool.Answer{By: "me", Reason: "use the other one."}
		m := a.spawn(a.order(permission.Policy{Default: permission.Ask}, definition.Definition{}))
		a.does(m, "The person said no: use the other one. Do not repeat")
		if len(recorded) != 1 || recorded[0].Reason != "use the other one." || recorded[0].By != "me" {
			t.Errorf("recorded is %+v", recorded)
		}
		for _, e := range entriesOf(t, store, a.factory.Session(m.ID).ID) {
			if e.Kind == session.Decision && (e.Text != "me: use the other one." || e.Status != session.Failed) {
				t.Errorf("the session has %+v", e)
			}
		}
	})
}

func TestPlanNeedsNoRuleAndARuleDeniesIt(t *testing.T) {
	for name, tt := range map[string]struct {
		rules permission.Config
		tools []tool.Tool
		want  string
	}{
		"no rule":             {rules: permission.Config{Preset: "restrictive"}, want: "The plan is shown"},
		"a rule denies":       {rules: permission.Config{Preset: "permissive", Deny: permission.Rules("Plan")}, want: "Denied"},
		"a program's own one": {rules: permission.Config{Preset: "restrictive"}, tools: []tool.Tool{file("Plan")}, want: "not understood"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h *house
				model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
					if last(r).Role == llm.Tool {
						return say(last(r).Results[0].Text)
					}
					return call(use("1", "Plan", map[string]any{"steps": []any{map[string]any{"text": "one", "state": "pending"}}}))
				})
				h = newHouse(t, model, tt.tools...)
				policy, err := tt.rules.Policy()
				if err != nil {
					t.Fatal(err)
				}
				if got, err := h.task(h.spawn(agent.Order{Policy: policy}), "go"); err != nil || !strings.Contains(got, tt.want) {
					t.Errorf("got %q, %v, want %q", got, err, tt.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if last(r).Role == llm.Tool {
				return say(last(r).Results[0].Text)
			}
			return call(use("1", "Plan", map[string]any{"file_path": "a"}))
		}), file("Plan"))
		if got, err := h.task(h.spawn(agent.Order{Policy: permission.Restrictive()}), "go"); err != nil || !strings.Contains(got, "Denied") {
			t.Errorf("a program's own tool of that name: %q, %v", got, err)
		}
	})
}
