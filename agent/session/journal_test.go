package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent/llm"
	"symbio/agent/session"
)

// slowStore counts commits, and holds or fails them.
type slowStore struct {
	session.Store
	hold    chan struct{} // nil = commits do not wait
	err     error
	commits [][]session.Write
}

func (s *slowStore) Commit(writes []session.Write) error {
	if s.hold != nil {
		<-s.hold
	}
	s.commits = append(s.commits, slices.Clone(writes))
	if s.err != nil {
		return s.err
	}
	return s.Store.Commit(writes)
}

func task(text string) session.Entry {
	return session.Entry{Kind: session.Task, Message: &llm.Message{Role: llm.User, Text: text}}
}

// While the store is busy with the first commit, all others become one.
func TestJournalGroupsCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{Store: inMemory(t), hold: make(chan struct{})}
		j := session.NewJournal(s, "n")
		var g errgroup.Group
		var logs []*session.Log
		for n := range 64 {
			l := j.Create(session.Info{})
			logs = append(logs, l)
			g.Go(func() error { return l.Commit(task(fmt.Sprint(n))) })
			synctest.Wait()
		}
		if err := logs[3].Add(text("more")); err != nil {
			t.Error(err)
		}
		close(s.hold)
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if len(s.commits) != 2 || len(s.commits[0]) != 1 || len(s.commits[1]) != 63 {
			t.Errorf("%d commits, the last of %d sessions; want 2, the last of 63", len(s.commits), len(s.commits[len(s.commits)-1]))
		}
		for n, l := range logs {
			want := 1
			if n == 3 {
				want = 2 // both in one write
			}
			if all := entriesOf(t, s, l.Info().ID, 0); len(all) != want || all[0].Message.Text != fmt.Sprint(n) {
				t.Errorf("session %d has %+v", n, all)
			}
		}
	})
}

// What was lost may hold the start of a call, so nothing is recorded until a task begins anew.
func TestJournalRefusesAfterFailedCommit(t *testing.T) {
	s, broken := &slowStore{Store: inMemory(t)}, errors.New("no room")
	j := session.NewJournal(s, "n")
	l, other := j.Create(session.Info{}), j.Create(session.Info{})
	if err := errors.Join(l.Commit(task("one")), other.Commit(task("one"))); err != nil {
		t.Fatal(err)
	}
	s.err = broken
	if err := l.Commit(text("lost")); !errors.Is(err, broken) || !strings.Contains(err.Error(), "the session cannot be recorded") {
		t.Errorf("the error of the commit: %v", err)
	}
	s.err = nil
	if err := errors.Join(l.Add(text("later")), nil); !errors.Is(err, broken) {
		t.Errorf("an entry after a lost one: %v", err)
	}
	if err := l.Commit(session.Entry{Kind: session.End, Status: session.Done}); !errors.Is(err, broken) || l.Info().State != session.Working {
		t.Errorf("an end after a lost entry: %v, %s", err, l.Info().State)
	}
	if err := other.Commit(text("two")); err != nil {
		t.Errorf("another session: %v", err)
	}
	if err := l.Commit(task("two")); err != nil {
		t.Errorf("the next task: %v", err)
	}
	if all := entriesOf(t, s, l.Info().ID, 0); len(all) != 2 || all[1].Message.Text != "two" {
		t.Errorf("recorded %+v", all)
	}
}

// A node that stops leaves exchanges open, but an answer that is there ends one.
func TestJournalSuspendLeavesExchangesOpen(t *testing.T) {
	for _, c := range []struct {
		status session.State
		open   bool
	}{{session.Interrupted, true}, {session.Failed, true}, {session.Done, false}} {
		j := session.NewJournal(inMemory(t), "n")
		l := j.Create(session.Info{})
		if err := l.Commit(task("x")); err != nil {
			t.Fatal(err)
		}
		j.Suspend()
		if err := l.Commit(text("kept"), session.Entry{Kind: session.End, Status: c.status}); err != nil {
			t.Error(err)
		}
		if i := l.Info(); i.Exchange.Open != c.open || c.open && i.State != session.Working {
			t.Errorf("after an end with %s the session is %+v", c.status, i)
		}
		if all := entriesOf(t, j.Store(), l.Info().ID, 0); all[1].Text != "kept" || (len(all) == 2) != c.open {
			t.Errorf("after an end with %s the entries are %+v", c.status, all)
		}
	}
}

// An agent may end long after its node. What it writes then does not reach the sessions with which the next life goes on.
func TestJournalRecoverEndsLogsOfFormerLife(t *testing.T) {
	for name, late := range map[string]func(*session.Log) error{
		"answer": func(l *session.Log) error { return l.Commit(session.Entry{Kind: session.End, Status: session.Done}) },
		"end": func(l *session.Log) error {
			return l.Commit(session.Entry{Kind: session.End, Status: session.Interrupted})
		},
		"unsynced entry":  func(l *session.Log) error { return l.Add(text("late")) },
		"end of an agent": func(l *session.Log) error { l.Close(); return l.SetKeep(false) },
		"task":            func(l *session.Log) error { return l.Commit(task("late")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowStore{Store: inMemory(t)}
				j := session.NewJournal(s, "n")
				former := j.Create(session.Info{Keep: true})
				if err := former.Commit(task("x")); err != nil {
					t.Fatal(err)
				}
				j.Suspend()
				s.hold = make(chan struct{})
				begun := make(chan error, 1)
				go func() { begun <- former.Commit(text("begun")) }()
				synctest.Wait()
				time.AfterFunc(time.Second, func() { close(s.hold) })
				lost, err := j.Recover(t.Context())
				if err := errors.Join(err, <-begun); err != nil || len(lost) != 1 || lost[0].State != session.Interrupted {
					t.Fatalf("interrupted are %+v, %v", lost, err)
				}
				now, past, err := j.Open(t.Context(), former.Info().ID)
				if err != nil || len(past) != 2 || past[1].Text != "begun" {
					t.Fatalf("the next life begins with %+v, %v", past, err)
				}
				if err := now.Commit(session.Entry{Kind: session.Resume}); err != nil {
					t.Fatal(err)
				}
				if err := late(former); !errors.Is(err, session.ErrTaken) {
					t.Errorf("the former log wrote: %v", err)
				}
				if err := j.Flush(); err != nil {
					t.Fatal(err)
				}
				all, err := s.Sessions(t.Context(), session.Filter{})
				if err != nil || len(all) != 1 || !all[0].Keep || all[0].Exchange.Restarts != 1 || len(entriesOf(t, s, now.Info().ID, 0)) != 3 {
					t.Errorf("the session is %+v, %v", all, err)
				}
			})
		})
	}
}

func TestJournalOpensSessionOnce(t *testing.T) {
	j := session.NewJournal(inMemory(t), "n")
	l := j.Create(session.Info{Title: "t"})
	if err := l.Commit(task("one")); err != nil {
		t.Fatal(err)
	}
	id := l.Info().ID
	if _, _, err := j.Open(t.Context(), id); !errors.Is(err, session.ErrInUse) {
		t.Errorf("a session with a log: %v", err)
	}
	if n, err := j.Prune(t.Context(), l.Info().Updated.AddDate(1, 0, 0), 1); n != 0 || err != nil {
		t.Errorf("pruned %d sessions that are in use, %v", n, err)
	}
	l.Close()
	if entries, err := l.Reopen(t.Context()); err != nil || len(entries) != 1 {
		t.Errorf("its agent is restarted with %+v, %v", entries, err)
	}
	if _, _, err := j.Open(t.Context(), id); !errors.Is(err, session.ErrInUse) {
		t.Errorf("a session whose agent was restarted: %v", err)
	}
	if err := l.Commit(session.Entry{Kind: session.End, Status: session.Done}); err != nil {
		t.Fatal(err)
	}
	// As soon as the result is given, another agent may go on.
	again, entries, err := j.Open(t.Context(), id[:6])
	if err != nil || len(entries) != 2 || again.Info().Title != "t" || again.Info().ID != id {
		t.Fatalf("opened %v with %+v, %v", again, entries, err)
	}
	if err := l.Commit(task("two")); !errors.Is(err, session.ErrTaken) {
		t.Errorf("a task in a session that was taken over: %v", err)
	}
	l.Close() // it has no effect on the other log
	if err := again.SetKeep(true); err != nil {
		t.Fatal(err)
	}
	if _, _, err := j.Open(t.Context(), id); !errors.Is(err, session.ErrInUse) {
		t.Errorf("a session whose agent is kept: %v", err)
	}
	if err := again.SetKeep(false); err != nil {
		t.Fatal(err)
	}
	again.Close()
	if n, err := j.Prune(t.Context(), again.Info().Updated.AddDate(1, 0, 0), 0); n != 1 || err != nil {
		t.Errorf("pruned %d sessions, %v", n, err)
	}
	if _, _, err := j.Open(t.Context(), id); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a session that was pruned: %v", err)
	}
}

// Close commits what was added last.
func TestJournalCloseCommitsRest(t *testing.T) {
	s := &slowStore{Store: inMemory(t)}
	j := session.NewJournal(s, "n")
	l := j.Create(session.Info{})
	if err := errors.Join(l.Add(text("last")), j.Close()); err != nil {
		t.Fatal(err)
	}
	if len(s.commits) != 1 || len(s.commits[0][0].Entries) != 1 {
		t.Errorf("recorded %+v", s.commits)
	}
}

func TestFindByPrefix(t *testing.T) {
	all := []session.Info{{ID: "abcd"}, {ID: "abce"}, {ID: "ab"}, {ID: "xyz"}}
	for id, want := range map[string]string{"abcd": "abcd", "ab": "ab", "x": "xyz", "abc": "2 ids begin so, such as abcd and abce", "q": "no such session", "": "no such session", "xyzz": "no such session"} {
		got, err := session.Find(all, id)
		if err == nil && got.ID != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("find %q: %q, %v; want %s", id, got.ID, err, want)
		}
	}
}

func TestFindSuggestsWhatWasMeant(t *testing.T) {
	all := []session.Info{{ID: "0123456789abcdef0123456789abcdef"}, {ID: "fedcba98"}}
	for id, want := range map[string]string{"0123455": "0123456", "013456": "0123456", "01233456": "01234567", "0132456789abcdef0123456789abcde0": "0123456789abcdef0123456789abcdef",
		"fedbca98": "fedcba98", "777777": "", "0129": "", "": ""} {
		if want != "" {
			want = fmt.Sprintf("no such session; did you mean %q?; symbio sessions list has them", want)
		}
		if _, err := session.Find(all, id); err == nil || !strings.Contains(err.Error(), want) || want == "" && strings.Contains(err.Error(), "mean") {
			t.Errorf("find %q: %v; want %s", id, err, want)
		}
	}
}

// All sessions of a node share its journal; the race detector sees what is used without its lock.
func TestJournalMayBeUsedByManyGoroutines(t *testing.T) {
	j := session.NewJournal(inMemory(t), "n")
	for range 20 {
		l := j.Create(session.Info{})
		id := l.Info().ID
		var all sync.WaitGroup
		for _, use := range []func() error{
			func() error { return l.Commit(text("a")) },
			func() error { return l.Add(text("b")) },
			func() error { return l.SetKeep(true) },
			func() error { l.SetMember("ann", "1"); l.SetRequester("bob", ""); l.SetSettings("m", ""); return nil },
			func() error { j.Suspend(); return nil },
			func() error { j.IsInUse(id); return nil },
			func() error { l.Info(); return nil },
			func() error { j.Create(session.Info{}).Close(); return nil },
			func() error { _, err := j.Prune(t.Context(), time.Now().Add(-time.Hour), 1<<30); return err },
		} {
			all.Go(func() {
				if err := use(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		l.Close()
	}
}
