package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/agent/node/tasks"
	symbiov1 "symbio/proto/symbio/v1"
)

const (
	// relayedEvents is how many events of an agent of another node wait to be sent. More wait on that node.
	relayedEvents = 64
	// searchTimeout is how long a node that ends with its command searches for another one: it has just begun.
	searchTimeout = 10 * time.Second
)

// converseRemote is converse with an agent of another node, which ends with the conversation.
func (c *server) converseRemote(ctx context.Context, open *symbiov1.RunRequest, recv func() (*symbiov1.ConverseRequest, error), send func(*symbiov1.Event) error) error {
	if open.GetSession()+open.GetModel()+open.GetEffort()+open.GetMode()+open.GetOutputSchema() != "" || open.GetMaxTurns() > 0 || len(open.GetPictures()) > 0 {
		return fmt.Errorf("%w: an agent of another node has the model, the settings and the sessions of its definition there", community.ErrInvalid)
	}
	d := &conversationStream{server: c, send: send, queue: make(chan *turn, maxQueued), outgoing: make(chan privateEvent), relayed: make(chan event.Event, relayedEvents)}
	d.events = c.cfg.Events.Subscribe(time.Time{}) // has the questions of the agent
	defer d.events.Close()
	o := tasks.RemoteOrder{
		Events: func(ended context.Context, e event.Event) {
			select {
			case d.relayed <- e:
			case <-ended.Done():
			case <-ctx.Done():
			}
		},
		Waiting: func(before int) {
			_ = d.notice(fmt.Sprintf("all places are taken; %d tasks are before this one", before)) // the next event has the error
		},
	}
	if c.cfg.Users != nil {
		o.Search = searchTimeout
	}
	if open.GetInteractive() {
		o.Ask = c.cfg.Approvals.Ask
	}
	var err error
	if d.remote, err = c.Borrow(ctx, open, o); err != nil {
		return err
	}
	defer d.remote.Close(ctx)
	d.member = d.remote.Member()
	d.tree = event.NewTree(string(d.member.ID))
	where := "in a directory of its node"
	if open.GetBring() != "" {
		where = "in a copy of " + open.GetBring()
	}
	where = strings.TrimSuffix(d.member.Name+" works on node "+d.remote.Place.Node.Name+", "+where+"; "+d.remote.Omission(), "; ")
	if err := d.notice(where); err != nil {
		return err
	}
	return d.run(ctx, open.GetTask(), nil, c.cfg.Agents.Session(d.member.ID), recv)
}

// notice sends a message for the person. It must not be called beside sendLoop.
func (d *conversationStream) notice(text string) error {
	return d.sendPrivate(event.Event{Type: event.TypeNotice, Name: d.member.Name, Text: text})
}

// remoteTurn has the agent of another node answer a message, and returns the result. A node that is lost ends the conversation.
func (d *conversationStream) remoteTurn(t *turn) event.Event {
	reply, err := d.remote.Send(t.ctx, t.text)
	e := result(t.ctx, string(reply.Data), err)
	end, _ := e.Part.(event.End)
	end.Spent = new(d.remote.Spent())
	end.Over = end.Over || d.remote.Gone() != nil || errors.Is(err, community.ErrUnavailable)
	e.Part = end
	return e
}

// emitPatch emits what the agent of another node has changed in the files that it was given, with apply after the changes were made in
// the directory. Without changes, and after the end of the agent, which its result tells, it emits nothing.
func (d *conversationStream) emitPatch(ctx context.Context, apply bool) {
	if d.remote == nil {
		return
	}
	e, err := d.remote.Patch(ctx, apply)
	switch {
	case err != nil && (apply || d.remote.Gone() == nil):
		d.emit(ctx, event.Event{Type: event.TypePatch, Why: err.Error()})
	case err == nil && e != nil:
		d.emit(ctx, *e)
	case err == nil && apply:
		d.emit(ctx, event.Event{Type: event.TypePatch, Why: "there is nothing to apply any more"})
	}
}
