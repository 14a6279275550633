package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/actor/backoff"
)

const (
	// minRetryDelay and maxRetryDelay limit the delay between two attempts to connect; each delay
	// is twice the one before, with jitter.
	minRetryDelay = time.Second
	maxRetryDelay = time.Minute
	// listInterval is the pause between two readings of lists that a server reports as changed. It
	// keeps a server that reports changes all the time from causing load.
	listInterval = time.Second
	// turnWait is how long a turn waits for a starting server. Most servers that are installed
	// locally are ready within it.
	turnWait = 3 * time.Second
	// discoverTimeout is how long a server has to answer server/discover. One from before that method answers with an
	// error, but some leave what they do not know unanswered; the handshake then goes on with initialize, soon enough
	// for the first turn (turnWait).
	discoverTimeout = 2 * time.Second
	// listTimeout is how long a server that has started has for a page of its tools or prompts.
	listTimeout = 10 * time.Second
	// maxCalls limits the calls of a server that run at a time. Agents make fewer; the limit bounds
	// the memory that a hanging server holds.
	maxCalls = 256
)

// server is a configured server across all its connections. Its goroutine, run, connects and
// reconnects; all other methods may be called from any goroutine. mu guards the state and is never
// held during I/O.
type server struct {
	Server
	m *Manager

	// startRequested holds a token when a start is requested. Only run receives from it.
	startRequested chan struct{}
	// listChanged holds a token when the server has reported that its lists changed. Several
	// reports make one token.
	listChanged chan struct{}
	// retired is closed by retire, when the entry is gone.
	retired chan struct{}

	// asking is held while a request of the server is answered.
	asking sync.Mutex

	// mu guards the fields below. Config.Report and Config.Pins are never called with mu held.
	mu sync.Mutex
	// line is the line of the entry in its file. Server.Line keeps the first one.
	line int
	// state moves from Stopped or Failed to Starting, then to Ready or Failed, and at the end to
	// Stopped.
	state State
	// reason says why the server is in its state; "" if there is nothing to say. It becomes Status.Why.
	reason string
	// stopped is true if the server is not started any more: run has ended or the entry is gone.
	stopped bool
	// attempted is true once the server was Ready or Failed. It never becomes false again.
	attempted bool
	// startedAt is the time of the last request that moved the state to Starting.
	startedAt time.Time
	// retryAt is the time before which requestStart does nothing for a Failed server.
	retryAt time.Time
	// changed is closed at each change of the state and replaced by a new channel.
	changed chan struct{}
	// current is the open connection; nil unless the state is Ready.
	current *sdk.ClientSession
	// tools are the tools of the last list. They stay while the server reconnects, so that a short
	// failure does not take tools from a model.
	tools []*Tool
	// notes say what the last list left out.
	notes []string
	// calls has the running calls by their progress tokens.
	calls map[string]runningCall
	// number is the number of the last progress token.
	number int
}

// runningCall is a call of a tool: its context and number, and the function for its progress.
type runningCall struct {
	ctx    context.Context
	number int
	tell   func(community.Progress)
}

// latestCall returns the context of the running call that began last; nil if there is none.
func latestCall(s *server) (ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := 0
	for _, c := range s.calls {
		if c.number > last {
			last, ctx = c.number, c.ctx
		}
	}
	return ctx
}

// haveSeveralAgents reports whether calls of several agents run.
func haveSeveralAgents(s *server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	agents := map[string]bool{}
	for _, c := range s.calls {
		agents[tool.AgentOf(c.ctx)] = true
	}
	return len(agents) > 1
}

// newServer returns a server that is Stopped, or Failed if its entry has a problem.
func newServer(m *Manager, s Server) *server {
	one := &server{Server: s, m: m, startRequested: make(chan struct{}, 1), listChanged: make(chan struct{}, 1),
		retired: make(chan struct{}), line: s.Line, changed: make(chan struct{}), state: Stopped, calls: map[string]runningCall{}}
	switch {
	case s.Problem != "":
		one.state, one.reason = Failed, s.Problem
	case s.Disabled:
		one.reason = "it is disabled in its file"
	}
	return one
}

// run connects when a start is requested, and reconnects when a connection is lost, until ctx ends
// or the entry is removed. A server that was ready is reconnected at once after the delay. One that
// never was ready waits for the next request, so that a broken server does not restart for ever.
func (s *server) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	// Deferred calls run in reverse order: cancel lets the helper goroutine below end, stop reports
	// the end, and Wait waits for the goroutine.
	defer s.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() {
		select {
		case <-s.retired:
			cancel()
		case <-ctx.Done():
		}
	})
	// failures counts the attempts since the server last worked for a while; it determines the
	// delay.
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.startRequested:
		}
		for again := true; again; {
			began := time.Now()
			ready, err := s.connect(ctx)
			if ctx.Err() != nil {
				return
			}
			// A connection that lasted longer than the longest delay counts as a success. One that
			// is lost right after the start does not, so that its delays keep growing.
			if ready && time.Since(began) > maxRetryDelay {
				failures = 0
			}
			failures++
			pause := backoff.Delay(failures, minRetryDelay, maxRetryDelay)
			s.m.cfg.Logger.Warn("mcp server lost", "server", s.Name, "err", err)
			s.setDisconnected(Failed, err.Error(), time.Now().Add(pause))
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			// A server that never was ready stays Failed until the next request after its delay.
			if again = ready; again {
				s.setDisconnected(Starting, "", time.Time{})
			}
		}
	}
}

// connect opens a connection, lists the tools and serves until the connection ends. ready reports
// whether the server became ready. The error is never nil; it includes the end of the text that the program
// wrote to standard error.
func (s *server) connect(parent context.Context) (ready bool, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	// The timer covers the whole start and not each step, so that a slow server cannot add up
	// delays. It is stopped once the tools are listed.
	timer := time.AfterFunc(s.m.cfg.StartTimeout, func() {
		cancel(fmt.Errorf("it was not ready after %s", s.m.cfg.StartTimeout))
	})
	defer timer.Stop()
	l, err := s.m.open(ctx, s.Server)
	if err != nil {
		return false, cause(ctx, err)
	}
	defer l.end()
	fail := func(err error) error {
		text := shortError(cause(ctx, err)) + l.hint
		if l.stderr == nil {
			return errors.New(text)
		}
		// The last output of the program is complete only after it has ended. end may be called
		// twice.
		l.end()
		if said := l.stderr(); said != "" {
			text += "; its program said: " + tool.Shorten(strings.Join(strings.Fields(said), " "), maxQuoted)
		}
		return errors.New(text)
	}
	client := s.client()
	client.AddSendingMiddleware(limitAnswers)
	session, err := client.Connect(ctx, tolerantTransport{l.transport}, nil)
	if err != nil {
		return false, fail(fmt.Errorf("the handshake: %w", err))
	}
	// The hint is for a program that does not start. This one did.
	l.hint = ""
	// Close may fail because the connection is lost already, which does not matter here.
	defer session.Close()
	if err := s.list(ctx, session); err != nil {
		return false, fail(fmt.Errorf("its tools: %w", err))
	}
	// The timer has fired after the last step: ctx is canceled, so the session cannot be used.
	if !timer.Stop() {
		return false, fail(context.Cause(ctx))
	}
	s.setReady(session)
	return true, fail(s.serve(ctx, session))
}

// serve reads the lists again when the server reports a change, until the session ends. It returns
// why it ended.
func (s *server) serve(ctx context.Context, session *sdk.ClientSession) error {
	// The channel has room for the result: serve does not receive it after ctx ends, and still
	// waits for the goroutine.
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { ended <- session.Wait() })
	for {
		select {
		case err := <-ended:
			if err == nil {
				err = errors.New("it ended the connection")
			}
			return err
		case <-ctx.Done():
			// Close ends session.Wait, and so the goroutine above.
			session.Close()
			return ctx.Err()
		case <-s.listChanged:
		}
		// A failed list is logged and no reason to end the session: the earlier tools stay.
		listing, cancel := context.WithTimeout(ctx, s.m.cfg.StartTimeout)
		if err := s.list(listing, session); err != nil {
			s.m.cfg.Logger.Warn("mcp server's changed tools not read", "server", s.Name, "err", err)
		} else {
			s.m.cfg.Report(s.status())
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(listInterval):
		}
	}
}

// client returns an SDK client that offers the server nothing but Config.Root as its root, elicit and sample, so the
// server cannot send other requests. The handlers of notifications must not block: the SDK calls them from its
// reading goroutine. Its requests have no limits of time: in a login a person answers them.
func (s *server) client() *sdk.Client {
	can := &sdk.ClientCapabilities{}
	addRoot := s.root(can)
	c := sdk.NewClient(&sdk.Implementation{Name: "symbio", Version: s.m.cfg.Version}, &sdk.ClientOptions{
		Capabilities: can,
		//lint:ignore SA1019 see sample.go
		CreateMessageHandler: func(ctx context.Context, r *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return sample(ctx, s, r)
		},
		ElicitationHandler: func(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) { return elicit(ctx, s, r) },
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case s.listChanged <- struct{}{}:
			default:
			}
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { s.onProgress(r.Params) },
	})
	addRoot(c)
	return c
}

// limitAnswers limits how long a server has for an answer that comes at once from others, and makes the error of
// any that did not come in time name the method. Calls and the start as a whole have limits of their own.
func limitAnswers(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		limit := time.Duration(0)
		switch method {
		case "server/discover":
			limit = discoverTimeout
		case "tools/list", "prompts/list":
			limit = listTimeout
		}
		if limit > 0 {
			var cancel func()
			ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w after %s", context.DeadlineExceeded, limit))
			defer cancel()
		}
		result, err := next(ctx, method, r)
		if err != nil && ctx.Err() != nil {
			return nil, fmt.Errorf("it does not answer %s: %w", method, context.Cause(ctx))
		}
		return result, err
	}
}

// onProgress passes a progress notification to the caller of the tool, outside of mu. Notifications
// with an unknown token are dropped: their call has ended, or the server made the token up.
func (s *server) onProgress(p *sdk.ProgressNotificationParams) {
	if p == nil {
		return
	}
	token, _ := p.ProgressToken.(string)
	s.mu.Lock()
	tell := s.calls[token].tell
	s.mu.Unlock()
	if tell != nil {
		tell(community.Progress{Message: oneLine(p.Message), Done: p.Progress, Total: p.Total})
	}
}

// trackProgress registers tell for the progress of a call and returns the call's progress token,
// which is unique for the server. The caller must call over when the call has ended. tell may still
// be called once after over has returned. It returns ErrNotReady if maxCalls calls run already.
func (s *server) trackProgress(ctx context.Context, tell func(community.Progress)) (token string, over func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) >= maxCalls {
		return "", nil, fmt.Errorf("%w: %d calls of %s run already", ErrNotReady, maxCalls, s.Name)
	}
	s.number++
	token = fmt.Sprintf("call-%d", s.number)
	s.calls[token] = runningCall{ctx, s.number, tell}
	return token, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, token)
	}, nil
}

// requestStart asks run to connect. It does not block. It does nothing if the server is starting or
// ready, cannot be started, or failed so recently that its delay has not passed.
func (s *server) requestStart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Problem != "" || s.Disabled || s.stopped || s.state != Stopped && (s.state != Failed || time.Now().Before(s.retryAt)) {
		return
	}
	select {
	case s.startRequested <- struct{}{}:
		s.startedAt = time.Now()
		s.setState(Starting, "")
	default:
	}
}

// awaitStart returns when the server is not Starting any more, or when ctx ends; it does not say
// which. If first is true, it does not wait for a server that was ready or failed before: such a
// server may take long, and its tools are known.
func (s *server) awaitStart(ctx context.Context, first bool) {
	for {
		s.mu.Lock()
		// changed is read together with the state, so that no change between the two is missed.
		wait, changed := s.state == Starting && !(first && s.attempted), s.changed
		s.mu.Unlock()
		if !wait {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// awaitTurn is awaitStart for a turn of an agent. It returns at most turnWait after the beginning of the start, so that
// later turns do not wait again, and the agent gets the tools in a later turn; with wait, when the start has ended. A start
// that takes longer than turnWait is reported once.
func (s *server) awaitTurn(ctx context.Context, wait bool) {
	s.mu.Lock()
	limit := turnWait
	if wait {
		limit = s.m.cfg.StartTimeout + listInterval // the start ends before
	}
	short, cancel := context.WithDeadline(ctx, s.startedAt.Add(limit))
	s.mu.Unlock()
	defer cancel()
	s.awaitStart(short, true)
	s.mu.Lock()
	slow := s.state == Starting && !s.attempted && s.reason == "" && ctx.Err() == nil
	if slow {
		s.setState(Starting, "it is still starting; its tools come with the next turn after it is ready")
	}
	s.mu.Unlock()
	if slow {
		s.m.cfg.Report(s.status())
	}
}

// missingOf returns why an agent lacks tools of the server that it should have; "" if it lacks none. A server that is
// disabled, or that no person trusts, has no tools to lack.
func missingOf(s *server) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.Problem != "" || s.Disabled || s.state == Ready || len(s.tools) > 0:
	case s.attempted:
		return "does not start"
	case s.state == Starting:
		return tool.Starting
	}
	return ""
}

// session returns the current connection. It starts the server and waits for it if necessary. It
// returns ErrNotReady with the reason and the time of the next attempt, or the cause of ctx.
func (s *server) session(ctx context.Context) (*sdk.ClientSession, error) {
	s.requestStart()
	s.awaitStart(ctx, false)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return s.current, nil
	}
	why := s.reason
	if s.state == Failed && s.Problem == "" {
		why += "; it is tried again"
		if wait := time.Until(s.retryAt).Round(time.Second); wait > 0 {
			why += fmt.Sprintf(" in %s", wait)
		}
	}
	return nil, fmt.Errorf("%w: %s: %s", ErrNotReady, s.Name, strings.TrimSpace(why))
}

// setReady stores a new connection and reports it.
func (s *server) setReady(session *sdk.ClientSession) {
	s.mu.Lock()
	s.current = session
	s.setState(Ready, "")
	s.mu.Unlock()
	s.m.cfg.Report(s.status())
}

// setDisconnected stores a state in which there is no connection, and reports it. requestStart does
// nothing before retry.
func (s *server) setDisconnected(state State, why string, retry time.Time) {
	s.mu.Lock()
	s.current, s.retryAt = nil, retry
	s.setState(state, why)
	s.mu.Unlock()
	s.m.cfg.Report(s.status())
}

// stop marks the server as stopped for good and reports why. It does not end a connection: connect
// has done that when run calls it.
func (s *server) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	why := "this node ends"
	select {
	case <-s.retired:
		why = "its entry in " + s.File + " has been changed, or taken out"
	default:
	}
	s.setDisconnected(Stopped, why, time.Time{})
}

// retire ends the server because its entry was removed or changed. Call it once.
func (s *server) retire() {
	close(s.retired)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

// isStopped reports whether the server is not started any more.
func (s *server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// setLine stores the line of the entry, which moves when the file is edited.
func (s *server) setLine(line int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = line
}

// setState stores a state and wakes all goroutines that wait for a change. Call it with mu held.
func (s *server) setState(state State, why string) {
	s.state, s.reason = state, why
	s.attempted = s.attempted || state == Ready || state == Failed
	close(s.changed)
	s.changed = make(chan struct{})
}

// status returns a snapshot of the server's state.
func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Status{Server: s.Server, State: s.state, Why: s.reason, Tools: len(s.tools), Notes: s.notes}
	now.Server.Line = s.line
	for _, t := range s.tools {
		now.Names = append(now.Names, t.spec.Name)
	}
	return now
}

// offered returns the tools of a server that is ready, or was ready and is reconnecting. The slice
// is replaced and never written to.
func (s *server) offered() []*Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}

// shortError returns the text of an error that may quote the server: printable and at most about
// maxQuoted bytes long.
func shortError(err error) string { return tool.Shorten(tool.Readable([]byte(err.Error())), maxQuoted) }

// cause returns the cause of ctx if ctx has ended and err does not have it, else err. The cause names
// the real reason, such as a timeout, where err only says that the context was canceled.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		return context.Cause(ctx)
	}
	return err
}
