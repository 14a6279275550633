package agent_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/agent/tool/builtin"
	"symbio/internal/agent/tool/shell"
	"symbio/security/permission"
)

// working returns a factory of agents that work in a new directory with an AGENTS.md, with the tools
// of a node.
func working(t *testing.T, window int, c agent.WorkContext) (*house, *agent.Factory, *[]llm.Request) {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"AGENTS.md": "Use tabs.\n@g.md", "g.md": "Imported."})
	files, err := builtin.New(builtin.Config{Dir: dir, Commands: shell.Config{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	var requests []llm.Request
	model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
		requests = append(requests, r)
		return say("hello")
	})
	h := newHouse(t, model)
	h.factory = agent.NewFactory(agent.Config{
		Community: h.community, Skills: h.skills, Tools: files.Tools(), Dir: dir, WorkContext: c, Window: func(string) int { return window },
		Model: func(context.Context, string) (llm.Model, error) { return model, nil },
	})
	return h, h.factory, &requests
}

func TestSystemPromptHasFilesUnlessReadingIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { testFilesInSystemPrompt(t) })
}

func testFilesInSystemPrompt(t *testing.T) {
	h, f, requests := working(t, 0, agent.WorkContext{Files: true, Environment: true})
	for rule, want := range map[string]bool{"": true, "permissions: {deny: [\"Read(AGENTS.md)\"]}": false} {
		m := h.spawn(agent.Order{Definition: defined(t, rule), Policy: everything})
		parts, err := f.Inspect(m.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.task(m, "hi"); err != nil {
			t.Fatal(err)
		}
		r := (*requests)[len(*requests)-1]
		if got := strings.Contains(r.System, "\n\nUse tabs.\n"); got != want || !strings.Contains(r.System, "\n# Environment\n") {
			t.Errorf("%q: %s", rule, r.System)
		}
		if got := slices.ContainsFunc(parts, func(p conversation.InspectedPart) bool { return p.Name == "AGENTS.md" }); got != want {
			t.Errorf("%q: inspected %v", rule, parts)
		}
	}
}

func TestImportsAreReadAsReadWouldUnasked(t *testing.T) {
	for name, c := range map[string]struct {
		definition string
		otherwise  permission.Action
		want       bool
	}{
		"allowed":             {"", permission.Allow, true},
		"asked":               {"", permission.Ask, false},
		"default deny":        {"", permission.Deny, false},
		"denied":              {`permissions: {deny: ["Read(g.md)"]}`, permission.Allow, false},
		"guardrail":           {`guardrail: {deny: ["Read(g.md)"]}`, permission.Allow, false},
		"guardrail that asks": {`guardrail: {ask: ["Read(g.md)"]}`, permission.Allow, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, _, requests := working(t, 0, agent.WorkContext{Files: true})
				m := h.spawn(agent.Order{Definition: defined(t, c.definition), Policy: permission.Policy{Default: c.otherwise}})
				if _, err := h.task(m, "hi"); err != nil {
					t.Fatal(err)
				}
				r := (*requests)[0]
				if got := strings.Contains(r.System, "Imported."); got != c.want || strings.Contains(r.System, "@g.md in AGENTS.md is not added") == c.want || !strings.Contains(r.System, "Use tabs.") {
					t.Errorf("imported: %v: %s", got, r.System)
				}
			})
		})
	}
}

// TestSmallWindowGetsShortRequest counts with the estimate of agents inspect. 2,000 tokens are a
// quarter of the smallest window of today's local models.
func TestSmallWindowGetsShortRequest(t *testing.T) {
	for _, test := range []struct {
		tools       string
		window, max int
	}{{"tools: [\"preset:default\"]", 8000, 2000}, {"", 8000, 2000}, {"", 128_000, 20_000}} {
		synctest.Test(t, func(t *testing.T) { testWindow(t, test.tools, test.window, test.max) })
	}
}

func testWindow(t *testing.T, tools string, window, most int) {
	h, f, requests := working(t, window, agent.WorkContext{Environment: true})
	m := h.spawn(agent.Order{Definition: defined(t, tools), Policy: everything})
	if _, err := h.task(m, "hello"); err != nil {
		t.Fatal(err)
	}
	parts, err := f.Inspect(m.ID)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, p := range parts {
		sum += p.Tokens
	}
	if sum > most || most > 2000 && sum < 3000 {
		t.Errorf("%q in a window of %d: %d tokens: %+v", tools, window, sum, parts)
	}
	t.Logf("%q in a window of %d: %d tokens", tools, window, sum)
	for _, name := range []string{"Read", "Bash", "Edit"} {
		if !slices.ContainsFunc((*requests)[0].Tools, func(s llm.ToolSpec) bool { return s.Name == name }) {
			t.Errorf("the model is not shown %s", name)
		}
	}
}
