package mcp

import (
	"cmp"
	"context"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// connection starts a server's connection and knows its state. Methods may be called from any goroutine.
type connection struct {
	// startRequested holds a token when a start is requested. Only server.run receives from it.
	startRequested chan struct{}

	mu  sync.Mutex
	now connectionState // guarded by mu
}

// connectionState says whether there is a connection, why there is none, and when the next attempt may begin.
type connectionState struct {
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
	// session is the open connection; nil unless the state is Ready.
	session *sdk.ClientSession
}

// set stores a state and wakes all goroutines that wait for a change.
func (s *connectionState) set(state State, why string) {
	s.state, s.reason = state, why
	s.attempted = s.attempted || state == Ready || state == Failed
	close(s.changed)
	s.changed = make(chan struct{})
}

// state returns the present state.
func (c *connection) state() connectionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// requestStart asks server.run to connect. It does not block. It does nothing if the server is starting or
// ready, is stopped for good, or failed so recently that its delay has not passed.
func (c *connection) requestStart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now.stopped || c.now.state != Stopped && (c.now.state != Failed || time.Now().Before(c.now.retryAt)) {
		return
	}
	select {
	case c.startRequested <- struct{}{}:
		c.now.startedAt = time.Now()
		c.now.set(Starting, "")
	default:
	}
}

// forbidStart makes requestStart do nothing from now on.
func (c *connection) forbidStart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.stopped = true
}

// awaitStart returns when the server is not Starting any more, or when ctx ends; it does not say
// which. If first is true, it does not wait for a server that was ready or failed before: such a
// server may take long, and its tools are known.
func (c *connection) awaitStart(ctx context.Context, first bool) {
	for {
		now := c.state()
		if now.state != Starting || first && now.attempted {
			return
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			return
		}
	}
}

// awaitTurn is awaitStart until limit after the beginning of the start. It reports whether the start takes longer, only once
// for a start.
func (c *connection) awaitTurn(ctx context.Context, limit time.Duration) (slow bool) {
	short, cancel := context.WithDeadline(ctx, c.state().startedAt.Add(limit))
	defer cancel()
	c.awaitStart(short, true)
	c.mu.Lock()
	defer c.mu.Unlock()
	slow = c.now.state == Starting && !c.now.attempted && c.now.reason == "" && ctx.Err() == nil
	if slow {
		c.now.set(Starting, "it is still starting; its tools come with the next turn after it is ready")
	}
	return slow
}

// setReady stores a new connection.
func (c *connection) setReady(session *sdk.ClientSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.session = session
	c.now.set(Ready, "")
}

// setDisconnected stores a state in which there is no connection. requestStart does nothing before retry.
func (c *connection) setDisconnected(state State, why string, retry time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.session, c.now.retryAt = nil, retry
	c.now.set(state, why)
}

// disconnectReason returns why a connection was lost, and whether it was. It waits for run to record the reason, until
// ctx ends, because the error of the call only says that the connection is closed. It does not wait
// if another connection has taken its place.
func (c *connection) disconnectReason(ctx context.Context, session *sdk.ClientSession, err error) (why string, lost bool) {
	for {
		now := c.state()
		if now.session != session {
			return cmp.Or(now.reason, shortError(err)), true
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			return shortError(err), false
		}
	}
}
