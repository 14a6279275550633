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
