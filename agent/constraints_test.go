package agent_test

import (
	"context"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/guardrail"
	"symbio/community"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// runs is a tool that runs nothing, and says what a command would be held to.
func runs(name string) tool.Tool {
	return tool.New(tool.Spec{Name: name}, func(ctx context.Context, _ struct{}) tool.Result {
		held := tool.Constrain(ctx, sandbox.Policy{Network: sandbox.NetworkFull, Subprocess: true, Env: []string{"A"}})
		text, err := json.Marshal(map[string]any{"network": held.Network.String(), "fork": held.Subprocess, "env": held.Env, "narrowed": tool.IsConstrained(ctx)})
		if err != nil {
			return tool.Result{Text: err.Error(), IsError: true}
		}
		return tool.Result{Text: string(text)}
	})
}

const wide, narrow = `{"env":["A"],"fork":true,"narrowed":false,"network":"full"}`, `{"env":["A"],"fork":true,"narrowed":true,"network":"none"}`

// calling is a model that calls the tool that the task names, and answers with its result. A task of "via NAME TOOL"
// spawns a sub-agent, or finds the member of that name, and has it do the rest.
func calling() llm.Model {
	return script(func(_ context.Context, r llm.Request) (llm.Message, error) {
		task := r.Messages[len(r.Messages)-1].Text
		for i := len(r.Messages) - 1; i >= 0 && r.Messages[i].Role != llm.User; i-- {
			task = r.Messages[i-1].Text
		}
		to, rest, via := strings.Cut(strings.TrimPrefix(task, "via "), " ")
		m := last(r)
		switch {
		case m.Role != llm.Tool && !via:
			return call(use("1", task, struct{}{}))
		case m.Role != llm.Tool && to == "copy":
			return call(use("1", "replicate_agent", map[string]any{"reason": "r", "name": "copy"}))
		case m.Role != llm.Tool:
			return call(use("2", "send_signal", map[string]any{"member": to, "perception": "task", "data": rest}))
		case m.Results[0].Name == "replicate_agent":
			var got struct{ Agent_id string }
			if err := json.Unmarshal([]byte(m.Results[0].Text), &got); err != nil {
				return say(m.Results[0].Text)
			}
			return call(use("2", "send_signal", map[string]any{"member": got.Agent_id, "perception": "task", "data": rest}))
		}
		return say(m.Results[0].Text)
	})
}

func defined(t *testing.T, lines ...string) definition.Definition {
	t.Helper()
	d, problems := definition.Loader{}.Parse([]byte("---\nname: a\ndescription: d\n" + strings.Join(lines, "\n") + "\n---\ntext\n"))
	for _, p := range problems {
		t.Fatal(p.Error())
	}
	return d
}

var everything = permission.Policy{Default: permission.Allow}

func TestDefinitionNarrowsTheCallsOfItsAgentsAndOfWhoWorksForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, calling(), runs("go"), runs("stop"))
		bounded := defined(t, "guardrail: {deny: [stop]}", "sandbox: {network: none}")
		free := h.spawn(agent.Order{Policy: everything, Name: "free"})
		tight := h.spawn(agent.Order{Policy: everything, Name: "tight", Definition: bounded})
		byTight := "Denied (permissions of tight's guardrail)"
		for _, test := range []struct {
			who  community.Member
			task string
			want string
		}{
			{free, "go", wide}, {free, "stop", wide},
			{tight, "go", narrow}, {tight, "stop", byTight},
			{tight, "via copy go", narrow}, {tight, "via copy stop", byTight},
			{tight, "via " + string(free.ID) + " go", narrow}, {tight, "via " + string(free.ID) + " stop", byTight},
			{free, "stop", wide}, // it works for itself again
			{free, "via " + string(tight.ID) + " go", narrow},
		} {
			got, err := h.task(test.who, test.task)
			if err != nil || !strings.Contains(plainText(got), test.want) {
				t.Errorf("%s does %q: got %s, %v, want %s", test.who.Name, test.task, got, err, test.want)
			}
		}
	})
}

// plainText is an answer that may be quoted in the answer of another agent.
func plainText(s string) string {
	for range 3 {
		var reply struct{ Reply string }
		if json.Unmarshal([]byte(s), &reply) == nil && reply.Reply != "" {
			s = reply.Reply
		}
	}
	return strings.ReplaceAll(s, `\"`, `"`)
}

func TestNoOverrideLiftsWhatADefinitionsGuardrailDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, calling(), runs("go"), runs("stop"))
		around := func(ctx context.Context, parts ...guardrail.Part) context.Context {
			g, err := guardrail.New(parts...)
			if err != nil {
				t.Fatal(err)
			}
			return g.Around(ctx)
		}
		ask := func(ctx context.Context, d definition.Definition) string {
			m := h.spawn(agent.Order{Policy: everything, Definition: d})
			r, err := h.community.Send(ctx, m.ID, community.Signal{Perception: "task", Data: []byte("stop")})
			if err != nil {
				t.Fatal(err)
			}
			return string(r.Data)
		}
		if got := ask(around(t.Context(), guardrail.Override("stop")), defined(t, "guardrail: {deny: [stop]}")); !strings.HasPrefix(got, "Denied") {
			t.Errorf("a caller's override lifted it: %s", got)
		}
		if got := ask(around(t.Context(), guardrail.Deny("stop")), defined(t, "guardrail: {override: [stop]}")); !strings.HasPrefix(got, "Denied") {
			t.Errorf("a definition's override lifted a caller's denial: %s", got)
		}
		if got := ask(t.Context(), defined(t, "guardrail: {deny: [stop], override: [stop]}")); got != wide {
			t.Errorf("its own override does not lift it: %s", got)
		}
		if got := ask(t.Context(), defined(t, "guardrail: {ask: [stop]}")); !strings.Contains(got, "no person to ask") {
			t.Errorf("nobody was asked: %s", got)
		}
	})
}

func TestDefinitionsBudgetIsALimitBesideTheOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, calling(), runs("go"))
		none := h.spawn(agent.Order{Policy: everything, Definition: defined(t, "budget: {model_calls: 3}"), Limits: budget.Limits{ModelCalls: 100}})
		if _, err := h.task(none, "go"); err != nil {
			t.Errorf("two calls and last words are within the budget: %v", err)
		}
		if text, err := h.task(none, "via copy go"); err == nil {
			t.Errorf("five calls of models went through a budget of three: %s", text)
		}
		depth := h.spawn(agent.Order{Policy: everything, Definition: defined(t, "budget: {depth: 5}"), Limits: budget.Limits{Depth: -1}})
		if text, err := h.task(depth, "via copy go"); err != nil || !strings.Contains(text, "no sub-agent was spawned") {
			t.Errorf("a definition widened the order: %s, %v", text, err)
		}
	})
}

func TestDirectoryThatIsNotThereKeepsAnAgentFromBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, calling())
		_, err := h.factory.Spawn(t.Context(), agent.Order{Definition: defined(t, "sandbox: {write: [nowhere]}")})
		if err == nil || !strings.Contains(err.Error(), "definition a: sandbox.write: ") {
			t.Errorf("got %v", err)
		}
		if n := len(h.community.Members()); n != 0 {
			t.Errorf("%d members are left", n)
		}
	})
}

// thinker is a model that thinks if it is asked to, or never.
type thinker struct {
	llm.Model
	asked *[]int
	never bool
}

func (m thinker) Stream(_ context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		*m.asked = append(*m.asked, r.Thinking)
		if r.Thinking > 0 && !m.never && !yield(llm.Chunk{Thought: "hm"}, nil) {
			return
		}
		yield(llm.Chunk{Text: "done", Stop: llm.StopEnd}, nil)
	}
}

func TestThinkingIsAskedForAndItsAbsenceTold(t *testing.T) {
	for line, want := range map[string]struct {
		tokens  int
		never   bool
		notices int
	}{
		"": {0, true, 0}, "thinking: 3000": {3000, false, 0}, "thinking: 3001": {3001, true, 1}, "thinking: false": {-1, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked []int
			h := newHouse(t, thinker{calling(), &asked, want.never})
			m := h.spawn(agent.Order{Definition: defined(t, line)})
			for range 2 {
				if _, err := h.task(m, "x"); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff([]int{want.tokens, want.tokens}, asked); diff != "" {
				t.Errorf("%q: tokens to think (-want +got):\n%s", line, diff)
			}
			notices := h.seen(event.TypeNotice)
			if len(notices) != want.notices {
				t.Errorf("%q: notices %+v, want %d", line, notices, want.notices)
			}
			for _, n := range notices {
				if n.Agent != string(m.ID) || !strings.Contains(n.Text, "shows none") {
					t.Errorf("%q: notice %+v", line, n)
				}
			}
		})
	}
}

// Whatever a definition says, and whatever the node allows: what is left is within what the node allows.
func TestDefinitionsSandboxOnlyTakesAway(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	paths := rapid.SliceOfN(rapid.SampledFrom([]string{"/", dir, dir + "/a", dir + "/b"}), 0, 3)
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"A", "B", "C"}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		limits := func(of string) sandbox.Limits {
			n := rapid.IntRange(0, 3)
			return sandbox.Limits{
				CPU: time.Duration(n.Draw(t, of+" cpu")) * time.Minute, FileSize: int64(n.Draw(t, of+" size")), OpenFiles: n.Draw(t, of+" files"),
				Processes: n.Draw(t, of+" processes"), Memory: int64(n.Draw(t, of+" memory")),
			}
		}
		node := sandbox.Policy{
			Files:   sandbox.Files{Read: paths.Draw(t, "read"), Write: paths.Draw(t, "write"), Show: paths.Draw(t, "show"), Temp: rapid.Bool().Draw(t, "temp")},
			Network: sandbox.Network(rapid.IntRange(0, 2).Draw(t, "network")), Subprocess: rapid.Bool().Draw(t, "subprocess"),
			Unprotected: rapid.Bool().Draw(t, "unprotected"), Limits: limits("node's"), Env: names.Draw(t, "env"),
		}
		own := definition.Sandbox{
			Preset: rapid.SampledFrom([]string{"", "restrictive", "standard", "permissive"}).Draw(t, "preset"), Network: rapid.SampledFrom([]string{"", "none", "local", "full"}).Draw(t, "own network"),
			NoSubprocess: rapid.Bool().Draw(t, "no subprocess"), Limits: limits("own"),
		}
		if rapid.Bool().Draw(t, "writes") {
			own.Write = append([]string{}, rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", dir, "/"}), 0, 2).Draw(t, "own write")...)
		}
		if rapid.Bool().Draw(t, "has env") {
			own.Env = append([]string{}, names.Draw(t, "own env")...)
		}
		left, err := own.Constrain(node, dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sandbox.Meet(left, left), sandbox.Meet(left, node)); diff != "" {
			t.Errorf("%+v of %+v is more than that (-left +what both allow):\n%s", own, node, diff)
		}
		if own.Network == "none" && left.Network != sandbox.NetworkNone || own.NoSubprocess && left.Subprocess {
			t.Errorf("%+v leaves %+v", own, left)
		}
		if own.Write != nil && len(own.Write) == 0 && len(left.Files.Write) > 0 {
			t.Errorf("%+v leaves %v to write", own, left.Files.Write)
		}
		if own.IsZero() && !slices.Equal(left.Env, sandbox.Meet(node, node).Env) {
			t.Errorf("nothing was said, and %v is left of %v", left.Env, node.Env)
		}
	})
}

// The narrowing of a definition is asked by all calls of an agent at once.
func TestDefinitionNarrowsManyCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 8 // which run beside each other
		var there sync.WaitGroup
		there.Add(many)
		wide := sandbox.Policy{Network: sandbox.NetworkFull, Subprocess: true, Env: []string{"A"}}
		together := tool.New(tool.Spec{Name: "go"}, func(ctx context.Context, _ struct{}) tool.Result {
			there.Done()
			there.Wait()
			if p := tool.Constrain(ctx, wide); p.Network != sandbox.NetworkNone || p.Subprocess || !slices.Equal(p.Env, wide.Env) {
				return tool.Result{Text: "held to too much or too little", IsError: true}
			}
			return tool.Result{Text: "held"}
		})
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			if m := last(r); m.Role == llm.Tool {
				return say(m.Results[many-1].Text)
			}
			var calls []llm.ToolCall
			for i := range many {
				calls = append(calls, use(string(rune('a'+i)), "go", struct{}{}))
			}
			return call(calls...)
		}), together)
		m := h.spawn(agent.Order{Policy: everything, Definition: defined(t, "sandbox: {preset: restrictive}")})
		if got, err := h.task(m, "x"); err != nil || got != "held" {
			t.Errorf("got %s, %v", got, err)
		}
	})
}

func TestDefinitionsTemperatureIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []*float64
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			asked = append(asked, r.Temperature)
			return say("done")
		}))
		for _, line := range []string{"temperature: 0", ""} {
			if _, err := h.task(h.spawn(agent.Order{Definition: defined(t, line)}), "x"); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]*float64{new(0.0), nil}, asked); diff != "" {
			t.Errorf("temperatures (-want +got):\n%s", diff)
		}
	})
}
