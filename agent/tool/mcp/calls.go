package mcp

import (
	"context"
	"fmt"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/tool"
	"symbio/community"
)

// maxCalls limits the calls of a server that run at a time. Agents make fewer; the limit bounds
// the memory that a hanging server holds.
const maxCalls = 256

// runningCalls are the calls of a server's tools that run. Methods may be called from any goroutine.
type runningCalls struct {
	// asking is held while a request of the server is answered.
	asking sync.Mutex

	// mu guards the fields below.
	mu sync.Mutex
	// byToken has the calls by their progress tokens.
	byToken map[string]runningCall
	// number is the number of the last progress token.
	number int
}

// runningCall is a call of a tool: its context and number, and the function for its progress.
type runningCall struct {
	ctx    context.Context
	number int
	tell   func(community.Progress)
}

// add registers tell for the progress of a call and returns the call's progress token,
// which is unique for the server. The caller must call over when the call has ended. tell may still
// be called once after over has returned. It returns ErrNotReady if maxCalls calls of the server run already.
func (r *runningCalls) add(ctx context.Context, server string, tell func(community.Progress)) (token string, over func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byToken) >= maxCalls {
		return "", nil, fmt.Errorf("%w: %d calls of %s run already", ErrNotReady, maxCalls, server)
	}
	r.number++
	token = fmt.Sprintf("call-%d", r.number)
	r.byToken[token] = runningCall{ctx, r.number, tell}
	return token, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.byToken, token)
	}, nil
}

// onProgress passes a progress notification to the caller of the tool, outside of mu. Notifications
// with an unknown token are dropped: their call has ended, or the server made the token up.
func (r *runningCalls) onProgress(p *sdk.ProgressNotificationParams) {
	if p == nil {
		return
	}
	token, _ := p.ProgressToken.(string)
	r.mu.Lock()
	tell := r.byToken[token].tell
	r.mu.Unlock()
	if tell != nil {
		tell(community.Progress{Message: oneLine(p.Message), Done: p.Progress, Total: p.Total})
	}
}

// find returns the context of the call that a request of the server belongs to; nil if none runs. A request that does not say
// so belongs to the call that began last.
func (r *runningCalls) find(request context.Context) (call context.Context) {
	if tool.AgentOf(request) != "" {
		return request
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := 0
	for _, c := range r.byToken {
		if c.number > last {
			last, call = c.number, c.ctx
		}
	}
	return call
}

// haveSeveralAgents reports whether calls of several agents run.
func (r *runningCalls) haveSeveralAgents() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	agents := map[string]bool{}
	for _, c := range r.byToken {
		agents[tool.AgentOf(c.ctx)] = true
	}
	return len(agents) > 1
}

// beginAnswer waits until no other request of the server is answered. It returns a context that ends with the call and
// with the request, and a function that the caller must call when the request is answered.
func (r *runningCalls) beginAnswer(request, call context.Context) (context.Context, func()) {
	r.asking.Lock()
	call, cancel := context.WithCancel(call)
	stop := context.AfterFunc(request, cancel)
	return call, func() { stop(); cancel(); r.asking.Unlock() }
}
