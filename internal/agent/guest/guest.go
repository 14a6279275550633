package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"symbio/agent"
	"symbio/agent/llm"
)

// Host starts the programs of guests on a node. It may be called by many goroutines.
type Host interface {
	// Start starts a program. It blocks until the program runs; ctx bounds the start, not the program. The error says what is
	// missing and how to mend it.
	Start(ctx context.Context, o Order) (*Process, error)
}

// Order is a program to start.
type Order struct {
	agent.ProgramConfig
	// Serve answers one connection of the program to the MCP server of its agent, until ctx or the connection ends.
	Serve func(ctx context.Context, c net.Conn)
}

// Process is a program that was started.
type Process struct {
	In  io.Writer
	Out io.Reader
	// End ends the program with all that it started, and returns when they have ended. It may be called several times.
	End func()
	// Said returns the end of its standard error, for people: short and printable.
	Said func() string
	// MCP is the command by which the program reaches Order.Serve; nil = it cannot.
	MCP []string
	// Notes is a file that the program does not see, for what the next program of the session needs; "" = there is none.
	Notes string
}

// Guest is a program as a model. It implements agent.Program and llm.Windower. One request runs at a time; Close and Settle wait
// for it. Its program starts with the first request, and again when it has ended.
type Guest struct {
	host  Host
	cfg   agent.ProgramConfig
	busy  chan struct{} // has room for the one that asks it
	calls chan struct{} // has room for the calls by MCP that wait

	live  *program // of the holder of busy; nil = none runs
	least int      // of the holder of busy: how many messages came before the latest prompt

	mu    sync.Mutex
	now   *program        // live, for connections to the MCP server; guarded by mu
	tools []llm.ToolSpec  // of the latest request; guarded by mu
	asks  map[string]*ask // by key, those that wait for their call; guarded by mu
	count int             // of asks so far; guarded by mu

	consents consents
}

// New returns a Guest. It starts nothing.
func New(host Host, cfg agent.ProgramConfig) *Guest {
	return &Guest{host: host, cfg: cfg, busy: make(chan struct{}, 1), calls: make(chan struct{}, maxAsks), asks: map[string]*ask{}}
}

// Name returns acp: and the name of the program.
func (g *Guest) Name() string {
	p := g.cfg.Program
	name := p.Command[0][strings.LastIndexByte(p.Command[0], '/')+1:]
	return "acp:" + name + strings.TrimSuffix("/"+p.Model, "/")
}

// Window says that the program itself sees to it that its conversation fits.
func (g *Guest) Window() int { return llm.NoWindow }

// settleTime is how long a program may take to stop when its prompt was cancelled. Then it is ended.
const settleTime = 10 * time.Second

// Stream gives the program the new messages of the conversation, or the results of its calls, and yields the rest of the
// answer up to the next calls. The error is llm.ErrUnavailable if the program cannot be started or ends before its answer,
// and if another request runs; llm.ErrAuth if it wants a login.
func (g *Guest) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		select {
		case g.busy <- struct{}{}:
		default:
			yield(llm.Chunk{}, g.fail(llm.ErrUnavailable, "it works on a task, and answers nothing else meanwhile"))
			return
		}
		defer func() { <-g.busy }()
		if err := g.give(ctx, r); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		if !yield(llm.Chunk{}, nil) { // from here on the answer has begun
			return
		}
		g.live.relay(ctx, llm.NewCallIDs(r.Messages), yield)
	}
}

// give starts the program if none runs, and gives it what is new in the request.
func (g *Guest) give(ctx context.Context, r llm.Request) error {
	g.mu.Lock()
	g.tools = r.Tools
	hadOne := g.now != nil
	g.mu.Unlock()
	g.settleAsks(r.Messages)
	begin := len(r.Messages)
	for begin > 0 && r.Messages[begin-1].Role == llm.User {
		begin--
	}
	said := r.Messages[begin:]
	p := g.live
	if p != nil && (p.ended() || p.prompt == nil && p.readOnly != g.cfg.ReadOnly()) {
		p.end()
		p, g.live = nil, nil
	}
	switch {
	case p != nil && p.prompt != nil && len(said) == 0:
		return nil // its calls have their results, and it goes on
	case p != nil && p.prompt != nil:
		p.cancel()
	}
	again := p == nil && begin == g.least && hadOne
	if p == nil || p.ended() || begin < g.least {
		if p != nil {
			p.end()
		}
		g.live = nil
		var err error
		if p, err = g.start(ctx, begin); err != nil {
			return err
		}
		g.live = p
	}
	text, images := promptText(r, begin, p.session.fresh)
	if p.session.fresh && begin > 0 {
		g.cfg.Notice(g.Name() + " begins a new session of its own, with the record of this one as its context.")
	}
	if !p.session.fresh && again {
		text = "Your program ended in the middle of this task. Look at what is done already, and go on.\n\n" + text
	}
	p.session.fresh, g.least = false, begin
	p.setMode(ctx)
	g.mu.Lock()
	g.now = p
	g.mu.Unlock()
	p.begin(text, images)
	return nil
}

// settleAsks gives the results of calls to those that wait for them.
func (g *Guest) settleAsks(messages []llm.Message) {
	g.mu.Lock()
	waiting := g.asks
	g.asks = map[string]*ask{}
	g.mu.Unlock()
	results := map[string]llm.ToolResult{}
	for _, m := range slices.Backward(messages) {
		if m.Role == llm.Assistant {
			break
		}
		for _, one := range m.Results {
			results[one.CallID] = one
		}
	}
	for key, a := range waiting {
		if a.call == "" { // it came after the calls of the latest answer
			g.mu.Lock()
			g.asks[key] = a
			g.mu.Unlock()
			continue
		}
		if one, there := results[a.call]; there {
			a.settle(outcome{text: one.Text, failed: one.IsError})
			continue
		}
		a.settle(outcome{text: "The task ended before that.", failed: true})
	}
}

// Settle cancels what the program is doing, because the task has ended.
func (g *Guest) Settle() {
	g.busy <- struct{}{}
	defer func() { <-g.busy }()
	g.consents.clear()
	if g.live != nil && g.live.prompt != nil {
		g.live.cancel()
	}
	g.settleAsks(nil)
}

// Close ends the program, and with it a request that runs. A later request starts it again.
func (g *Guest) Close() {
	g.mu.Lock()
	now := g.now
	g.now = nil
	g.mu.Unlock()
	if now != nil {
		now.gate.close(errEnded)
		now.run.End()
	}
	g.busy <- struct{}{}
	defer func() { <-g.busy }()
	if g.live != nil {
		g.live.end()
	}
	g.live = nil
	g.settleAsks(nil)
}

// fail returns an error of the program as a model's.
func (g *Guest) fail(kind error, detail string) error {
	return &llm.Error{Model: g.Name(), Detail: cmp.Or(detail, "it said nothing"), Err: kind}
}

// promptText returns what a program is told: the messages from begin on, and before them, if its session is fresh, who it is
// and what was said before.
func promptText(r llm.Request, begin int, fresh bool) (text string, images []llm.Image) {
	var b strings.Builder
	if fresh {
		b.WriteString(r.System)
		if begin > 0 {
			b.WriteString("\n\nThis conversation began earlier. Its record, of which the beginning may be left out:\n\n" + transcript(r.Messages[:begin]) +
				"\n\nGo on with it. This is new:")
		}
	}
	for _, m := range r.Messages[begin:] {
		b.WriteString("\n\n" + m.Text)
		images = append(images, m.Images...)
	}
	if begin == len(r.Messages) {
		b.WriteString("\n\nYour program was started again in the middle of this task. Look at what is done already, and go on with the task.")
	}
	return strings.TrimSpace(b.String()), images
}

// maxTranscript is how much of a record a new session is told, in bytes: about 16,000 tokens.
const maxTranscript = 64 << 10

// transcript returns the end of a conversation as text.
func transcript(messages []llm.Message) string {
	var parts []string
	left := maxTranscript
	for _, m := range slices.Backward(messages) {
		var b strings.Builder
		if m.Text != "" {
			fmt.Fprintf(&b, "%s: %s\n", m.Role, m.Text)
		}
		for _, c := range m.Calls {
			fmt.Fprintf(&b, "call of %s: %.2000s\n", c.Name, c.Args)
		}
		for _, one := range m.Results {
			fmt.Fprintf(&b, "result of %s: %.4000s\n", one.Name, one.Text)
		}
		if left -= b.Len(); left < 0 {
			break
		}
		parts = append(parts, b.String())
	}
	slices.Reverse(parts)
	return strings.ToValidUTF8(strings.Join(parts, "\n"), "\uFFFD")
}

var errEnded = errors.New("the program has ended")
