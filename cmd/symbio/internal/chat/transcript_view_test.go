package chat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"symbio/agent/budget"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/agent/event/eventtest"
)

// played is what a terminal of so many columns shows of a tree's events, each a type, the agent and its data.
func played(columns int, prose bool, events ...[3]string) (*transcriptView, string) {
	var b strings.Builder
	s := &transcriptView{screen: &screen{w: &b, Columns: func() int { return columns }}, prose: prose, lines: true}
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, e := range events {
		at = at.Add(50 * time.Millisecond)
		shown := eventtest.New(e[0], e[1], e[2])
		shown.Time = at
		s.event(shown)
	}
	return s, strings.TrimRight(b.String(), "\n")
}

func TestTranscriptViewShowsAgentTree(t *testing.T) {
	_, got := played(60, true,
		[3]string{"joined", "r", `{"name":"general"}`},
		[3]string{"task", "r", `{"name":"general","text":"do it"}`},
		[3]string{"catalog", "r", `{"text":"a-skill"}`},
		[3]string{"text", "r", `{"turn":1,"text":"\n\nI look"}`},
		[3]string{"text", "r", `{"turn":1,"text":" around."}`},
		[3]string{"turn", "r", `{"turn":1}`},
		[3]string{"tool_call", "r", `{"tool":"Grep","call":"1","args":{"path":"x","pattern":"a.b"}}`},
		[3]string{"tool_call", "r", `{"tool":"Bash","call":"2","args":{"command":"ls\nrm x","timeout":3}}`},
		[3]string{"tool_result", "r", `{"tool":"Bash","call":"2","text":"Denied: no rule allows it.\nAsk.","failed":true}`},
		[3]string{"tool_result", "r", `{"tool":"Grep","call":"1","text":"x:1\ny:2\n"}`},
		[3]string{"spawned", "r", `{"member":"c","text":"a part"}`},
		[3]string{"task", "c", `{"name":"helper","parent":"r","text":"look"}`},
		[3]string{"text", "c", `{"name":"helper","parent":"r","text":"not shown"}`},
		[3]string{"tool_call", "g", `{"name":"helper-1","parent":"c","tool":"mcp__x__y","call":"1","args":{"z":[1,"\u001b[31m"]}}`},
		[3]string{"tool_result", "g", `{"name":"helper-1","parent":"c","tool":"mcp__x__y","call":"1","text":"ok\u001b[2J"}`},
		[3]string{"failed", "c", `{"name":"helper","parent":"r","why":"no","spent":{"model_calls":1,"tokens":12000}}`},
		[3]string{"retry", "r", `{"next":"openai:x","wait":2,"why":"busy"}`},
		[3]string{"gap", "", `{"missed":7}`},
	)
	want := `I look around.
  Bash ls …  failed: Denied: no rule allows it. …  50ms
  Grep a.b  2 lines  150ms
    helper  look
      helper-1  mcp__x__y "z":[1,"\u001b[31m"]  ok[2J  50ms
    helper  failed: no  1 model call · 12k tokens · 200ms
  calls openai:x in 2s: busy
  7 events dropped: there were too many at once`
	if got != want {
		t.Errorf("shown is\n%s\nwant\n%s", got, want)
	}
}

func TestSubAgentsDoNotInterruptASentence(t *testing.T) {
	child := func(n int) [3]string {
		return [3]string{"task", "c", fmt.Sprintf(`{"name":"helper","parent":"r","text":"part %d"}`, n)}
	}
	say := func(text string) [3]string { return [3]string{"text", "r", fmt.Sprintf(`{"turn":1,"text":%q}`, text)} }
	_, got := played(60, true, say("One "), child(1), say("sentence"), child(2), say(".\n"), child(3), say("Two"), child(4), [3]string{"turn", "r", `{"turn":1}`})
	want := "One sentence.\n    helper  part 1\n    helper  part 2\n    helper  part 3\nTwo\n    helper  part 4"
	if got != want {
		t.Errorf("shown is\n%s\nwant\n%s", got, want)
	}
}

func TestTranscriptViewShowsUnstreamedAnswer(t *testing.T) {
	said := [3]string{"text", "r", `{"turn":2,"text":"the answer\n"}`}
	for text, want := range map[string]string{"the answer": "the answer", "another": "the answer\nanother", "": "the answer"} {
		s, _ := played(60, true, said)
		s.finish(text)
		if got := strings.TrimRight(s.screen.w.(*strings.Builder).String(), "\n"); got != want {
			t.Errorf("with the result %q shown is %q, want %q", text, got, want)
		}
	}
	if s, got := played(60, false, said); got != "" || s.turnText.String() != "the answer\n" {
		t.Errorf("where the answer goes elsewhere, shown is %q", got)
	}
}

func TestToolLinesFitNarrowTerminal(t *testing.T) {
	for _, columns := range []int{1, 5, 20, 30} {
		_, got := played(columns, true,
			[3]string{"task", "r", `{}`},
			[3]string{"tool_call", "c", `{"name":"a-helper-with-a-long-name","parent":"r","tool":"Bash","call":"1","args":{"command":"日本語日本語日本語日本語日本語"}}`},
			[3]string{"tool_result", "c", `{"name":"a-helper-with-a-long-name","parent":"r","tool":"Bash","call":"1","text":"日本語"}`},
		)
		if terminal.Width(got) >= max(2, columns) || strings.Count(got, "\n") > 0 {
			t.Errorf("in %d columns shown is %q", columns, got)
		}
	}
}

func TestSpentTextIsOneLine(t *testing.T) {
	for want, s := range map[string]budget.Spent{
		"3 agents · 12 model calls · 41k tokens · $0.08 · 1m12s": {Agents: 2, ModelCalls: 12, Tokens: 41_234, Cost: 0.0812, Wall: 72.3},
		"1 agent · 1 model call · 250 tokens · 1.5s":             {ModelCalls: 1, Tokens: 250, Wall: 1.52},
		"1 agent · 1 model call · 41k tokens (30k cached) · 1s":  {ModelCalls: 1, Tokens: 41_000, Cached: 30_000, Wall: 1},
		"1 agent · 2 model calls · 12M tokens · $0.0021 · 3ms":   {ModelCalls: 2, Tokens: 12_345_678, Cost: 0.0021, Wall: 0.003},
	} {
		if got := SpentText(s); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}
