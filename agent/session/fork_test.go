package session_test

import (
	"slices"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/session"
)

// kinds returns the kinds of the entries that a store has of a session.
func kinds(t *testing.T, s session.Store, id string) (all []session.Kind) {
	t.Helper()
	entries, err := s.Entries(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Kind)
	}
	return all
}

func TestForkTakesOverWholeExchanges(t *testing.T) {
	store := inMemory(t)
	j := session.NewJournal(store, "a")
	l := j.Create(session.Info{Dir: "/d", Agent: "general"})
	l.SetMember("general", "member-1")
	l.SetRequester("elsewhere", "elsewhere")
	task := func(text string) session.Entry {
		return session.Entry{Kind: session.Task, Message: &llm.Message{Role: llm.User, Text: text}}
	}
	answer := session.Entry{Kind: session.Answer, Message: &llm.Message{Role: llm.Assistant}, Usage: &llm.Usage{Input: 3, Output: 4}}
	edit := session.Entry{Kind: session.Edit, Edit: &session.FileEdit{Path: "/d/x"}}
	end := session.Entry{Kind: session.End, Status: session.Done, Count: 2}
	for _, e := range []session.Entry{task("one"), answer, edit, end, {Kind: session.Skill, Text: "s"}, task("two"), answer, end, task("three"), answer} {
		if err := l.Commit(e); err != nil {
			t.Fatal(err)
		}
	}
	from := l.Info()
	for turn, want := range map[int][]session.Kind{
		0: {session.Task, session.Answer, session.End, session.Skill, session.Task, session.Answer, session.End},
		1: {session.Task, session.Answer, session.End, session.Skill},
		2: {session.Task, session.Answer, session.End, session.Skill, session.Task, session.Answer, session.End},
	} {
		i, err := session.Fork(t.Context(), store, from, turn)
		if err != nil {
			t.Fatal(err)
		}
		if got := kinds(t, store, i.ID); !slices.Equal(got, want) {
			t.Errorf("fork up to %d has %v, want %v", turn, got, want)
		}
		tasks := (len(want) - 1) / 3
		if i.ID == from.ID || i.Root != i.ID || i.Member != "" || i.Requester != "" || i.Title != "one (fork)" || i.State != session.Done || i.Exchange.Open || i.Turns != tasks || i.Tasks != tasks || i.Spent.Tokens != int64(7*tasks) || i.Dir != "/d" {
			t.Errorf("fork up to %d is %+v", turn, i)
		}
	}
	for _, turn := range []int{3, 4, -1} {
		if _, err := session.Fork(t.Context(), store, from, turn); err == nil || !strings.Contains(err.Error(), "of 3") {
			t.Errorf("fork up to %d: %v, want an error", turn, err)
		}
	}
	if got := kinds(t, store, from.ID); len(got) != 10 {
		t.Errorf("the original has %v", got)
	}
}

func TestForkRefusesSessionsWithoutAnEndedExchange(t *testing.T) {
	store := inMemory(t)
	l := session.NewJournal(store, "a").Create(session.Info{})
	if err := l.Commit(session.Entry{Kind: session.Skill, Text: "s"}); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Fork(t.Context(), store, l.Info(), 0); err == nil {
		t.Error("a session without an exchange was forked")
	}
}
