package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/internal/agent/llm/retry"
)

// Errors that callers tell apart.
var (
	// ErrBusy: as much waits already as may. Nothing was done.
	ErrBusy = errors.New("too much is waiting")
	// ErrInterrupted: Interrupt ended the exchange. The finished part of it is in the history.
	ErrInterrupted = errors.New("interrupted")
	// ErrIdle: nothing is in flight.
	ErrIdle = errors.New("nothing is in flight")
	// ErrTurns: the model was not done within the limit of turns.
	ErrTurns = errors.New("too many turns")
	// ErrNoAnswer: the model answered with neither calls nor a text, also when it was asked again.
	ErrNoAnswer = errors.New("it answered with nothing")
	// ErrUnsound: a history has a call without its result, or what cannot be there otherwise.
	ErrUnsound = errors.New("the history is not whole")
)

// Config sets up a Conversation. Only Model has to be set.
type Config struct {
	Model llm.Model
	// Tools are what the model may call. Default: none.
	Tools *tool.Set
	// Instructions are the system prompt.
	Instructions string
	// System returns the system prompt in place of Instructions, in parts whose texts are joined as
	// they are. It is called at the start of each exchange, and again when messages were lost. Its
	// error ends the exchange. It is called by one goroutine at a time.
	System func(ctx context.Context) ([]Part, error)
	// NewSession makes the session that begins when Replace is called. It is given the present
	// session with the messages of Replace, and returns it, changed or not. An exchange in flight
	// ends with its own session. NewSession may be called by several goroutines at the same time.
	// Default: only the messages change.
	NewSession func(Session) Session
	// Thinking sets the field of each llm.Request.
	Thinking int
	// Form is what an answer has to fit, if it is set; the answer is then the document (Form.Document). The model knows
	// of it by the system prompt. An answer that does not fit is sent back, once in an exchange, and the
	// error of the second is llm.ErrUnfit.
	Form *llm.Form
	// MaxTurns is how often the model may be asked in an exchange. Default 32: what a long task
	// needs; a loop that turns more often is stuck.
	MaxTurns int
	// Waiting is how many messages may wait, and how much steering. Default 32: more than a person
	// writes ahead.
	Waiting int
	// Window returns how much the model can be given, in tokens. It is called before each request,
	// because the model may be another one. Default, and for 0: 128,000, what most models take; of one
	// that takes less, its refusal tells. From four fifths of it on room is made.
	Window func() int
	// Before is called in each turn before the model is asked. If it returns true, the system prompt is
	// made anew. Default: nothing.
	Before func(ctx context.Context, turn int) bool
	// Watch gets what happens, but the calls of tools: the tool.Set reports those. It is called from the goroutine
	// of the Send in which it does. It must not call Send.
	Watch func(ctx context.Context, e event.Event)
	// ForTools makes the context of an exchange's tools of the exchange's own, once, as with an
	// earlier deadline. Default: it is that.
	ForTools func(context.Context) context.Context
	// Journal records what happens, before it takes effect. Default: nothing is recorded.
	Journal Journal
	// Past are the entries of the conversation's earlier life. The history is built from them, and an
	// exchange without an end can go on by Resume.
	Past []session.Entry
	// OnLost is called when messages that the model has seen are no longer in the history: the ones of the
	// current exchange only, or, if earlier is true, older ones too. It is called on the goroutine of a Send,
	// never concurrently.
	OnLost func(earlier bool)
}

// Session has what all exchanges share until Replace is called.
type Session struct {
	Model llm.Model
	Tools *tool.Set
	// Instructions are the system prompt if Config has no System.
	Instructions string
	// Messages is the history that the session begins with.
	Messages []llm.Message
}

// withDefaults returns s with a model that reports that there is none, and without tools, where
// these are nil.
func (s Session) withDefaults() Session {
	if s.Model == nil {
		s.Model = retry.New(retry.Config{})
	}
	s.Tools = cmp.Or(s.Tools, tool.NewSet(tool.SetConfig{}))
	return s
}

// Part is a named part of a system prompt.
type Part struct{ Name, Text string }

const (
	defaultTurns   = 32
	defaultWaiting = 32
	defaultWindow  = 128_000
)

func (c Config) withDefaults() Config {
	if c.NewSession == nil {
		c.NewSession = func(s Session) Session { return s }
	}
	for _, d := range []struct {
		field *int
		value int
	}{{&c.MaxTurns, defaultTurns}, {&c.Waiting, defaultWaiting}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.Before == nil {
		c.Before = func(context.Context, int) bool { return false }
	}
	if c.Window == nil {
		c.Window = func() int { return 0 }
	}
	if c.Watch == nil {
		c.Watch = func(context.Context, event.Event) {}
	}
	if c.ForTools == nil {
		c.ForTools = func(ctx context.Context) context.Context { return ctx }
	}
	if c.OnLost == nil {
		c.OnLost = func(bool) {}
	}
	return c
}

// Conversation is a history of messages with a model, and the queue of messages to come. Make it with New.
// All methods are safe for concurrent use; only Send and Interject block.
type Conversation struct {
	cfg    Config
	record recorder
	// slot is what an exchange needs: one runs at a time. waiting is how many wait for it.
	slot    *semaphore.Weighted
	waiting atomic.Int64

	mu sync.Mutex
	// live is the current exchange; nil if there is none; guarded by mu.
	live *exchange
	// history has the exchanges that have ended; guarded by mu.
	history history
	// unfinished is an exchange of the past that Resume goes on with; nil = there is none; guarded by mu.
	unfinished *openExchange
	// damage is why the history of Config.Past cannot go on; Replace clears it; guarded by mu.
	damage error
	// next is steering for the next message, mid for the next turn of live; guarded by mu.
	next, mid []*steering
	// last is the latest request, those for summaries left out, and parts its system prompt, for Inspect;
	// guarded by mu.
	parts []Part
	last  llm.Request

	// window is what fits: modelWindow, or less after the model has refused a request that should have fitted.
	// modelWindow is Config.Window when window was set. Only the exchange that has the slot writes them.
	window, modelWindow atomic.Int64
}

// New returns a Conversation with the history of Config.Past, or without any.
func New(cfg Config) *Conversation {
	c := &Conversation{cfg: cfg.withDefaults(), record: recorder{cfg.Journal}, slot: semaphore.NewWeighted(1)}
	c.history.session = Session{Model: cfg.Model, Tools: cfg.Tools, Instructions: cfg.Instructions}.withDefaults()
	if err := c.load(cfg.Past); err != nil {
		c.damage = fmt.Errorf("this session cannot go on, because its record is incomplete; symbio sessions export shows it: %w", err)
	}
	return c
}

// Window returns how many tokens fit into a request.
func (c *Conversation) Window() int {
	return cmp.Or(int(c.window.Load()), c.cfg.Window(), defaultWindow)
}

// Limit returns Window for people; 0 = there is none.
func (c *Conversation) Limit() int {
	if w := c.Window(); w != llm.NoWindow {
		return w
	}
	return 0
}

// updateWindow sets the window if the model has another one than before.
func (c *Conversation) updateWindow() {
	if now := int64(cmp.Or(c.cfg.Window(), defaultWindow)); c.modelWindow.Swap(now) != now {
		c.window.Store(now)
	}
}

// Reply is the result of a Send.
type Reply struct {
	// Text is the text of the model's last answer.
	Text string
	// Turns is the number of turns: requests to the model, repeated and summary ones not counted.
	Turns int
	// Usage is the sum over all requests, summaries included.
	Usage llm.Usage
}

// Message is what a person or program says to the model.
type Message struct {
	Text   string
	Images []llm.Image
	// ByPerson says that a person wrote Text; see session.PersonsText.
	ByPerson bool
	// Taken is called when the message is recorded, and returns what the model is shown behind it: a text, and images with
	// it. It may take long: an exchange that is broken off meanwhile can go on after a restart. Its error ends the
	// exchange. Default: nothing.
	Taken func(ctx context.Context) (more llm.Message, err error)
}

// Send is SendMessage of a text and images.
func (c *Conversation) Send(ctx context.Context, text string, images ...llm.Image) (Reply, error) {
	return c.SendMessage(ctx, Message{Text: text, Images: images})
}

// SendMessage sends a message to the model, runs the tools that it calls until it answers without a call, and
// returns that answer. Sends run one at a time, in their order; the others block.
//
// The error is ErrBusy, at once, when Config.Waiting others wait. After ErrInterrupted, ErrTurns, ErrNoAnswer and the cause
// of ctx, the history keeps the messages up to the last complete turn, and the next message tells the model
// that this one was interrupted. Any other error comes from the model or Config.System; the history is then
// as before, because the model may have failed at one of the new messages. Reply has what there is, also with
// an error.
func (c *Conversation) SendMessage(ctx context.Context, m Message) (Reply, error) {
	return c.exchange(ctx, func(x *exchange) error {
		if err := c.abandon(); err != nil {
			return err
		}
		if err := x.begin(m); err != nil {
			return err
		}
		return x.turns()
	})
}

// exchange waits for the slot and runs an exchange in it.
func (c *Conversation) exchange(ctx context.Context, do func(*exchange) error) (Reply, error) {
	if err := c.acquire(ctx); err != nil {
		return Reply{}, err
	}
	defer c.release()
	c.mu.Lock()
	damage := c.damage
	c.mu.Unlock()
	if damage != nil {
		return Reply{}, damage
	}
	x := &exchange{c: c}
	x.open(ctx)
	defer x.close()
	err := x.run(do)
	return x.reply, err
}

// Interrupt ends the current exchange: its Send returns ErrInterrupted, and the next waiting one runs. The
// error is ErrIdle when there is no exchange. It does not wait for the end.
func (c *Conversation) Interrupt() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		return ErrIdle
	}
	c.live.ctx.End(ErrInterrupted)
	return nil
}

// PendingSteering returns the number of steering texts that no request has yet.
func (c *Conversation) PendingSteering() int { return c.State().PendingSteering }

// State returns the present state.
func (c *Conversation) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{Responding: c.live != nil, PendingSteering: len(c.next) + len(c.mid), Waiting: int(c.waiting.Load()), Messages: len(c.history.messages)}
	if c.live != nil {
		s.Turn = int(c.live.turn.Load())
	}
	return s
}
