package conversation

import (
	"context"
	"errors"
	"sync"

	"symbio/agent/llm"
	"symbio/agent/tool"
)

// What callers tell apart.
var (
	// ErrBusy: as much waits already as may. Nothing was done.
	ErrBusy = errors.New("too much is waiting")
	// ErrInterrupted: Interrupt ended the exchange. What was done of it is in the history.
	ErrInterrupted = errors.New("interrupted")
	// ErrIdle: nothing is in flight.
	ErrIdle = errors.New("nothing is in flight")
	// ErrTurns: the model was not done within the limit of turns.
	ErrTurns = errors.New("too many turns")
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
	// Thinking is that of each llm.Request.
	Thinking int
	// MaxTurns is how often the model may be asked in an exchange. Default 32: what a long task
	// needs; a loop that turns more often is stuck.
	MaxTurns int
	// Waiting is how many messages may wait, and how much steering. Default 32: more than a person
	// writes ahead.
	Waiting int
	// Window is how much the model can be given, in tokens. Default 128,000, what most models take;
	// of one that takes less, its refusal tells. From four fifths of it on room is made.
	Window int
	// Before is called in each turn before the model is asked. Default: nothing.
	Before func(ctx context.Context, turn int)
	// Watch hears what happens, from the goroutine of the Send in which it does. It must not call Send.
	Watch func(ctx context.Context, e Event)
	// ForTools makes the context of an exchange's tools of the exchange's own, once, as with an
	// earlier deadline. Default: it is that.
	ForTools func(context.Context) context.Context
	// OnLost is called when messages which the model was given are not in the history any more: of this
	// exchange alone, or of earlier ones, too. It is called by one goroutine at a time, which is
	// that of a Send.
	OnLost func(earlier bool)
}

// Session is what the exchanges of a conversation have in common until Replace is called.
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
		s.Model = llm.First()
	}
	if s.Tools == nil {
		s.Tools = tool.NewSet(tool.SetConfig{})
	}
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
	}{{&c.MaxTurns, defaultTurns}, {&c.Waiting, defaultWaiting}, {&c.Window, defaultWindow}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.Before == nil {
		c.Before = func(context.Context, int) {}
	}
	if c.Watch == nil {
		c.Watch = func(context.Context, Event) {}
	}
	if c.ForTools == nil {
		c.ForTools = func(ctx context.Context) context.Context { return ctx }
	}
	if c.OnLost == nil {
		c.OnLost = func(bool) {}
	}
	return c
}

// Conversation is a history and what is to be added to it. Make it with New.
type Conversation struct {
	cfg Config

	mu      sync.Mutex
	busy    bool            // an exchange has the slot; guarded by mu
	queue   []chan struct{} // of those who wait for it, closed when they have it; guarded by mu
	live    *exchange       // the one in flight; guarded by mu
	history history         // of the exchanges that ended; guarded by mu
	next    []*steering     // goes before the next message; guarded by mu
	parts   []Part          // of the system prompt of last; guarded by mu
	last    llm.Request     // that was made, without those for summaries; guarded by mu
	mid     []*steering     // waits for the next turn of the one in flight; guarded by mu

	window int // Config.Window, or less when the model took less; only who has the slot touches it
}

// New returns a Conversation without any history.
func New(cfg Config) *Conversation {
	c := &Conversation{cfg: cfg.withDefaults()}
	c.history.session = Session{Model: cfg.Model, Tools: cfg.Tools, Instructions: cfg.Instructions}.withDefaults()
	c.window = c.cfg.Window
	return c
}

// Reply is what came of a message.
type Reply struct {
	// Text is the model's last words.
	Text string
	// Turns is how often it was asked.
	Turns int
	// Usage is what that took, summaries included.
	Usage llm.Usage
}

// Send gives a message to the model, lets it call its tools until it is done, and returns its
// answer. It waits until those that were sent before it are done.
//
// ErrBusy at once: too many wait. ErrInterrupted, ErrTurns, the cause of ctx: it was ended; what
// was done until then is in the history, up to the last turn that is whole, and the model is told
// so with the next message. Any other error is the model's or of Config.System; then the history is
// as it was before, since what the model failed at may be in it. With an error the Reply says what
// there is of it.
func (c *Conversation) Send(ctx context.Context, text string, images ...llm.Image) (Reply, error) {
	if err := c.acquire(ctx); err != nil {
		return Reply{}, err
	}
	defer c.release()
	x := &exchange{c: c}
	var cancel context.CancelCauseFunc
	x.ctx, cancel = context.WithCancelCause(ctx)
	defer cancel(nil)
	x.open(cancel)
	defer x.close()
	err := x.run(text, images)
	return x.reply, err
}

// Interrupt ends the exchange in flight: its Send returns ErrInterrupted. Those that wait are next.
// ErrIdle.
func (c *Conversation) Interrupt() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		return ErrIdle
	}
	c.live.cancel(ErrInterrupted)
	return nil
}

// IsResponding says whether an exchange is in flight.
func (c *Conversation) IsResponding() bool { return c.State().Responding }

// PendingSteering is how much was said that no request holds yet.
func (c *Conversation) PendingSteering() int { return c.State().PendingSteering }

// State is how it stands now.
func (c *Conversation) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{Responding: c.live != nil, PendingSteering: len(c.next) + len(c.mid), Waiting: len(c.queue), Messages: len(c.history.messages)}
	if c.live != nil {
		s.Turn = int(c.live.turn.Load())
	}
	return s
}
