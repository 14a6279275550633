package session_test

import (
	"bytes"
	"errors"
	"testing"

	"symbio/agent/session"
)

// edit returns the record of a change of a file of n bytes.
func edit(hash string, n int) session.Entry {
	return session.Entry{Kind: session.Edit, Edit: &session.FileEdit{Path: "/f", Before: hash, After: "later", Content: bytes.Repeat([]byte("x"), n)}}
}

// firstBytes is a Store of the first byte of each content: what a Journal keeps does not depend on the rest, and takes seconds
// to store.
type firstBytes struct{ session.Store }

func (s firstBytes) Commit(writes []session.Write) error {
	for _, w := range writes {
		for _, e := range w.Entries {
			if e.Edit != nil {
				e.Edit.Content = e.Edit.Content[:min(len(e.Edit.Content), 1)]
			}
		}
	}
	return s.Store.Commit(writes)
}

func TestSessionKeepsABoundedSumOfContents(t *testing.T) {
	store := firstBytes{inMemory(t)}
	j := session.NewJournal(store, "n")
	log := j.Create(session.Info{})
	id := log.Info().ID
	half := session.MaxContents / 2
	if err := log.Commit(edit("a", half), edit("b", half-1), edit("c", 2), edit("d", 1)); err != nil {
		t.Fatal(err)
	}
	log.Close()
	again, _, err := j.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Commit(edit("e", 1), edit("f", 0)); err != nil {
		t.Fatal(err)
	}
	for hash, kept := range map[string]bool{"a": true, "b": true, "c": false, "d": true, "e": false, "f": true} {
		if _, err := store.Content(t.Context(), id, hash); errors.Is(err, session.ErrNotFound) == kept {
			t.Errorf("content %s: %v, want it kept: %v", hash, err, kept)
		}
	}
	entries, err := store.Entries(t.Context(), id, 0)
	if err != nil || len(entries) != 6 {
		t.Errorf("there are %d entries, %v: each change is recorded, kept or not", len(entries), err)
	}
}

func TestEntriesAreAddedWithoutADescription(t *testing.T) {
	store := inMemory(t)
	log := session.NewJournal(store, "n").Create(session.Info{Title: "kept"})
	if err := log.Commit(edit("a", 1)); err != nil {
		t.Fatal(err)
	}
	before := log.Info()
	if err := store.Commit([]session.Write{{Info: session.Info{ID: before.ID}, Entries: []session.Entry{edit("b", 1)}}}); err != nil {
		t.Fatal(err)
	}
	all, err := store.Sessions(t.Context(), session.Filter{})
	if err != nil || len(all) != 1 || all[0] != before {
		t.Errorf("the sessions are %+v, %v", all, err)
	}
	if entries, err := store.Entries(t.Context(), before.ID, 0); err != nil || len(entries) != 2 {
		t.Errorf("there are %d entries, %v", len(entries), err)
	}
}
