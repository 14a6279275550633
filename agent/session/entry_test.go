package session_test

import (
	"testing"

	"symbio/agent/llm"
	"symbio/agent/session"
)

func TestEntryCheckFindsMissingFields(t *testing.T) {
	kinds := []session.Kind{session.Task, session.Answer, session.Call, session.Approval, session.Decision, session.Result, session.Request, session.Report, session.Child, session.Edit, session.Compaction}
	for _, k := range kinds {
		if err := (session.Entry{Kind: k}).Check(); err == nil {
			t.Errorf("an entry of the kind %s without fields passes", k)
		}
	}
	for _, e := range []session.Entry{
		task("x"), text("y"), {Kind: session.End, Status: session.Done}, {Kind: session.Resume},
		{Kind: session.Compaction, Began: -1}, {Kind: session.Compaction, Messages: []llm.Message{{}, {}}, Began: 1},
	} {
		if err := e.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestPersonsTextIsThatOfATaskThatWasNotSent(t *testing.T) {
	task := func(text string, byPerson int) session.Entry {
		return session.Entry{Kind: session.Task, Message: &llm.Message{Text: text}, Count: byPerson}
	}
	for want, entries := range map[string][]session.Entry{
		"go $a": {task("$b", 2), {Kind: session.Request}, task("steering by a node: $c\n\ngo $a", 5), {Kind: session.Skill}, {Kind: session.Child}, {Kind: session.Resume}},
		"":      {task("by a node: $a", 0)},
		"x":     {task("x", 7)},
	} {
		if got := session.PersonsText(entries); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		for _, k := range []session.Kind{session.Text, session.Request, session.Compaction} {
			if got := session.PersonsText(append(entries, session.Entry{Kind: k})); got != "" {
				t.Errorf("after %s it is %q", k, got)
			}
		}
	}
}
