package session_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/session"
)

// What another node answers reads as it does there.
func TestLinesOfAnotherNode(t *testing.T) {
	b := inMemory(t)
	l := session.NewJournal(b, "n").Create(session.Info{})
	for _, e := range []session.Entry{
		{Kind: session.Task, Message: &llm.Message{Text: "do it"}},
		{Kind: session.Approval, Call: &llm.ToolCall{Name: "Write"}, Text: "no rule"},
		{Kind: session.Child, Child: &session.ChildAgent{Name: "worker", Node: "1f", On: "desk"}},
		{Kind: session.Edit, Edit: &session.FileEdit{Path: "/a"}},
		{Kind: session.Edit, Edit: &session.FileEdit{Path: "/a", Call: session.UndoPrefix}},
		{Kind: session.End, Status: session.Failed, Text: "no model"},
	} {
		if err := l.Commit(e); err != nil {
			t.Fatal(err)
		}
	}
	q := session.Query{Op: session.OpShow, ID: l.Info().ID}
	lines, err := q.Run(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	var wire bytes.Buffer
	for _, l := range lines {
		data, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		wire.Write(append(data, '\n'))
	}
	got, err := q.Decode(&wire)
	if err != nil {
		t.Fatal(err)
	}
	notes := func(lines []session.Line) (all []string) {
		for _, l := range lines {
			all = append(all, l.Note())
		}
		return all
	}
	want := "; ; asked a person about Write: no rule; spawned worker: on node desk; changed /a; put back /a; failed: no model"
	for where, lines := range map[string][]session.Line{"here": lines, "there": got} {
		if text := strings.Join(notes(lines), "; "); text != want {
			t.Errorf("%s: %q, want %q", where, text, want)
		}
	}
}

// Readers rely on what a line has; another node may send anything.
func TestLinesOfAnotherNodeThatAreNone(t *testing.T) {
	for line, op := range map[string]string{
		`{}`:                          session.OpList,
		`{"kind":"task"} `:            session.OpSearch,
		`{"kind":"task"}`:             session.OpShow,
		`{"kind":"edit"}`:             session.OpShow,
		`{"text":"x"}`:                session.OpShow,
		`{"session":{}}`:              session.OpCost,
		`{"session":{}`:               session.OpList,
		`{"session":{},"kind":"end"}`: session.OpShow,
	} {
		if got, err := (session.Query{Op: op}).Decode(strings.NewReader(line)); err == nil {
			t.Errorf("%s as %s: %+v", line, op, got)
		}
	}
}
