package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/tool"
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
)

// server is a configured server across all its connections. Its goroutine, run, connects and
// reconnects; all other methods may be called from any goroutine. No mutex is held during I/O, or
// while Config.Report or Config.Pins is called.
type server struct {
	entry Server
	m     *Manager

	// listChanged holds a token when the server has reported that its lists changed. Several
	// reports make one token.
	listChanged chan struct{}
	// removed ends when the entry is gone; remove ends it.
	removed context.Context
	remove  context.CancelFunc

	connection connection
	calls      runningCalls

	// mu guards the fields below.
	mu sync.Mutex
	// line is the line of the entry in its file. entry.Line keeps the first one.
	line int
	// tools are the tools of the last list. They stay while the server reconnects, so that a short
	// failure does not take tools from a model.
	tools []*Tool
	// notes say what the last list left out.
	notes []string
}

// newServer returns a server that is Stopped, or Failed if its entry has a problem.
func newServer(m *Manager, s Server) *server {
	state, why := Stopped, ""
	switch {
	case s.Problem != "":
		state, why = Failed, s.Problem
	case s.Disabled:
		why = "it is disabled in its file"
	}
	removed, remove := context.WithCancel(context.Background())
	return &server{entry: s, m: m, listChanged: make(chan struct{}, 1), removed: removed, remove: remove, line: s.Line,
		calls:      runningCalls{byToken: map[string]runningCall{}},
		connection: connection{startRequested: make(chan struct{}, 1), now: connectionState{state: state, reason: why, changed: make(chan struct{})}}}
}

// run connects when a start is requested, and reconnects when a connection is lost, until ctx ends
// or the entry is removed. A server that was ready is reconnected at once after the delay. One that
// never was ready waits for the next request, so that a broken server does not restart for ever.
func (s *server) run(ctx context.Context) {
	defer s.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.removed, cancel)()
	// failures counts the attempts since the server last worked for a while; it determines the
	// delay.
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.connection.startRequested:
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
			s.m.cfg.Logger.Warn("mcp server lost", "server", s.entry.Name, "err", err)
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
	l, err := s.m.open(ctx, s.entry)
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
	s.connection.setReady(session)
	s.report()
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
			return cmp.Or(err, errors.New("it ended the connection"))
		case <-ctx.Done():
			// Close ends session.Wait, and so the goroutine above.
			session.Close()
			return ctx.Err()
		case <-s.listChanged:
		}
		// A failed list is logged and no reason to end the session: the earlier tools stay.
		listing, cancel := context.WithTimeout(ctx, s.m.cfg.StartTimeout)
		if err := s.list(listing, session); err != nil {
			s.m.cfg.Logger.Warn("mcp server's changed tools not read", "server", s.entry.Name, "err", err)
		} else {
			s.report()
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
		CreateMessageHandler: s.sample,
		ElicitationHandler:   s.elicit,
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case s.listChanged <- struct{}{}:
			default:
			}
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { s.calls.onProgress(r.Params) },
	})
	addRoot(c)
	return c
}

// limitAnswers limits how long a server has for an answer that comes at once from others, and makes the error of
// any that did not come in time name the method. Calls and the start as a whole have limits of their own.
func limitAnswers(next sdk.MethodHandler) sdk.MethodHandler {
	limits := map[string]time.Duration{"server/discover": discoverTimeout, "tools/list": listTimeout, "prompts/list": listTimeout}
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		if limit := limits[method]; limit > 0 {
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

// requestStart asks run to connect, unless the server cannot be started: see connection.requestStart.
func (s *server) requestStart() {
	if s.entry.Problem == "" && !s.entry.Disabled {
		s.connection.requestStart()
	}
}

// awaitTurn waits for a turn of an agent until the server has started, but at most turnWait after the beginning of the start, so
// that later turns do not wait again, and the agent gets the tools in a later turn; with wait, until the start has ended. A start
// that takes longer than turnWait is reported once.
func (s *server) awaitTurn(ctx context.Context, wait bool) {
	limit := turnWait
	if wait {
		limit = s.m.cfg.StartTimeout + listInterval // the start ends before
	}
	if s.connection.awaitTurn(ctx, limit) {
		s.report()
	}
}

// missing returns why an agent lacks tools of the server that it should have; "" if it lacks none. A server that is
// disabled, or that no person trusts, has no tools to lack.
func (s *server) missing() string {
	now := s.connection.state()
	switch {
	case s.entry.Problem != "" || s.entry.Disabled || now.state == Ready || len(s.offered()) > 0:
	case now.attempted:
		return "does not start"
	case now.state == Starting:
		return tool.Starting
	}
	return ""
}

// session returns the current connection. It starts the server and waits for it if necessary. It
// returns ErrNotReady with the reason and the time of the next attempt, or the cause of ctx.
func (s *server) session(ctx context.Context) (*sdk.ClientSession, error) {
	s.requestStart()
	s.connection.awaitStart(ctx, false)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	now := s.connection.state()
	if now.session != nil {
		return now.session, nil
	}
	why := now.reason
	if now.state == Failed && s.entry.Problem == "" {
		why += "; it is tried again"
		if wait := time.Until(now.retryAt).Round(time.Second); wait > 0 {
			why += fmt.Sprintf(" in %s", wait)
		}
	}
	return nil, fmt.Errorf("%w: %s: %s", ErrNotReady, s.entry.Name, strings.TrimSpace(why))
}

// setDisconnected stores a state in which there is no connection, and reports it. requestStart does
// nothing before retry.
func (s *server) setDisconnected(state State, why string, retry time.Time) {
	s.connection.setDisconnected(state, why, retry)
	s.report()
}

// stop marks the server as stopped for good and reports why. It does not end a connection: connect
// has done that when run calls it.
func (s *server) stop() {
	s.connection.forbidStart()
	why := "this node ends"
	if s.removed.Err() != nil {
		why = "its entry in " + s.entry.File + " has been changed, or taken out"
	}
	s.setDisconnected(Stopped, why, time.Time{})
}

// retire ends the server because its entry was removed or changed. Call it once.
func (s *server) retire() {
	s.remove()
	s.connection.forbidStart()
}

// setLine stores the line of the entry, which moves when the file is edited.
func (s *server) setLine(line int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = line
}

// report passes the server's state to Config.Report.
func (s *server) report() { s.m.cfg.Report(s.status()) }

// status returns a snapshot of the server's state.
func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	connection := s.connection.state()
	now := Status{Server: s.entry, State: connection.state, Why: connection.reason, Tools: len(s.tools), Notes: s.notes}
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
