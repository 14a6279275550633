package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"symbio/cmd/symbio/internal/node"
)

// onTerminals is an App whose outputs are collected; which of them are terminals is said.
func onTerminals(out, err bool) (a *App, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &App{Out: stdout, Err: stderr, OutIsTerminal: out, ErrIsTerminal: err, Getenv: func(name string) string {
		return map[string]string{"TERM": "dumb"}[name]
	}}, stdout, stderr
}

func TestTheAnswerGoesToStandardOutputAndTheRestElsewhere(t *testing.T) {
	events := []node.Event{
		{Type: "text", Agent: "r", Data: []byte(`{"turn":1,"text":"I look."}`)},
		{Type: "tool_call", Agent: "r", Data: []byte(`{"tool":"Read","call":"1","args":{"file_path":"a"}}`)},
		{Type: "tool_result", Agent: "r", Data: []byte(`{"tool":"Read","call":"1","text":"1"}`)},
		{Type: "text", Agent: "r", Data: []byte(`{"turn":2,"text":"The answer."}`)},
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
		s := a.newShow()
		for _, e := range events {
			e.Time = time.Date(2000, 1, 1, 0, 0, 0, 0, time.Local)
			if err := s.event(e); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.result(node.Event{Type: "result", Data: []byte(`{"text":"The answer.","status":"done","spent":{"model_calls":2,"tokens":9,"wall":1}}`)}); err != nil {
			t.Fatal(err)
		}
		if stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("terminals %t and %t: got\n%s---\n%s\nwant\n%s---\n%s", c.out, c.err, stdout, stderr, c.stdout, c.stderr)
		}
	}
}

func TestNothingIsShownBelowAQuestionUntilItIsAnswered(t *testing.T) {
	a, stdout, stderr := onTerminals(true, true)
	s := a.newShow()
	s.question(question{Name: "general", Tool: "Write", Why: "No rule."}, false)
	if err := s.event(node.Event{Type: "text", Agent: "r", Data: []byte(`{"text":"meanwhile"}`)}); err != nil {
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

func TestATranscriptIsShownWhole(t *testing.T) {
	a, _, stderr := onTerminals(false, false)
	s := a.newShow()
	if err := s.transcript(node.Event{Data: []byte(`{"transcript":[{"role":"user","text":"hi"},{"role":"assistant","text":"I look","calls":[{"id":"1","name":"Read","args":{"file_path":"a"}}]},{"role":"tool","results":[{"call_id":"1","name":"Read","text":"b\nc"}]}],"omitted":2,"pending_steering":1}`)}); err != nil {
		t.Fatal(err)
	}
	if got, want := stderr.String(), "2 messages before these are not shown\nuser: hi\nassistant: I look\nRead {\"file_path\":\"a\"}\nRead: b c\nto be put to the agent: 1\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
