package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"time"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/community"
	"symbio/internal/agent/node/tasks"
)

// Answer is what an agent answered to a task, and what the task took.
type Answer = tasks.Answer

// Ask spawns an agent of the named definition ("" = general), gives it a task and returns its answer. The
// agent ends with the task. Ask blocks until then; the limits are the node's budget. Beside an
// error the Answer has what was spent. It may be called from many goroutines.
func (n *Node) Ask(ctx context.Context, definition, task string) (Answer, error) {
	o, s, err := n.order(definition, task)
	if err != nil {
		return Answer{}, err
	}
	return n.parts.Load().agents.spawner.Do(ctx, o, s)
}

// AskFor is Ask with an answer that is a T: the agent has its tools, its answer has to fit the schema of T
// (llm.FormFor), and one that does not fit is sent back once. The error of the second is llm.ErrUnfit.
func AskFor[T any](ctx context.Context, n *Node, definition, task string) (v T, a Answer, err error) {
	o, s, err := n.order(definition, task)
	if err != nil {
		return v, a, err
	}
	form, read, err := llm.FormFor[T]()
	if err != nil {
		return v, a, err
	}
	o.Definition.Output = form
	if a, err = n.parts.Load().agents.spawner.Do(ctx, o, s); err == nil {
		v, err = read(a.Text)
	}
	return v, a, err
}

// order returns the order of an agent for a task, and the signal with the task.
func (n *Node) order(definition, task string) (agent.Order, community.Signal, error) {
	def, err := n.Definition(definition)
	if err != nil {
		return agent.Order{}, community.Signal{}, err
	}
	data, err := json.Marshal(task)
	return agent.Order{Definition: def}, community.Signal{Data: data}, err
}

// errAnswered ends a Stream.
var errAnswered = errors.New("the agent has answered")

// Stream is Ask that yields what happens, as it happens: the events of the agent and of its sub-agents on this
// node. The agent's own event.TypeDone has the answer. A task that failed ends
// with its error. The agent ends with the loop.
func (n *Node) Stream(ctx context.Context, definition, task string) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		spawner := n.parts.Load().agents.spawner
		tap := n.events.Subscribe(time.Time{})
		defer tap.Close()
		var m community.Member
		o, s, err := n.order(definition, task)
		if err == nil {
			m, err = spawner.Spawn(ctx, o)
		}
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		asked, stop := context.WithCancel(ctx)
		ended, end := context.WithCancelCause(ctx)
		var asking sync.WaitGroup
		defer asking.Wait()
		defer stop()
		asking.Go(func() {
			_, err := spawner.Finish(asked, m, s)
			err = cmp.Or(err, errAnswered)
			end(err)
		})
		of := event.NewTree(string(m.ID))
		for {
			e, err := tap.Next(ended)
			if err != nil {
				if !errors.Is(err, errAnswered) {
					yield(event.Event{}, err)
				}
				return
			}
			if of.Has(e) && !yield(e, nil) {
				return
			}
		}
	}
}
