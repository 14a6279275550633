package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent/conversation"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/node/steering"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/visible"
)

// mostSaid is how many messages of a conversation may wait for their answers: more than a person types while one
// is given. One more ends the conversation.
const mostSaid = 64

// mostTold is how many messages of a transcript are told.
const mostTold = 200

// terminateTimeout is how long the end of an agent may take, when its conversation has ended.
const terminateTimeout = 5 * time.Second

// Converse holds a conversation; what is said comes over the stream.
func (c *server) Converse(stream symbiov1.Control_ConverseServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetOpen() == nil {
		return toStatus(fmt.Errorf("%w: a conversation begins with what it is to be", community.ErrInvalid))
	}
	return c.converse(stream.Context(), first.GetOpen(), stream.Recv, stream.Send)
}

// converse spawns an agent for a conversation, shows what it and its sub-agents do, and ends it. recv is what is
// said after the first message; nil = nothing.
func (c *server) converse(ctx context.Context, open *symbiov1.RunRequest, recv func() (*symbiov1.ConverseRequest, error), send func(*symbiov1.Event) error) error {
	order, err := c.order(ctx, open)
	if err != nil {
		return toStatus(err)
	}
	if open.GetInteractive() {
		order.Ask = c.cfg.Approvals.Ask
	}
	tap := c.cfg.Events.Subscribe(time.Time{})
	defer tap.Close()
	member, err := c.cfg.Agents.Spawn(ctx, order)
	if err != nil {
		return toStatus(err)
	}
	d := &dialogue{
		server: c, member: member, tap: tap, tree: &tree{members: map[string]bool{string(member.ID): true}}, send: send,
		queue: make(chan *turn, mostSaid), told: make(chan telling),
	}
	err = d.run(ctx, open.GetTask(), recv)
	// The agent ends with its conversation, whatever became of it, and also when nobody waits any longer.
	endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), terminateTimeout)
	defer cancel()
	if endErr := c.cfg.Community.Terminate(endCtx, member.ID); endErr != nil && !errors.Is(endErr, community.ErrNotFound) {
		c.cfg.Logger.Warn("agent of a task not terminated", "agent", member.ID, "err", endErr)
	}
	if err != nil {
		return toStatus(err)
	}
	return nil
}

// dialogue is a conversation that is held: what is said is heard, answered and shown by three goroutines.
type dialogue struct {
	server   *server
	member   community.Member
	tap      *event.Subscription
	tree     *tree
	send     func(*symbiov1.Event) error // from show only
	queue    chan *turn                  // closed by hear, when all is said
	told     chan telling                // results and receipts; closed by answer, when all is answered
	steering atomic.Int32                // that is on its way

	mu    sync.Mutex
	turns []*turn // not answered yet, the one in flight first; guarded by mu
}

// telling is an event of this conversation alone; done is closed when it is sent.
type telling struct {
	done  chan struct{}
	event event.Event
}

// turn is a message and its answer.
type turn struct {
	text   string
	ctx    context.Context
	cancel context.CancelFunc
}

func (d *dialogue) run(ctx context.Context, task string, recv func() (*symbiov1.ConverseRequest, error)) error {
	g, ctx := errgroup.WithContext(ctx)
	if task != "" {
		if err := d.say(ctx, task); err != nil {
			return err
		}
	}
	g.Go(func() error {
		defer close(d.queue)
		if recv == nil {
			return nil
		}
		return d.hear(ctx, recv)
	})
	g.Go(func() error { return d.answer(ctx) })
	g.Go(func() error { return d.show(ctx) })
	return g.Wait()
}

// hear takes what is said until all is.
func (d *dialogue) hear(ctx context.Context, recv func() (*symbiov1.ConverseRequest, error)) (err error) {
	steerCtx, cancel := context.WithCancel(ctx)
	var steering sync.WaitGroup
	defer func() {
		if err != nil {
			cancel()
		}
		steering.Wait() // each has its receipt before the end
		cancel()
	}()
	for {
		r, err := recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case r.GetNext() != nil:
			err = d.say(ctx, r.GetNext().GetText())
		case r.GetSteer() != nil:
			if d.steering.Add(1) > mostSaid {
				return fmt.Errorf("%w: %d lines wait to be put to the agent", community.ErrBusy, mostSaid)
			}
			queued := make(chan struct{})
			release := sync.OnceFunc(func() { close(queued) })
			steering.Go(func() {
				defer release()
				d.steer(steerCtx, r.GetSteer(), release)
			})
			<-queued // what is said next comes after it
		case r.GetTranscript() != nil:
			d.transcript(ctx)
		case r.GetInterrupt() != nil:
			d.interrupt(ctx)
		default:
			err = fmt.Errorf("%w: this node does not know what was said", community.ErrInvalid)
		}
		if err != nil {
			return err
		}
	}
}

func (d *dialogue) say(ctx context.Context, text string) error {
	t := &turn{text: text}
	t.ctx, t.cancel = context.WithCancel(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.turns) >= mostSaid {
		t.cancel()
		return fmt.Errorf("%w: %d messages of this conversation wait for their answers", community.ErrBusy, mostSaid)
	}
	d.turns = append(d.turns, t)
	d.queue <- t // there is room: those that wait are among the turns
	return nil
}

// receipt is the event that tells who steered what became of it.
type receipt struct {
	ID string `json:"id"`
	conversation.Receipt
}

// steer puts a text to the turn in flight, and tells what became of it. Of a message that the agent has not taken yet
// it becomes a part; when there is none, it is given back.
func (d *dialogue) steer(ctx context.Context, m *symbiov1.SteerMessage, queued func()) {
	defer d.steering.Add(-1)
	d.mu.Lock()
	waits := len(d.turns) > 0
	d.mu.Unlock()
	r, err := d.server.cfg.Agents.SteerWith(ctx, d.member.ID, conversation.Steering{Text: m.GetText(), Keep: waits, Behind: waits, Queued: queued})
	if err != nil && r.Outcome == "" {
		r = conversation.Receipt{Outcome: conversation.Returned, Text: m.GetText(), At: time.Now(), Why: err.Error()}
	}
	d.tell(ctx, "receipt", receipt{m.GetId(), r})
}

// interrupt ends the turn in flight, or the next one when none has begun.
func (d *dialogue) interrupt(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.turns) > 0 && d.server.cfg.Steering.Interrupt(ctx, d.member.ID) != nil {
		d.turns[0].cancel() // the agent has not begun
	}
}

// transcript tells what the agent remembers, the latest of it, and how it stands.
func (d *dialogue) transcript(ctx context.Context) {
	state, err := d.server.cfg.Steering.State(ctx, d.member.ID, true)
	if err != nil {
		state = steering.State{} // it is gone, which each turn tells
	}
	state.Omitted = max(0, len(state.Transcript)-mostTold)
	state.Transcript = toldOf(state.Transcript[state.Omitted:])
	d.tell(ctx, "transcript", state)
}

// What a transcript has of a text that the model was given or said, and of a tool's arguments and results, in characters:
// enough to know what it was.
const (
	toldText = 4000
	toldTool = 400
)

// toldOf is messages as a transcript tells them to people: cut, and without pictures and thoughts.
func toldOf(all []llm.Message) []llm.Message {
	out := make([]llm.Message, len(all))
	for i, m := range all {
		out[i] = llm.Message{Role: m.Role, Text: visible.TruncateRunes(m.Text, toldText)}
		for _, c := range m.Calls {
			if len(c.Args) > toldTool {
				c.Args = llm.Args(visible.TruncateRunes(string(c.Args), toldTool)) // a string, since no JSON is left
			}
			out[i].Calls = append(out[i].Calls, c)
		}
		for _, r := range m.Results {
			out[i].Results = append(out[i].Results, llm.ToolResult{CallID: r.CallID, Name: r.Name, Text: visible.TruncateRunes(r.Text, toldTool), IsError: r.IsError})
		}
	}
	return out
}

// answer gives the agent one message after the other.
func (d *dialogue) answer(ctx context.Context) error {
	defer close(d.told)
	for t := range d.queue {
		r := d.server.turn(t.ctx, t.text, d.member)
		d.mu.Lock()
		d.turns = d.turns[1:]
		d.mu.Unlock()
		t.cancel()
		d.tell(ctx, "result", r)
	}
	return nil
}

// tell has an event of this conversation alone sent.
func (d *dialogue) tell(ctx context.Context, kind string, fields any) {
	data, err := json.Marshal(fields)
	if err != nil {
		data = nil // cannot happen: there are only strings in it
	}
	t := telling{make(chan struct{}), event.Event{Time: time.Now().UTC(), Type: kind, Node: d.server.cfg.Name, Agent: string(d.member.ID), Data: data}}
	select {
	case d.told <- t:
	case <-ctx.Done():
		return
	}
	select {
	case <-t.done: // before the next turn adds events of its own
	case <-ctx.Done():
	}
}

// show sends the events of the tree as they come, and the results, each behind all that happened in its turn.
func (d *dialogue) show(ctx context.Context) error {
	for {
		if err := d.events(); err != nil {
			return err
		}
		select {
		case <-d.tap.Ready():
		case t, ok := <-d.told:
			if !ok {
				return nil // what happens after the last result is not of the conversation
			}
			if err := d.events(); err != nil {
				return err
			}
			if err := sendEvent(d.send, t.event); err != nil {
				return err
			}
			close(t.done)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// events sends those that are there.
func (d *dialogue) events() error {
	for e, ok := d.tap.Take(); ok; e, ok = d.tap.Take() {
		if !d.tree.has(e) {
			continue
		}
		if err := sendEvent(d.send, e); err != nil {
			return err
		}
	}
	return nil
}
