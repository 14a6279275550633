package chat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// sessionRef is what a conversation knows of its session.
type sessionRef struct {
	// id is the id of the session; "" until the node has sent it, and where none is kept.
	id string
	// node is the name of the node that keeps it.
	node string
	// tasks is how many messages of the session began to be answered, when the latest answer came.
	tasks int
	// resumed is true if the conversation goes on with an earlier session.
	resumed bool
	// keep is true if the conversation stays open after an answer.
	keep bool
	// taken is true if the node has said that it has a task of it: then it is on its disk.
	taken bool
	// gone is true from the loss of a link until the node has said what became of the session.
	gone bool
}

// isGone reports whether the stream of a session has ended because the node has.
func (s sessionRef) isGone(end error) bool {
	return s.id != "" && status.Code(end) == codes.Unavailable
}

// goneError is the error of a conversation that ends while its node is gone.
func (s sessionRef) goneError() error {
	next := "When it is back, symbio sessions list shows whether it has kept anything of this conversation"
	switch {
	case s.taken && s.keep:
		next = "When it is back, go on with: symbio chat --resume " + s.id
	case s.taken:
		next = "When it is back, go on with: symbio run --resume " + s.id
	}
	return command.Unavailable(fmt.Errorf("node %s is gone\n%s", terminal.Printable(s.node), next))
}

// outbox has the texts of the person that the agent has not answered. It is for one goroutine.
type outbox struct {
	// unanswered are the messages without an answer, the running one first. A task that goes on after
	// an interruption is resumedTask.
	unanswered []string
	// busySince is when the first of these messages was sent. After an answer it is the time of
	// that answer.
	busySince time.Time
	// unsent holds steering that came back undelivered; it goes with the next message.
	unsent []string
	// pendingSteering holds the texts sent to the turn in flight whose receipt has not come.
	pendingSteering []string
	// pictures belong to the next message.
	pictures []*symbiov1.Picture
}

// resumedTask stands for the text of a task that goes on after an interruption. No message is empty.
const resumedTask = ""

// busy reports whether a message has no answer yet.
func (o *outbox) busy() bool { return len(o.unanswered) > 0 }

// add adds a message that is sent.
func (o *outbox) add(text string) {
	if o.unanswered = append(o.unanswered, text); len(o.unanswered) == 1 {
		o.busySince = time.Now()
	}
}

// keep keeps a text for the next message, because it is not known whether the agent got it, and
// returns the note about it. It is not sent again by itself: the agent must not do a thing twice.
func (o *outbox) keep(text string) (note string) {
	o.unsent = append(o.unsent, text)
	return "not known whether it was delivered; kept for your next message (Enter sends it): " + visible.TruncateRunes(FirstLine(text), 60)
}

// split empties unanswered after a lost link. began is how many messages of the session began since
// the latest answer: again are the messages behind these, which the agent never got. unknown are
// messages for which that is not clear, because another terminal went on with the session. ended
// reports whether an answer was missed; resumed is whether the last message that began goes on.
func (o *outbox) split(began int, resumed bool) (again, unknown []string, ended bool) {
	rest := o.unanswered
	o.unanswered = nil
	missed := began
	if len(rest) > 0 && rest[0] == resumedTask {
		rest = rest[1:]
		missed++ // it began before
	}
	if resumed {
		missed--
	}
	if began < 0 || began > len(rest) {
		return nil, rest, true
	}
	return rest[began:], nil, missed > 0
}

// waitForNode begins to wait for the node, if that is why the stream has ended, a person types at a
// terminal, and the conversation was not about to end. Questions are dropped: the agent asks again
// when its task goes on.
func (t *conversation) waitForNode(ctx context.Context, end error) bool {
	leaving := t.shutdown.closing && t.shutdown.agentErr == nil
	if leaving || !t.options.Reconnect || !t.view.isInteractive() || !t.session.isGone(end) {
		return false
	}
	t.setLink(&link{})
	t.session.gone = true
	t.shutdown.closing, t.shutdown.agentErr = false, nil
	t.questions.open = nil
	t.view.release()
	t.view.newAgent()
	t.view.note(fmt.Sprintf("node %s is gone; waiting for it to come back (Ctrl-C leaves)", terminal.Printable(t.session.node)))
	for _, text := range t.outbox.pendingSteering {
		t.view.note(t.outbox.keep(text))
	}
	t.outbox.pendingSteering = nil
	t.redialer.start(ctx, t.session)
	return true
}

// sessionEvent handles the first event of each link: it says in which session the conversation is
// kept, and whether an interrupted task of it goes on. A person is shown the end of an earlier
// conversation.
func (t *conversation) sessionEvent(e event.Event) error {
	f, before := event.PartOf[event.Session](e), t.session
	t.agent.root = e.Agent
	t.session.id, t.session.node, t.session.tasks, t.session.taken, t.session.gone = f.ID, e.Node, f.Tasks, f.Taken || f.Tasks > 0, false
	notes := []string{}
	if before.resumed && before.id == "" {
		notes = []string{"session " + f.ID + ": " + terminal.Printable(e.Text)}
	}
	if before.id != "" && before.id != f.ID { // after /clear
		notes = append(notes, "a new session begins: "+f.ID)
	}
	if f.Resumed {
		notes = append(notes, "the interrupted task goes on")
	}
	var err error
	if !t.view.isInteractive() {
		err = t.view.event(e)
	}
	past := t.session.resumed
	if before.gone {
		past, err = t.sendAgain(f.Tasks-before.tasks, f.Resumed)
	} else if len(t.outbox.unanswered) > 0 && t.outbox.unanswered[0] == resumedTask && !f.Resumed {
		t.outbox.unanswered = t.outbox.unanswered[1:]
	}
	t.closeWhenDone()
	if err != nil || !t.view.isInteractive() {
		return err
	}
	if past && !t.shutdown.closing {
		t.view.pastNotes, t.view.pastShown = notes, before.gone
		return t.link.askTranscript()
	}
	for _, text := range notes {
		t.view.note(text)
	}
	return nil
}

// sendAgain goes on after a lost link: it sends the messages again that the agent never got. missed
// reports whether an answer was not shown.
func (t *conversation) sendAgain(began int, resumed bool) (missed bool, err error) {
	t.view.note(fmt.Sprintf("node %s is back", terminal.Printable(t.session.node)))
	again, unknown, missed := t.outbox.split(began, resumed)
	for _, text := range unknown {
		t.view.note(t.outbox.keep(text))
	}
	if resumed {
		t.outbox.add(resumedTask)
		if t.shutdown.interrupted {
			err = t.interrupt()
		}
	}
	for _, text := range again {
		t.outbox.add(text)
		err = errors.Join(err, t.link.next(text))
	}
	return missed, err
}
