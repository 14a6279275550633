package chat

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/event/eventtest"
)

// onTerminals is an Env whose outputs are collected; which of them are terminals is said.
func onTerminals(out, err bool) (a *command.Env, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &command.Env{Out: stdout, Err: stderr, OutIsTerminal: out, ErrIsTerminal: err, Getenv: func(name string) string {
		return map[string]string{"TERM": "dumb"}[name]
	}}, stdout, stderr
}

func TestViewPrintsAnswerToStdout(t *testing.T) {
	events := []event.Event{
		eventtest.New("text", "r", `{"turn":1,"text":"I look."}`),
		eventtest.New("tool_call", "r", `{"tool":"Read","call":"1","args":{"file_path":"a"}}`),
		eventtest.New("tool_result", "r", `{"tool":"Read","call":"1","text":"1"}`),
		eventtest.New("text", "r", `{"turn":2,"text":"The answer."}`),
	}
	for _, c := range []struct {
		out, err       bool
		stdout, stderr string
	}{
		{true, true, "I look.\n  Read a  1  0s\nThe answer.\n  1 agent · 2 model calls · 9 tokens · 1s\n", ""},
		{false, true, "The answer.\n", "  Read a  1  0s\n  1 agent · 2 model calls · 9 tokens · 1s\n"},
		{true, false, "I look.\nThe answer.\n", "00:00:00  tool_call r tool=Read\n00:00:00  tool_result r tool=Read text=1\n1 agent · 2 model calls · 9 tokens · 1s\n"},
		{false, false, "The answer.\n", "00:00:00  tool_call r tool=Read\n00:00:00  tool_result r tool=Read text=1\n1 agent · 2 model calls · 9 tokens · 1s\n"},
	} {
		a, stdout, stderr := onTerminals(c.out, c.err)
		s := newView(a)
		for _, e := range events {
			e.Time = time.Date(2000, 1, 1, 0, 0, 0, 0, time.Local)
			if err := s.event(e); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.result(eventtest.New("result", "", `{"text":"The answer.","status":"done","spent":{"model_calls":2,"tokens":9,"wall":1}}`)); err != nil {
			t.Fatal(err)
		}
		if stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("terminals %t and %t: got\n%s---\n%s\nwant\n%s---\n%s", c.out, c.err, stdout, stderr, c.stdout, c.stderr)
		}
	}
}

func TestViewHoldsEventsDuringQuestion(t *testing.T) {
	a, stdout, stderr := onTerminals(true, true)
	s := newView(a)
	s.question(Question{event.Event{Name: "general", Why: "No rule."}, event.Approval{Tool: "Write"}})
	if err := s.event(eventtest.New("text", "r", `{"text":"meanwhile"}`)); err != nil {
		t.Fatal(err)
	}
	if stdout.Len() > 0 || !strings.HasSuffix(stderr.String(), "N] ") {
		t.Errorf("while it waits: %q and %q", stdout, stderr)
	}
	s.release()
	if stdout.String() != "meanwhile" {
		t.Errorf("afterwards: %q", stdout)
	}
}

func TestOwnSteeringIsNotFromElsewhere(t *testing.T) {
	for _, order := range [][]string{{"receipt:kept", "steered:delivered"}, {"steered:delivered", "receipt:delivered"}} {
		a, stdout, stderr := onTerminals(true, true)
		c := &conversation{env: a, options: Options{Keep: true}, view: newView(a), outbox: outbox{pendingSteering: []string{"stop that"}}}
		for _, o := range order {
			kind, outcome, _ := strings.Cut(o, ":")
			data := `{"text": "stop that", "outcome": "` + outcome + `"}`
			if err := c.receipt(eventtest.New(kind, "a", data)); err != nil {
				t.Fatal(err)
			}
		}
		if got := stdout.String() + stderr.String(); strings.Contains(got, "elsewhere") || strings.Count(got, "delivered: stop that") != 1 || len(c.outbox.pendingSteering) > 0 {
			t.Errorf("%v shows %q; left %v", order, got, c.outbox.pendingSteering)
		}
	}
}

func TestViewPrintsPastAsItWasShown(t *testing.T) {
	a, stdout, stderr := onTerminals(true, true)
	s := newView(a)
	past := eventtest.New("transcript", "a", `{"transcript":[{"role":"user","text":"hi"},{"role":"assistant","text":"I look","calls":[{"id":"1","name":"Read","args":{"file_path":"a"}}]},{"role":"tool","results":[{"call_id":"1","name":"Read","text":"b\nc"}]}],"omitted":2,"pending_steering":1}`)
	const messages = "> hi\nI look\n  Read a  2 lines\n"
	for _, c := range []struct {
		notes []string
		want  string
	}{
		{nil, "  What the agent remembers (2 messages before these, not shown) (not yet\ndelivered: 1)\n" + messages},
		{[]string{"it goes on"}, "  What the agent remembers (2 messages before these, not shown) (not yet\ndelivered: 1)\n" + messages + "  it goes on\n"},
	} {
		s.pastNotes = c.notes
		if err := s.printTranscript(past); err != nil {
			t.Fatal(err)
		}
		if got := stdout.String() + stderr.String(); got != c.want {
			t.Errorf("with the notes %q: got\n%s\nwant\n%s", c.notes, got, c.want)
		}
		stdout.Reset()
	}
}

func TestLogOfPastNamesItsTools(t *testing.T) {
	a, _, stderr := onTerminals(true, false)
	if err := newView(a).past("a", []llm.Message{{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "1", Name: "Read", Args: []byte(`{}`)}}}}); err != nil || !strings.HasSuffix(stderr.String(), "tool_call a tool=Read\n") {
		t.Errorf("the log has %q, %v", stderr, err)
	}
}

func TestRowOfSubAgentHasTaskAndPlace(t *testing.T) {
	if got, want := ArgSummary([]byte(`{"reason":"a part","name":"ann","task":"count the files\nof all","node":"kitchen"}`)), "count the files … on kitchen"; got != want {
		t.Errorf("the call is %q, want %q", got, want)
	}
	for text, want := range map[string]string{
		`{"success":true,"agent_id":"a1","name":"ann"}`:                 "as ann",
		`{"success":true,"agents":[{"agent_id":"1"},{"agent_id":"2"}]}`: "2 agents",
		`{"success":true}`: `{"success":true}`,
	} {
		if got := ResultSummary(text); got != want {
			t.Errorf("of %s the person reads %q, want %q", text, got, want)
		}
	}
}

func TestPersonReadsHowToGoOn(t *testing.T) {
	for mode, c := range map[string]struct{ result, want string }{
		"plan": {`{"status":"done","text":"first a, then b"}`, "leave the mode with Shift-Tab, /mode ask or /mode edits"},
		"ask":  {`{"status":"failed","error":"model m: the conversation is too long for the model"}`, "/compact makes room in it, /clear begins a new one"},
	} {
		a, stdout, stderr := onTerminals(true, true)
		a.InIsTerminal = true
		c2 := &conversation{env: a, options: Options{Keep: true}, view: newView(a), agent: agentInfo{settings: event.Settings{Mode: mode}}}
		if err := c2.result(eventtest.New("result", "", c.result)); err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(stdout.String()+stderr.String(), "\n", " "); !strings.Contains(got, c.want) {
			t.Errorf("in mode %s the person reads %q", mode, got)
		}
	}
}

func TestPersonReadsReasonAlone(t *testing.T) {
	for text, want := range map[string]string{
		"send task to general: turn 1 of the model: model m: the key was refused": "the task failed: model m: the key was refused",
		"send task to general: model m: too long":                                 "the task failed: model m: too long",
		"the budget of the model: is spent":                                       "the task failed: the budget of the model: is spent",
	} {
		if got := problem(event.End{Status: "failed", Error: text}); got != want {
			t.Errorf("of %q the person reads %q, want %q", text, got, want)
		}
	}
	if got, want := noticeText(event.Event{Type: event.TypeRetry, Why: "model m: busy", Part: event.Retry{Next: "m", Wait: 1}}), "calls m in 1s: busy"; got != want {
		t.Errorf("of a retry the person reads %q, want %q", got, want)
	}
}
