package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/agent/event"
	"symbio/agent/session"
	"symbio/community"
	"symbio/internal/agent/node/steering"
	"symbio/internal/agent/node/tasks"
	symbiov1 "symbio/proto/symbio/v1"
)

// maxQueued is the number of messages of one conversation that may wait for
// their answers. It is more than a person types during one answer; one more
// ends the conversation with ErrBusy, because a program is sending without
// reading.
const maxQueued = 64

// terminateTimeout bounds the end of the agent after its conversation. The
// agent may finish the call of a tool in that time.
const terminateTimeout = 5 * time.Second

// Converse runs a conversation: the first message says with which agent, the
// others are the messages of the person.
func (c *server) Converse(stream symbiov1.Control_ConverseServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetOpen() == nil {
		return fmt.Errorf("%w: the first message of a conversation must have the field open", community.ErrInvalid)
	}
	return c.converse(stream.Context(), first.GetOpen(), stream.Recv, stream.Send)
}

// converse spawns an agent for a conversation, sends the events of it and its
// sub-agents, and terminates it at the end. recv returns the messages after the
// first; nil means that there are none. converse returns when all messages are
// answered, ctx ends, or sending fails.
func (c *server) converse(ctx context.Context, open *symbiov1.RunRequest, recv func() (*symbiov1.ConverseRequest, error), send func(*symbiov1.Event) error) error {
	if len(open.GetOn()) > 0 {
		return c.converseRemote(ctx, open, recv, send)
	}
	order, err := c.order(ctx, open)
	if err != nil {
		return err
	}
	if order.Attended = open.GetInteractive(); order.Attended {
		order.Ask = c.cfg.Approvals.Ask
	}
	// The subscription begins before the agent, so that no event of the agent is missed. The zero
	// time excludes earlier events.
	tap := c.cfg.Events.Subscribe(time.Time{})
	defer tap.Close()
	member, err := c.spawn(ctx, order, open.GetInteractive() && !order.Session.Keep, tap, send)
	if err != nil {
		return err
	}
	d := &conversationStream{
		server: c, member: member, events: tap, tree: event.NewTree(string(member.ID)), send: send,
		queue: make(chan *turn, maxQueued), outgoing: make(chan privateEvent),
	}
	err = d.run(ctx, open.GetTask(), open.GetPictures(), c.cfg.Agents.Session(member.ID), recv)
	// The agent ends with its conversation, also if the caller is gone: ctx may
	// have ended, so the end has a context of its own.
	endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), terminateTimeout)
	defer cancel()
	if endErr := c.cfg.Community.Terminate(endCtx, member.ID); endErr != nil && !errors.Is(endErr, community.ErrNotFound) {
		c.cfg.Logger.Warn("agent of a task not terminated", "agent", member.ID, "err", endErr)
	}
	return err
}

// spawn spawns the agent of a conversation. If waits is true and an agent works in
// the session, as when the node goes on with a task by itself, it sends a notice
// and waits for the end of that task.
func (c *server) spawn(ctx context.Context, o agent.Order, waits bool, events *event.Subscription, send func(*symbiov1.Event) error) (community.Member, error) {
	for told := false; ; told = true {
		m, err := c.cfg.Agents.Spawn(ctx, o)
		if !waits || !errors.Is(err, session.ErrInUse) {
			return m, err
		}
		if !told {
			notice := event.Event{Time: time.Now().UTC(), Type: event.TypeNotice, Node: c.cfg.Drain.Name, Text: "the node goes on with the task of this session by itself; waiting for its end"}
			if err := sendEvent(send, notice); err != nil {
				return m, err
			}
		}
		for ended := false; !ended; {
			e, err := events.Next(ctx)
			if err != nil {
				return m, err
			}
			ended = slices.Contains([]string{event.TypeDone, event.TypeFailed, event.TypeSession, event.TypeGap}, e.Type)
		}
	}
}

// conversationStream is one running conversation. Three goroutines share it:
// receive reads the messages of the person, runTurns gives them to the agent
// one after the other, and sendLoop sends events and results. The stream has
// one sender, because gRPC allows only one.
type conversationStream struct {
	server *server
	// member is the agent of the conversation; its id does not change. remote is set if it is of another node.
	member community.Member
	remote *tasks.Remote
	// relayed has the events of remote. It is read by sendLoop.
	relayed chan event.Event
	// events has the events of all agents of the node. sendLoop is its only reader.
	events *event.Subscription
	// tree selects the events of this agent and its descendants; used by sendLoop only.
	tree *event.Tree
	// session is the event about the session; nil = it was sent, or none is kept. It is sent when the session is durable: at
	// once, or with the event of its first task. Used by sendLoop only.
	session *event.Event
	// send is called by sendLoop only.
	send func(*symbiov1.Event) error
	// queue has room for maxQueued turns. The receiver closes it after the last message.
	queue chan *turn
	// outgoing has the results, receipts and transcripts. It has no buffer: emit waits for its
	// event. runTurns closes it after the last answer.
	outgoing chan privateEvent
	// steering is the number of Steer messages without a receipt, at most maxQueued.
	steering atomic.Int32

	mu sync.Mutex
	// turns are the messages without an answer, the running one first; guarded by mu.
	turns []*turn
}

// privateEvent is an event that only this conversation gets, such as a result.
// done is closed when it was sent.
type privateEvent struct {
	done  chan struct{}
	event event.Event
}

// turn is a message of the person that waits for its answer. cancel interrupts
// it.
type turn struct {
	text   string
	ctx    context.Context
	cancel context.CancelFunc
	// refused is why the agent does not get the message; nil = it does.
	refused error
	// apply is set if there is no message: the changes of the agent are applied.
	apply bool
}

// run runs the three goroutines and returns when all have ended; the first
// error ends the others.
func (d *conversationStream) run(ctx context.Context, task string, pictures []*symbiov1.Picture, s session.Info, recv func() (*symbiov1.ConverseRequest, error)) error {
	g, ctx := errgroup.WithContext(ctx)
	resume := task == "" && len(pictures) == 0 && s.Exchange.Open
	if task != "" || len(pictures) > 0 || resume {
		if err := d.enqueue(ctx, task, pictures); err != nil {
			return err
		}
	}
	if s.ID != "" {
		d.session = &event.Event{Type: event.TypeSession, Text: s.Title,
			Part: event.Session{ID: s.ID, State: string(s.State), Resumed: resume, Taken: s.Tasks > 0 || len(d.turns) > 0, Tasks: s.Tasks}}
	}
	if len(d.turns) == 0 || s.Tasks > 0 { // else with the event of the task
		if err := d.sendSession(); err != nil {
			return err
		}
	}
	g.Go(func() error {
		// The closed queue ends runTurns after the messages that are still in it, which closes
		// outgoing and so ends sendLoop.
		defer close(d.queue)
		if recv == nil {
			return nil
		}
		return d.receive(ctx, recv)
	})
	g.Go(func() error {
		d.emitSettings(ctx, nil)
		return d.runTurns(ctx)
	})
	g.Go(func() error { return d.sendLoop(ctx) })
	return g.Wait()
}

// receive reads messages until the person ends the stream. Before it returns,
// every Steer message has its receipt.
func (d *conversationStream) receive(ctx context.Context, recv func() (*symbiov1.ConverseRequest, error)) (err error) {
	steerCtx, cancel := context.WithCancel(ctx)
	var steering sync.WaitGroup
	defer func() {
		if err != nil {
			cancel()
		}
		steering.Wait() // outgoing is closed after this, and each receipt needs it
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
			err = d.enqueue(ctx, r.GetNext().GetText(), r.GetNext().GetPictures())
		case r.GetSteer() != nil:
			// The error ends the conversation, so the counter is not decremented here.
			if d.steering.Add(1) > maxQueued {
				return fmt.Errorf("%w: %d remarks wait for the agent", community.ErrBusy, maxQueued)
			}
			queued := make(chan struct{})
			// release is called when the remark has its place in the queue of the agent, or when
			// steer returns.
			release := sync.OnceFunc(func() { close(queued) })
			steering.Go(func() {
				defer release()
				d.steer(steerCtx, r.GetSteer(), release)
			})
			<-queued // keeps the order of messages and remarks
		case r.GetSettings() != nil:
			d.changeSettings(ctx, r.GetSettings())
		case r.GetClear() != nil:
			d.clear(ctx)
		case r.GetCompact() != nil:
			if d.steering.Add(1) > maxQueued {
				return fmt.Errorf("%w: %d remarks and compactions wait for the agent", community.ErrBusy, maxQueued)
			}
			steering.Go(func() { d.compact(steerCtx) })
		case r.GetTranscript() != nil:
			d.emitTranscript(ctx)
		case r.GetInterrupt() != nil:
			d.interrupt(ctx)
		case r.GetApply() != nil:
			err = d.add(ctx, &turn{apply: true})
		default:
			err = fmt.Errorf("%w: this node does not know this kind of message; update it", community.ErrInvalid)
		}
		if err != nil {
			return err
		}
	}
}

// enqueue adds a message of the person to the queue. It never blocks: the queue
// has room for every turn that the check admits.
func (d *conversationStream) enqueue(ctx context.Context, text string, pictures []*symbiov1.Picture) error {
	t := &turn{text: text}
	images, err := imagesOf(pictures)
	if t.refused = err; len(images) > 0 {
		ctx = agent.WithImages(ctx, images)
		if strings.TrimSpace(text) == "" {
			t.text = "[A picture.]" // no message is without a text
		}
	}
	return d.add(ctx, t)
}

// add adds a turn to the queue.
func (d *conversationStream) add(ctx context.Context, t *turn) error {
	t.ctx, t.cancel = context.WithCancel(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.turns) >= maxQueued {
		t.cancel()
		return fmt.Errorf("%w: %d messages of this conversation wait for their answers", community.ErrBusy, maxQueued)
	}
	d.server.cfg.Drain.Counter(tasks.WorkCommand, "Converse").Add(1) // before the check, so that Drain sees what passes it
	if t.refused == nil {
		t.refused = d.server.cfg.Drain.Check()
	}
	d.turns = append(d.turns, t)
	d.queue <- t // has room: the queued turns are a part of d.turns
	return nil
}

// steer gives a remark to the running turn and emits its receipt. If the next
// message has not reached the agent yet, the remark is appended to it; without
// a running turn or a message, it is returned to the caller.
func (d *conversationStream) steer(ctx context.Context, m *symbiov1.SteerMessage, queued func()) {
	defer d.steering.Add(-1)
	d.mu.Lock()
	// Without a turn the remark is not kept: no message would follow that carries it to the model.
	waits := len(d.turns) > 0
	d.mu.Unlock()
	var r conversation.Receipt
	var err error
	if d.remote != nil {
		queued() // the call ends when the remark was given to the agent; what the person says next, such as an interrupt, does not wait for that
		r, err = d.remote.Steer(ctx, m.GetText())
	} else {
		r, err = d.server.cfg.Agents.SteerWith(ctx, d.member.ID, conversation.Steering{Text: m.GetText(), Keep: waits, Behind: waits, Queued: queued})
	}
	if err != nil && r.Outcome == "" {
		r = conversation.Receipt{Outcome: conversation.Returned, Text: m.GetText(), At: time.Now(), Why: err.Error()}
	}
	d.emit(ctx, event.Event{Type: event.TypeReceipt, Text: r.Text, Why: r.Why, Part: event.Steering{ID: m.GetId(), Outcome: string(r.Outcome), Turn: r.Turn, At: r.At}})
}

// interrupt ends the running turn, or the next one if none has begun.
func (d *conversationStream) interrupt(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Interrupt fails with ErrIdle between the start of a turn here and its arrival at the agent.
	if len(d.turns) > 0 && (d.remote != nil || d.server.cfg.Steering.Interrupt(ctx, d.member.ID) != nil) {
		d.turns[0].cancel() // the agent has not begun
	}
}

// emitTranscript emits the state of the agent and the latest messages of its
// conversation.
func (d *conversationStream) emitTranscript(ctx context.Context) {
	state, err := d.server.cfg.Steering.State(ctx, d.member.ID, true)
	if err != nil {
		state = steering.State{} // the agent has ended; the result of each turn says so
	}
	omitted := max(0, len(state.Transcript)-steering.MaxShown)
	d.emit(ctx, event.Event{Type: event.TypeTranscript, Part: event.Transcript{Responding: state.Responding, Turn: state.Turn,
		PendingSteering: state.PendingSteering, Omitted: omitted, Transcript: steering.Shorten(state.Transcript[omitted:])}})
}

// runTurns gives the agent one message after the other and emits the results.
func (d *conversationStream) runTurns(ctx context.Context) error {
	defer close(d.outgoing)
	for t := range d.queue {
		var r event.Event
		switch {
		case t.apply:
			d.emitPatch(ctx, true)
		case t.refused != nil:
			r = event.Event{Type: event.TypeResult, Part: event.End{Status: "failed", Error: t.refused.Error()}}
		case d.remote != nil:
			r = d.remoteTurn(t)
			d.emitPatch(ctx, false)
		default:
			r = d.server.turn(t.ctx, t.text, d.member)
		}
		d.mu.Lock()
		d.turns = d.turns[1:]
		d.mu.Unlock()
		d.server.cfg.Drain.Counter(tasks.WorkCommand, "Converse").Add(-1)
		t.cancel()
		if !t.apply {
			d.emit(ctx, r)
		}
	}
	return nil
}

// emit sends an event to this conversation only. It waits until the event was
// sent, so that the next turn cannot add events before it.
func (d *conversationStream) emit(ctx context.Context, e event.Event) {
	t := privateEvent{make(chan struct{}), e}
	select {
	case d.outgoing <- t:
	case <-ctx.Done():
		return
	}
	select {
	case <-t.done: // before the next turn adds events of its own
	case <-ctx.Done():
	}
}

// sendLoop sends the events of the agent's tree as they come, and each result
// after all events of its turn.
func (d *conversationStream) sendLoop(ctx context.Context) error {
	for {
		if err := d.sendEvents(); err != nil {
			return err
		}
		select {
		case e := <-d.relayed:
			if err := sendEvent(d.send, e); err != nil {
				return err
			}
		case <-d.events.Ready():
		case t, ok := <-d.outgoing:
			if !ok {
				return nil // events after the last result do not belong to the conversation
			}
			if err := d.sendEvents(); err != nil {
				return err
			}
			if t.event.Type == "session" { // of Clear, in the place of the first one
				d.session = nil
			}
			if err := d.sendPrivate(t.event); err != nil {
				return err
			}
			close(t.done)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sendSession sends the event about the session, once. One that cannot be made durable is not sent: its task fails.
func (d *conversationStream) sendSession() error {
	if d.session == nil || d.server.cfg.Agents.FlushSessions() != nil {
		return nil
	}
	e := *d.session
	d.session = nil
	return d.sendPrivate(e)
}

// sendPrivate sends an event that only this conversation gets.
func (d *conversationStream) sendPrivate(e event.Event) error {
	e.Time, e.Node, e.Agent = time.Now().UTC(), d.server.cfg.Drain.Name, string(d.member.ID)
	return sendEvent(d.send, e)
}

// sendEvents sends the events that are available without waiting.
func (d *conversationStream) sendEvents() error {
	for len(d.relayed) > 0 {
		if err := sendEvent(d.send, <-d.relayed); err != nil {
			return err
		}
	}
	for e, ok := d.events.Take(); ok; e, ok = d.events.Take() {
		if !d.tree.Has(e) {
			continue
		}
		// The event of the task may be in a gap; the others follow it.
		if e.Agent == string(d.member.ID) && slices.Contains([]string{event.TypeTask, event.TypeTurn, event.TypeDone}, e.Type) {
			if err := d.sendSession(); err != nil {
				return err
			}
		}
		if err := sendEvent(d.send, e); err != nil {
			return err
		}
	}
	return nil
}
