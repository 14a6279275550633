package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/community"
	"symbio/internal/agent/session/sqlite"
)

// interruptedTree writes the sessions of a task that a restart interrupted: its sub-agent is working, that
// one's own sub-agent, too, another is done, one got no task, and one runs on another node.
func interruptedTree(t *testing.T, store session.Store) (root session.Info) {
	t.Helper()
	j := session.NewJournal(store, "n")
	begin := func(name string, parent session.Info, more ...session.Entry) session.Info {
		log := j.Create(session.Info{Agent: "general", Name: name, Parent: parent.ID, Root: parent.Root})
		log.SetMember(name, "id-of-"+name)
		if err := log.Commit(append([]session.Entry{{Kind: session.Task, Message: &llm.Message{Role: llm.User, Text: "do"}}}, more...)...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		return log.Info()
	}
	child := func(name, id string) session.Entry {
		return session.Entry{Kind: session.Child, Child: &session.ChildAgent{Session: id, Member: "id-of-" + name, Name: name}}
	}
	root = begin("root", session.Info{}, child("unborn", "none"), child("remote", ""))
	working := begin("working", root)
	begin("below", working)
	begin("ready", root,
		session.Entry{Kind: session.Answer, Message: &llm.Message{Role: llm.Assistant, Text: "forty-two"}, Usage: &llm.Usage{}},
		session.Entry{Kind: session.End, Status: session.Done, Count: 2})
	if _, err := store.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	return root
}

// A restart ends all sub-agents. The model reads which tasks are lost and what the others said, whether
// the task goes on or a new one comes in its place, and also if the node ended again before it could.
func TestRestartTellsOfSubAgents(t *testing.T) {
	for _, task := range []string{"", "something else"} {
		synctest.Test(t, func(t *testing.T) {
			store := inMemory(t)
			root := interruptedTree(t, store)
			h := newHouse(t, script(nil))
			journal := session.NewJournal(store, "n")
			for _, ends := range []bool{true, false} { // the node ends again before the model has answered; then it does not
				var told atomic.Value // the agent of the first life ends later
				told.Store("")
				if _, err := journal.Recover(t.Context()); err != nil {
					t.Fatal(err)
				}
				f := agent.NewFactory(agent.Config{Community: h.community, Journal: journal, Model: func(context.Context, string) (llm.Model, error) {
					return script(func(ctx context.Context, r llm.Request) (llm.Message, error) {
						told.Store(r.Messages[len(r.Messages)-1].Text)
						if ends {
							journal.Suspend()
							<-ctx.Done()
							return llm.Message{}, ctx.Err()
						}
						return say("well")
					}), nil
				}})
				m, err := f.Spawn(t.Context(), agent.Order{Definition: definition.General(), Session: root})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, err = h.community.Send(ctx, m.ID, community.Signal{Perception: "task", Data: []byte(task)})
				cancel()
				if (err != nil) != ends {
					t.Errorf("task %q ended with %v", task, err)
				}
				for _, want := range []string{"remote (id-of-remote)", "unborn (id-of-unborn)", "working (id-of-working)", "below (id-of-below)", "ready (id-of-ready), done: forty-two"} {
					if got := told.Load().(string); !strings.Contains(got, want) {
						t.Errorf("task %q, the node ends %v: the model was told %q, want it to have %q", task, ends, got, want)
					}
				}
			}
			synctest.Wait() // what the agent of the first life still does has no effect
			open, err := store.Sessions(t.Context(), session.Filter{States: []session.State{session.Interrupted, session.Working}})
			if len(open) != 0 || err != nil {
				t.Errorf("open sessions: %+v, %v; want none", open, err)
			}
		})
	}
}

// A session whose agent could not be started is free for the next try.
func TestFailedSpawnReleasesTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := inMemory(t)
		root := interruptedTree(t, store)
		h := newHouse(t, script(nil))
		f := agent.NewFactory(agent.Config{Community: h.community, Journal: session.NewJournal(store, "n"), Model: func(context.Context, string) (llm.Model, error) { return script(nil), nil }})
		order := agent.Order{Definition: definition.General(), Session: root, Name: "no name at all\n"}
		if _, err := f.Spawn(t.Context(), order); err == nil || errors.Is(err, session.ErrInUse) {
			t.Fatalf("a spawn under a bad name ended with %v", err)
		}
		order.Name = "root"
		if _, err := f.Spawn(t.Context(), order); err != nil {
			t.Errorf("the next spawn in the session: %v", err)
		}
	})
}

// The answer of an interrupted task is not for another node, which may send signals to the agent.
func TestOtherNodeCannotResumeATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := inMemory(t)
		root := interruptedTree(t, store)
		h := newHouse(t, script(nil))
		f := agent.NewFactory(agent.Config{Community: h.community, Journal: session.NewJournal(store, "n"), Model: func(context.Context, string) (llm.Model, error) {
			return script(func(context.Context, llm.Request) (llm.Message, error) { return say("the answer") }), nil
		}})
		m, err := f.Spawn(t.Context(), agent.Order{Definition: definition.General(), Session: root})
		if err != nil {
			t.Fatal(err)
		}
		reply, err := h.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Requester: []string{"other"}})
		if err == nil || !f.Session(m.ID).Exchange.Open {
			t.Errorf("another node's empty signal was answered %q, %v; want an error, and the task still open", reply.Data, err)
		}
		reply, err = h.community.Send(t.Context(), m.ID, community.Signal{Perception: "task"})
		if err != nil || string(reply.Data) != "the answer" {
			t.Errorf("resumed: %q, %v", reply.Data, err)
		}
	})
}

// inMemory returns a new store of sessions in memory. It is called in the bubble that uses it.
func inMemory(t *testing.T) session.Store {
	t.Helper()
	s, err := sqlite.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
