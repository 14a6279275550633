package notify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/internal/actor/backoff"
	"symbio/internal/security/redact"
	"symbio/internal/security/visible"
)

const (
	// answerTime is how long a question may wait before it is sent: a person at the terminal answers meanwhile.
	answerTime = 10 * time.Second
	// minTask is how long a task must have taken for its end to be sent: a person waits for a shorter one.
	minTask = time.Minute
	// maxQueue is how many messages wait at a time, for all targets together.
	maxQueue = 64
	// maxTries attempts are made for a message, with pauses from firstPause to maxPause: about 10 minutes.
	maxTries             = 8
	firstPause, maxPause = 5 * time.Second, 4 * time.Minute
	// stopTime is how long the messages of a node that stops may take.
	stopTime = 3 * time.Second
	// maxText limits the text of a message, in bytes: what a telephone shows.
	maxText = 300
)

// Config configures a Notifier. All fields are required but Send.
type Config struct {
	Node string // its name
	// State is the directory of Books. Targets are read again for each message.
	State  string
	Events *event.Stream
	// Agents returns what the agents of the node do.
	Agents func() []agent.Activity
	// Link returns the address of the page for approvals, which asks for a login; "" if it is not served.
	Link   func() string
	Logger *slog.Logger
	// Send sends a message to a target once. Default: Target.Send.
	Send func(context.Context, Target, Message) error
}

// Notifier sends what happens on a node to the targets. New makes it, and Run runs it.
type Notifier struct {
	cfg     Config
	begun   map[string]time.Time          // the tasks that run, by agent
	waiting map[string]context.CancelFunc // the questions that wait, by id
	slots   chan struct{}                 // one for each message that waits
	sending sync.WaitGroup
}

// New returns a Notifier.
func New(cfg Config) *Notifier {
	if cfg.Send == nil {
		cfg.Send = func(ctx context.Context, t Target, m Message) error { return t.Send(ctx, m) }
	}
	return &Notifier{cfg: cfg, begun: map[string]time.Time{}, waiting: map[string]context.CancelFunc{}, slots: make(chan struct{}, maxQueue)}
}

// Run follows the events of the node until ctx ends. It returns when all messages are sent or given up, at the latest stopTime
// after the end of ctx. Call it once.
func (n *Notifier) Run(ctx context.Context) error {
	events := n.cfg.Events.Subscribe(time.Time{})
	defer events.Close()
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	for {
		e, err := events.Next(ctx)
		if err != nil {
			break
		}
		n.follow(ctx, lasting, e)
	}
	for e, ok := events.Take(); ok; e, ok = events.Take() { // the end of a task may end its node
		n.follow(ctx, lasting, e)
	}
	defer time.AfterFunc(stopTime, cancel).Stop()
	n.sending.Wait()
	return nil
}

// follow sends what an event is about. A question is given up with ctx, the end of a task with lasting.
func (n *Notifier) follow(ctx, lasting context.Context, e event.Event) {
	switch e.Type {
	case event.TypeTask:
		if e.Parent == "" {
			n.begun[e.Agent] = e.Time
		}
	case event.TypeApproval:
		a := event.PartOf[event.Approval](e)
		ctx, cancel := context.WithCancel(ctx)
		n.waiting[a.ID] = cancel
		n.deliver(ctx, answerTime, func() Message { return n.question(e, a) })
	case event.TypeAnswered:
		id := event.PartOf[event.Answer](e).ID
		if cancel := n.waiting[id]; cancel != nil {
			cancel()
		}
		delete(n.waiting, id)
	case event.TypeDone, event.TypeFailed:
		begun, known := n.begun[e.Agent]
		delete(n.begun, e.Agent)
		if known && e.Time.Sub(begun) >= minTask {
			n.deliver(lasting, 0, func() Message { return n.end(e, e.Time.Sub(begun)) })
		}
	case event.TypeGap: // the ends of these may be missing
		clear(n.begun)
	}
}

// question returns the message about a call that waits.
func (n *Notifier) question(e event.Event, a event.Approval) Message {
	m := Message{Title: fmt.Sprintf("%s on %s asks", n.who(e), n.cfg.Node), Link: n.cfg.Link()}
	m.Text = line(fmt.Sprintf("%s %s: %s", a.Tool, redact.JSON(a.Args), e.Why))
	for _, now := range n.cfg.Agents() {
		if string(now.Member.ID) == e.Agent && now.Task != "" {
			m.Text += "\n" + line(now.SoFar())
		}
	}
	if m.Link == "" {
		m.Text += "\nAnswer with symbio approvals, or serve the dashboard: symbio up --dashboard"
	}
	return m
}

// end returns the message about a task that has ended.
func (n *Notifier) end(e event.Event, took time.Duration) Message {
	m := Message{Title: fmt.Sprintf("%s on %s is done", n.who(e), n.cfg.Node), Text: e.Text}
	if e.Type == event.TypeFailed {
		m.Title, m.Text = fmt.Sprintf("%s on %s failed", n.who(e), n.cfg.Node), e.Why
	}
	m.Text = line(fmt.Sprintf("After %v: %s", took.Round(time.Second), m.Text))
	return m
}

func (n *Notifier) who(e event.Event) string {
	if e.Name == "" {
		return "an agent"
	}
	return visible.Line(e.Name, 64)
}

// line returns a text that others chose as one line of at most maxText bytes, without secrets.
func line(text string) string {
	return visible.Line(redact.Text(strings.Join(strings.Fields(text), " ")), maxText)
}

// deliver sends a message to each target, after a while, until ctx ends.
func (n *Notifier) deliver(ctx context.Context, after time.Duration, make func() Message) {
	targets, _ := Books(n.cfg.State)
	all, err := targets.All()
	if err != nil {
		n.cfg.Logger.Warn("notify: some targets cannot be read", "err", err)
	}
	for _, t := range all {
		select {
		case n.slots <- struct{}{}:
			n.sending.Go(func() {
				defer func() { <-n.slots }()
				n.send(ctx, after, t, make)
			})
		default:
			n.record(t, fmt.Errorf("%d messages wait already", maxQueue))
		}
	}
}

// send sends a message to one target, again after a failure that may pass.
func (n *Notifier) send(ctx context.Context, after time.Duration, t Target, make func() Message) {
	for failures := 0; ; {
		timer := time.NewTimer(after)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		err := n.cfg.Send(ctx, t, make())
		if ctx.Err() != nil && err != nil {
			return // it is answered, or the node ends
		}
		n.record(t, err)
		if failures++; err == nil || errors.Is(err, errRefused) || failures == maxTries {
			return
		}
		after = backoff.Delay(failures, firstPause, maxPause)
	}
}

// record keeps why the last message was not sent, or that it was. The first failure is a warning of the node.
func (n *Notifier) record(t Target, failed error) {
	_, failures := Books(n.cfg.State)
	if failed == nil {
		if err := failures.Remove(t.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			n.cfg.Logger.Warn("notify: the failure stays", "target", t.Name, "err", err)
		}
		return
	}
	_, missing := failures.Find(t.Name)
	if err := failures.Put(Failure{t.Name, failed.Error(), time.Now().UTC()}); err != nil {
		n.cfg.Logger.Warn("notify: the failure is not kept", "target", t.Name, "err", err)
	}
	if missing != nil {
		n.cfg.Events.Warn(fmt.Sprintf("a message to %s was not sent: %v", t.Name, failed), "symbio notify test "+t.Name)
	}
}
