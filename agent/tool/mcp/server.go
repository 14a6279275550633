package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/actor/backoff"
	"symbio/agent/tool"
	"symbio/community"
)

const (
	// minRetryDelay and maxRetryDelay are between tries to connect; each is twice the one before.
	minRetryDelay = time.Second
	maxRetryDelay = time.Minute
	// listInterval is between two looks at lists that a server says have changed.
	listInterval = time.Second
	// turnWait is how long a turn waits for a server that starts: as long as most take that are on the disk.
	turnWait = 3 * time.Second
	// maxCalls of a server run at a time; more than agents make, and few enough that progress is found quickly.
	maxCalls = 256
)

// server is one server, over its connections.
type server struct {
	Server
	m *Manager

	startRequested chan struct{} // somebody needs it
	listChanged    chan struct{} // it says that its lists have changed
	retired        chan struct{} // closed when its entry is there no more

	mu        sync.Mutex
	line      int                                 // of its entry; guarded by mu
	state     State                               // guarded by mu
	reason    string                              // guarded by mu
	stopped   bool                                // it is not started any more; guarded by mu
	attempted bool                                // it was ready, or failed, once; guarded by mu
	startedAt time.Time                           // it was wanted first, or again; guarded by mu
	retryAt   time.Time                           // of a failed one, before which it is not tried again; guarded by mu
	changed   chan struct{}                       // closed at each change of state; guarded by mu
	current   *sdk.ClientSession                  // nil = not ready; guarded by mu
	tools     []*Tool                             // also of one that is being connected again; guarded by mu
	notes     []string                            // guarded by mu
	calls     map[string]func(community.Progress) // who hears of the progress of a call; guarded by mu
	number    int                                 // of the last call; guarded by mu
}

func newServer(m *Manager, s Server) *server {
	one := &server{Server: s, m: m, startRequested: make(chan struct{}, 1), listChanged: make(chan struct{}, 1), retired: make(chan struct{}), line: s.Line, changed: make(chan struct{}), state: Stopped, calls: map[string]func(community.Progress){}}
	switch {
	case s.Problem != "":
		one.state, one.reason = Failed, s.Problem
	case s.Disabled:
		one.reason = "it is disabled in its file"
	}
	return one
}

// run connects when it is wanted, and again when the connection is lost, until ctx ends or the entry is there no more.
func (s *server) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
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
			if ready && time.Since(began) > maxRetryDelay {
				failures = 0 // it was well for a while
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
			if again = ready; again { // one that never was ready waits until somebody needs it
				s.setDisconnected(Starting, "", time.Time{})
			}
		}
	}
}

// connect talks to the server until the connection ends. ready says that it was.
func (s *server) connect(parent context.Context) (ready bool, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
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
		l.end() // what it says at its end is said then
		if said := l.stderr(); said != "" {
			text += "; its program said: " + tool.Shorten(strings.Join(strings.Fields(said), " "), maxQuoted)
		}
		return errors.New(text)
	}
	session, err := s.client().Connect(ctx, withTasks(l.transport), nil)
	if err != nil {
		return false, fail(fmt.Errorf("the handshake: %w", err))
	}
	defer session.Close() // the transport's error is of no interest at the end
	if err := s.list(ctx, session); err != nil {
		return false, fail(fmt.Errorf("its tools: %w", err))
	}
	if !timer.Stop() {
		return false, fail(context.Cause(ctx))
	}
	s.setReady(session)
	l.hint = "" // it was not that
	return true, fail(s.serve(ctx, session))
}

// serve looks at the lists when they change, until the session ends.
func (s *server) serve(ctx context.Context, session *sdk.ClientSession) error {
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
			session.Close() // ends Wait
			return ctx.Err()
		case <-s.listChanged:
		}
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

func (s *server) client() *sdk.Client {
	return sdk.NewClient(&sdk.Implementation{Name: "symbio", Version: s.m.cfg.Version}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{}, // it may ask nothing of us
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case s.listChanged <- struct{}{}:
			default:
			}
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { s.onProgress(r.Params) },
	})
}

// onProgress tells whoever made the call.
func (s *server) onProgress(p *sdk.ProgressNotificationParams) {
	if p == nil {
		return
	}
	token, _ := p.ProgressToken.(string)
	s.mu.Lock()
	tell := s.calls[token]
	s.mu.Unlock()
	if tell != nil {
		tell(community.Progress{Message: oneLine(p.Message), Done: p.Progress, Total: p.Total})
	}
}

// trackProgress has tell hear of the progress of a call, until the call is over.
func (s *server) trackProgress(tell func(community.Progress)) (token string, over func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) >= maxCalls {
		return "", nil, fmt.Errorf("%w: %d calls of %s run already", ErrNotReady, maxCalls, s.Name)
	}
	s.number++
	token = fmt.Sprintf("call-%d", s.number)
	s.calls[token] = tell
	return token, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, token)
	}, nil
}

// requestStart has it started, unless it runs, cannot, or failed just now.
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

// awaitStart waits until the server does not start any more; with first only if it never was there or failed.
func (s *server) awaitStart(ctx context.Context, first bool) {
	for {
		s.mu.Lock()
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

// awaitStartBriefly is settle for a turn of an agent, which a server that takes long does not hold up: that is reported, once,
// and its tools come with a later turn.
func (s *server) awaitStartBriefly(ctx context.Context) {
	s.mu.Lock()
	short, cancel := context.WithDeadline(ctx, s.startedAt.Add(turnWait))
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

// session is the connection, once it is ready.
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

func (s *server) setReady(session *sdk.ClientSession) {
	s.mu.Lock()
	s.current = session
	s.setState(Ready, "")
	s.mu.Unlock()
	s.m.cfg.Report(s.status())
}

// setDisconnected notes a state without a connection.
func (s *server) setDisconnected(state State, why string, retry time.Time) {
	s.mu.Lock()
	s.current, s.retryAt = nil, retry
	s.setState(state, why)
	s.mu.Unlock()
	s.m.cfg.Report(s.status())
}

// stop notes that the server is not started any more.
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

// retire ends the server: its entry is there no more. It is called once.
func (s *server) retire() {
	close(s.retired)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

// isStopped says that it is not started any more.
func (s *server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// setLine notes where its entry stands now.
func (s *server) setLine(line int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = line
}

// setState is called with mu held.
func (s *server) setState(state State, why string) {
	s.state, s.reason = state, why
	s.attempted = s.attempted || state == Ready || state == Failed
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Status{Server: s.Server, State: s.state, Why: s.reason, Tools: len(s.tools), Notes: s.notes}
	now.Server.Line = s.line
	return now
}

// offered are the tools of a server that is ready, or was and will be again.
func (s *server) offered() []*Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}

// shortError is an error that may have a server's words in it.
func shortError(err error) string { return tool.Shorten(tool.Readable([]byte(err.Error())), maxQuoted) }

func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
