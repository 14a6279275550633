package guest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/coder/acp-go-sdk"

	"symbio/agent/llm"
	"symbio/internal/security/private"
	"symbio/internal/security/visible"
)

// startTime is how long a program may take until it has a session: programs of package managers look for updates first.
const startTime = 2 * time.Minute

// program is a running program and its session. The holder of Guest.busy uses it, and the connection's goroutines call handle.
type program struct {
	guest    *Guest
	run      *Process
	gate     *gate
	outbox   *outbox
	conn     *acp.Connection
	readOnly bool
	session  session
	prompt   *prompt // nil = it has nothing to do

	items     chan item
	next      *item // was taken from items, and is not passed on yet
	terminals terminals
	reports   reports

	mu      sync.Mutex
	working bool // a prompt runs; guarded by mu
	bill    bill // guarded by mu
}

// session is the session of a program.
type session struct {
	id    acp.SessionId // guarded by program.mu
	can   acp.AgentCapabilities
	modes *acp.SessionModeState
	mode  string // the last that the program was told
	fresh bool   // it was told nothing yet
}

// bill is the cost of a session as the program reports it, in its currency: the whole, and the part that no usage has yet.
type bill struct{ whole, due float64 }

// prompt is what a program works on.
type prompt struct {
	stop     context.CancelFunc
	ended    chan struct{}
	response acp.PromptResponse // set when ended is closed
	err      error              // set when ended is closed
	written  int                // bytes of the answer that no Usage has yet
	bytes    int                // of all messages for the answer and of all calls
	counted  int                // tokens that were reported so far
}

// item is a piece of an answer: a chunk, an ask, or a step of the program that began.
type item struct {
	chunk llm.Chunk
	ask   *ask
	begun *llm.ToolCall
	bytes int // of the message that it came with; 0 = it holds none back
}

// maxNotes is the size of the file of notes, in bytes.
const maxNotes = 64 << 10

// notes are what the next program of a session needs to go on with it.
type notes struct {
	Session string `json:"session"` // of ACP
	Least   int    `json:"least"`   // Guest.least
}

// start starts the program, and goes on with the session of the one before, if the program can and the conversation has begin
// messages that it knows.
func (g *Guest) start(ctx context.Context, begin int) (*program, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	readOnly := g.cfg.ReadOnly()
	run, err := g.host.Start(ctx, Order{g.cfg, g.serve})
	if err != nil {
		return nil, g.fail(llm.ErrUnavailable, err.Error())
	}
	p := &program{guest: g, run: run, gate: newGate(run.Out), readOnly: readOnly, items: make(chan item, maxMessages+2*maxAsks)}
	p.reports.life = rand.Text()[:8]
	p.outbox = newOutbox(run.In, run.End)
	p.conn = acp.NewConnection(p.handle, p.outbox, p.gate)
	p.conn.SetLogger(slog.New(slog.DiscardHandler))
	if err := p.open(ctx, begin); err != nil {
		why := p.why(err)
		p.end()
		return nil, g.fail(why.kind, why.text)
	}
	return p, nil
}

// open makes or loads the session.
func (p *program) open(ctx context.Context, begin int) error {
	g := &p.guest.cfg
	hello, err := acp.SendRequest[acp.InitializeResponse](p.conn, ctx, acp.AgentMethodInitialize, acp.InitializeRequest{
		ProtocolVersion: acp.ProtocolVersionNumber, ClientInfo: &acp.Implementation{Name: "symbio", Version: "1"},
		ClientCapabilities: acp.ClientCapabilities{Fs: acp.FileSystemCapabilities{ReadTextFile: true, WriteTextFile: true}, Terminal: true},
	})
	if err != nil {
		return err
	}
	if hello.ProtocolVersion != acp.ProtocolVersionNumber {
		return fmt.Errorf("it speaks version %d of ACP, and this node version %d", hello.ProtocolVersion, acp.ProtocolVersionNumber)
	}
	p.session.can = hello.AgentCapabilities
	servers := []acp.McpServer{}
	if argv := p.run.MCP; len(argv) > 0 {
		servers = append(servers, acp.McpServer{Stdio: &acp.McpServerStdio{Name: "symbio", Command: argv[0], Args: argv[1:], Env: []acp.EnvVariable{}}})
	}
	var last notes
	known := p.run.Notes != "" && private.ReadJSON(p.run.Notes, maxNotes, &last) == nil && last.Session != ""
	if known && p.session.can.LoadSession && begin >= last.Least {
		p.setSession(acp.SessionId(last.Session))
		loaded, err := acp.SendRequest[acp.LoadSessionResponse](p.conn, ctx, acp.AgentMethodSessionLoad,
			acp.LoadSessionRequest{SessionId: acp.SessionId(last.Session), Cwd: g.Dir(), McpServers: servers})
		if err == nil {
			p.session.modes = loaded.Modes
			return nil
		}
		if p.ended() {
			return err
		}
	}
	made, err := acp.SendRequest[acp.NewSessionResponse](p.conn, ctx, acp.AgentMethodSessionNew, acp.NewSessionRequest{Cwd: g.Dir(), McpServers: servers})
	if err != nil {
		return err
	}
	p.setSession(made.SessionId)
	p.session.fresh, p.session.modes = true, made.Modes
	if g.Program.Model != "" && made.Models != nil {
		if err := p.conn.SendRequestNoResult(ctx, acp.AgentMethodSessionSetModel,
			acp.UnstableSetSessionModelRequest{SessionId: made.SessionId, ModelId: acp.UnstableModelId(g.Program.Model)}); err != nil {
			return fmt.Errorf("the model %s: %w", g.Program.Model, err)
		}
	}
	return nil
}

func (p *program) setSession(id acp.SessionId) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session.id = id
}

// setMode tells the program the agent's mode, if it has one of that name.
func (p *program) setMode(ctx context.Context) {
	mode := string(p.guest.cfg.Mode())
	if p.session.modes == nil || mode == p.session.mode {
		return
	}
	for _, m := range p.session.modes.AvailableModes {
		if modeOf(string(m.Id)) == mode {
			err := p.conn.SendRequestNoResult(ctx, acp.AgentMethodSessionSetMode, acp.SetSessionModeRequest{SessionId: p.session.id, ModeId: m.Id})
			if err == nil {
				p.session.mode = mode
			}
			return
		}
	}
}

// modeOf returns the agent's mode that a mode of a program means: plan, edits or ask; "" = none of them. The modes in which
// programs ask for nothing are none: the agent's rules decide.
func modeOf(id string) string {
	switch strings.ToLower(id) {
	case "plan", "architect", "read-only", "readonly":
		return "plan"
	case "acceptedits", "accept-edits", "auto_edit", "autoedit", "auto-edit":
		return "edits"
	case "default", "ask", "build", "code", "auto":
		return "ask"
	}
	return ""
}

// begin gives the program a prompt.
func (p *program) begin(text string, images []llm.Image) {
	blocks := []acp.ContentBlock{acp.TextBlock(text)}
	for _, i := range images {
		if p.session.can.PromptCapabilities.Image {
			blocks = append(blocks, acp.ImageBlock(base64.StdEncoding.EncodeToString(i.Data), i.Type))
		}
	}
	ctx, stop := context.WithCancel(context.Background()) // it lasts over many requests; cancel ends it
	now := &prompt{stop: stop, ended: make(chan struct{})}
	p.mu.Lock()
	id := p.session.id
	p.working, p.bill.due = true, 0
	p.mu.Unlock()
	p.prompt = now
	p.guest.consents.clear()
	if p.run.Notes != "" {
		if err := private.ReplaceJSON(p.run.Notes, maxNotes, notes{string(id), p.guest.least}); err != nil {
			p.guest.cfg.Notice("the session of " + p.guest.Name() + " cannot go on after a restart: " + err.Error())
		}
	}
	var asked sync.WaitGroup
	asked.Go(func() {
		now.response, now.err = acp.SendRequest[acp.PromptResponse](p.conn, ctx, acp.AgentMethodSessionPrompt, acp.PromptRequest{SessionId: id, Prompt: blocks})
		p.mu.Lock()
		p.working = false
		p.mu.Unlock()
		close(now.ended)
	})
}

// cancel ends the present prompt, and the program if it does not stop.
func (p *program) cancel() {
	now := p.prompt
	p.prompt = nil
	defer now.stop()
	if p.next != nil {
		p.drop(*p.next, interrupted)
		p.next = nil
	}
	p.mu.Lock()
	id := p.session.id
	p.mu.Unlock()
	_ = p.conn.SendNotification(context.Background(), acp.AgentMethodSessionCancel, acp.CancelNotification{SessionId: id}) // else it is ended below
	late := time.NewTimer(settleTime)
	defer late.Stop()
	for {
		select {
		case it := <-p.items: // nothing of the cancelled prompt is of interest any more
			p.drop(it, interrupted)
		case <-now.ended:
			for len(p.items) > 0 {
				p.drop(<-p.items, interrupted)
			}
			return
		case <-late.C:
			p.end()
			return
		}
	}
}

// interrupted is the outcome of an ask of a task that was cancelled.
const interrupted = "The task was interrupted."

// drop takes an item that is not wanted.
func (p *program) drop(it item, why string) {
	if it.bytes > 0 {
		p.gate.release(it.bytes)
	}
	if it.ask != nil {
		p.guest.remove(it.ask)
		it.ask.settle(outcome{text: why, failed: true})
	}
}

// ended reports whether the connection has ended.
func (p *program) ended() bool {
	select {
	case <-p.conn.Done():
		return true
	default:
		return false
	}
}

// end ends the program and its connection.
func (p *program) end() {
	if p.prompt != nil {
		p.prompt.stop()
		p.prompt = nil
	}
	p.gate.close(errEnded)
	p.outbox.close(errEnded)
	p.run.End()
	for len(p.items) > 0 {
		p.drop(<-p.items, interrupted)
	}
}

// relay yields the answer up to its next calls or its end.
func (p *program) relay(ctx context.Context, ids *llm.CallIDs, yield func(llm.Chunk, error) bool) {
	now := p.prompt
	if it := p.next; it != nil {
		if p.next = nil; !p.pass(*it, ids, yield) {
			return
		}
	}
	for {
		if now.bytes > maxBytes {
			p.cancel()
			yield(llm.Chunk{}, p.guest.fail(llm.ErrMalformed, fmt.Sprintf("it said and did more than %d MiB in one task", maxBytes>>20)))
			return
		}
		select {
		case it := <-p.items:
			if more := p.pass(it, ids, yield); !more {
				return
			}
			continue
		case <-ctx.Done():
			p.cancel()
			yield(llm.Chunk{}, context.Cause(ctx))
			return
		case <-now.ended:
		}
		if len(p.items) > 0 { // they came before the end
			continue
		}
		p.prompt = nil
		now.stop()
		p.finish(now, yield)
		return
	}
}

// pass yields an item. After an ask it yields those that wait already, ends the answer with them, and returns false.
func (p *program) pass(it item, ids *llm.CallIDs, yield func(llm.Chunk, error) bool) bool {
	if it.bytes > 0 {
		p.gate.release(it.bytes)
	}
	p.prompt.bytes += it.bytes
	if it.begun != nil {
		p.guest.cfg.Begun(*it.begun)
		return true
	}
	if it.ask == nil {
		p.prompt.written += len(it.chunk.Text) + len(it.chunk.Thought)
		return yield(it.chunk, nil)
	}
	for calls := 1; ; calls++ {
		call := p.guest.callOf(it.ask, ids)
		p.prompt.bytes += max(0, len(call.Args)-it.bytes)
		if !yield(llm.Chunk{Call: &call}, nil) {
			return false
		}
		if len(p.items) == 0 || calls >= maxAsks || p.prompt.bytes > maxBytes {
			break
		}
		if it = <-p.items; it.ask == nil { // a text behind its calls is for the next answer
			p.next = &it
			break
		}
		if it.bytes > 0 {
			p.gate.release(it.bytes)
			p.prompt.bytes += it.bytes
		}
	}
	yield(llm.Chunk{Usage: p.usage(nil), Stop: llm.StopTools}, nil)
	return false
}

// usage returns what the answer since the last usage cost: as the program reports it, else by the length of the answer.
func (p *program) usage(reported *acp.Usage) *llm.Usage {
	u := &llm.Usage{Output: p.prompt.written / 4, Model: p.guest.Name()}
	p.prompt.written = 0
	if reported != nil {
		u.Output = max(0, reported.OutputTokens-p.prompt.counted)
		u.Input = max(0, reported.InputTokens)
	}
	p.prompt.counted += u.Output
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bill.due > 0 {
		u.Cost, p.bill.due = new(p.bill.due), 0
	}
	return u
}

// finish yields the end of an answer.
func (p *program) finish(now *prompt, yield func(llm.Chunk, error) bool) {
	if now.err != nil {
		why := p.why(now.err)
		yield(llm.Chunk{}, p.guest.fail(why.kind, why.text))
		return
	}
	p.prompt = now
	end := llm.Chunk{Usage: p.usage(now.response.Usage), Stop: llm.StopEnd}
	p.prompt = nil
	switch now.response.StopReason {
	case acp.StopReasonMaxTokens, acp.StopReasonMaxTurnRequests:
		end.Stop = llm.StopLength
	case acp.StopReasonRefusal:
		end.Stop = llm.StopFilter
	}
	yield(end, nil)
}

// failure is why a program did not answer.
type failure struct {
	kind error
	text string
}

// authRequired is ACP's code for a program that wants a login.
const authRequired = -32000

// maxWhy is the length of the text about an error of a program, in bytes.
const maxWhy = 600

// why returns the reason of an error of the connection.
func (p *program) why(err error) failure {
	var refused *acp.RequestError
	said := p.run.Said()
	switch {
	case p.ended():
		return failure{llm.ErrUnavailable, strings.TrimSuffix("its program ended: "+cmp.Or(said, "it said nothing"), "\n")}
	case errors.As(err, &refused) && refused.Code == authRequired:
		return failure{llm.ErrAuth, "it wants a login. Log in with its own program on this machine, and name the file of the login in the definition: acp: {login: […]}"}
	case errors.As(err, &refused):
		text := refused.Message
		if data, err := json.Marshal(refused.Data); err == nil && refused.Data != nil {
			text += ": " + string(data)
		}
		return failure{llm.ErrInvalid, visible.Line(text, maxWhy)}
	case errors.Is(err, context.DeadlineExceeded):
		return failure{llm.ErrTimeout, fmt.Sprintf("it was not ready after %v. %s", startTime, said)}
	}
	return failure{llm.ErrUnavailable, visible.Line(err.Error(), maxWhy)}
}
