package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// taskIDPrefix begins the ids of the requests that a taskConn sends itself. The SDK uses numbers as
// ids, so that the two never collide.
const taskIDPrefix = "task-"

// withTasks returns a transport that makes calls of tools that require tasks as tasks, which the
// SDK does not support (specification 2025-11-25, basic/utilities/tasks). It returns a streamable
// HTTP transport unchanged: the SDK passes the negotiated protocol version only to its own
// connection type, and a wrapper would lose the stream of server messages.
func withTasks(t sdk.Transport) sdk.Transport {
	if _, http := t.(*sdk.StreamableClientTransport); http {
		return t
	}
	return taskTransport{t}
}

// taskTransport wraps the connections of a transport in taskConn.
type taskTransport struct{ sdk.Transport }

func (t taskTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	inner, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return newTaskConn(inner), nil
}

// taskConn is a connection on which the SDK sees a call and its response, where the server sees a
// call, a task, status requests and a result. pump is the only reader of the inner connection.
// Close ends all goroutines that a taskConn starts.
type taskConn struct {
	sdk.Connection
	ctx context.Context // its cause is why there is nothing more to read
	end context.CancelCauseFunc
	in  chan jsonrpc.Message // to the SDK: what the server sent, and what is said in its place
	wg  sync.WaitGroup

	mu       sync.Mutex
	opening  jsonrpc.ID                              // of initialize; guarded by mu
	listings map[jsonrpc.ID]bool                     // questions for the tools; guarded by mu
	offer    taskOffer                               // of the server; guarded by mu
	required map[string]bool                         // the tools that have to be tasks; guarded by mu
	calls    map[jsonrpc.ID]*taskCall                // by the SDK's id; guarded by mu
	pending  map[jsonrpc.ID]chan<- *jsonrpc.Response // guarded by mu
	number   int                                     // of the last question; guarded by mu
}

// taskOffer is what a server supports of tasks, from its response to initialize.
type taskOffer struct {
	Cancel   *struct{} `json:"cancel"`
	Requests struct {
		Tools struct {
			Call *struct{} `json:"call"`
		} `json:"tools"`
	} `json:"requests"`
}

// newTaskConn wraps inner and starts to read from it.
func newTaskConn(inner sdk.Connection) *taskConn {
	c := &taskConn{
		Connection: inner, in: make(chan jsonrpc.Message),
		listings: map[jsonrpc.ID]bool{}, required: map[string]bool{},
		calls: map[jsonrpc.ID]*taskCall{}, pending: map[jsonrpc.ID]chan<- *jsonrpc.Response{},
	}
	c.ctx, c.end = context.WithCancelCause(context.Background()) // its life is the connection's, which ends with Close
	c.wg.Go(c.pump)
	return c
}

// Read returns the next message for the SDK. It returns the cause of the end when the connection
// has ended.
func (c *taskConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.in:
		return m, nil
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close closes the connection and waits for its goroutines.
func (c *taskConn) Close() error {
	c.end(io.EOF)
	err := c.Connection.Close()
	c.wg.Wait()
	return err
}

// pump reads the server's messages and passes on those that handle does not consume. It runs in a
// goroutine of its own, because a status response must be read even while the SDK does not call
// Read.
func (c *taskConn) pump() {
	for {
		m, err := c.Connection.Read(c.ctx)
		if err != nil {
			c.end(err)
			return
		}
		if c.handle(m) {
			c.deliver(m)
		}
	}
}

// deliver gives a message to the SDK. It blocks until the SDK reads it or the connection ends.
func (c *taskConn) deliver(m jsonrpc.Message) {
	select {
	case c.in <- m:
	case <-c.ctx.Done():
	}
}

// Write sends a message of the SDK. It turns a call of a tool that requires a task into a task, and
// remembers the requests whose responses handleResponse needs.
func (c *taskConn) Write(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Request)
	if !ok {
		return c.Connection.Write(ctx, m)
	}
	switch r.Method {
	case "initialize":
		c.mu.Lock()
		c.opening = r.ID
		c.mu.Unlock()
	case "tools/list":
		c.mu.Lock()
		c.listings[r.ID] = true
		c.mu.Unlock()
	case "tools/call":
		r = c.startTask(ctx, r)
	case "notifications/cancelled":
		r = c.cancelCall(r)
	}
	err := c.Connection.Write(ctx, r)
	if err != nil {
		c.forget(r.ID)
	}
	return err
}

// handle looks at a message of the server. pass is false if it is about a task and not for the SDK.
func (c *taskConn) handle(m jsonrpc.Message) (pass bool) {
	switch m := m.(type) {
	case *jsonrpc.Response:
		return c.handleResponse(m)
	case *jsonrpc.Request:
		if m.ID.IsValid() {
			return true
		}
		switch m.Method {
		case "notifications/tasks/status":
			c.onTaskStatus(m.Params)
			return false
		case "notifications/progress":
			c.onProgress(m.Params)
		}
	}
	return true
}

// handleResponse looks at a response of the server: to a request of this taskConn, to a call that
// became a task, to a list of tools, or to initialize. pass is false for the first two, which are
// not for the SDK.
func (c *taskConn) handleResponse(r *jsonrpc.Response) (pass bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text, ok := r.ID.Raw().(string); ok && strings.HasPrefix(text, taskIDPrefix) {
		if to, ok := c.pending[r.ID]; ok {
			delete(c.pending, r.ID)
			to <- r // it has room for one
		}
		return false
	}
	if call, ok := c.calls[r.ID]; ok {
		switch {
		case call.created: // a second answer: the one that counts comes from here
		case r.Error != nil:
			delete(c.calls, r.ID)
			call.stop()
			return true
		default:
			call.created = true
			c.wg.Go(func() { c.finishCall(call, r.Result) })
		}
		return false
	}
	if c.listings[r.ID] {
		delete(c.listings, r.ID)
		c.recordTaskTools(r.Result)
	}
	if c.opening.IsValid() && r.ID == c.opening {
		var result struct {
			Capabilities struct {
				Tasks taskOffer `json:"tasks"`
			} `json:"capabilities"`
		}
		if json.Unmarshal(r.Result, &result) == nil {
			c.offer = result.Capabilities.Tasks
		}
	}
	return true
}

// recordTaskTools records which tools of a page require tasks. Call it with mu held. A page speaks
// only about its own tools, so others stay as they are.
func (c *taskConn) recordTaskTools(result json.RawMessage) {
	var page struct {
		Tools []struct {
			Name      string `json:"name"`
			Execution struct {
				TaskSupport string `json:"taskSupport"`
			} `json:"execution"`
		} `json:"tools"`
	}
	if json.Unmarshal(result, &page) != nil {
		return
	}
	for _, t := range page.Tools {
		delete(c.required, t.Name)
		if t.Execution.TaskSupport == "required" && len(c.required) < maxTools {
			c.required[t.Name] = true
		}
	}
}

// roundTrip sends a request about a task and waits for the response. A refusal by the server is a
// response; an error means that there is no response.
func (c *taskConn) roundTrip(ctx context.Context, method, task string) (*jsonrpc.Response, error) {
	r, err := c.newRequest(method, task)
	if err != nil {
		return nil, err
	}
	answer := make(chan *jsonrpc.Response, 1)
	c.mu.Lock()
	c.pending[r.ID] = answer
	c.mu.Unlock()
	defer c.forget(r.ID)
	if err := c.Connection.Write(ctx, r); err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// newRequest returns a request about a task, with an unused id.
func (c *taskConn) newRequest(method, task string) (*jsonrpc.Request, error) {
	params, err := json.Marshal(map[string]string{"taskId": task})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	id, err := jsonrpc.MakeID(fmt.Sprintf("%s%d", taskIDPrefix, c.number))
	return &jsonrpc.Request{ID: id, Method: method, Params: params}, err
}

// forget removes what is registered for id, because its response will not come or is not needed.
func (c *taskConn) forget(id jsonrpc.ID) {
	if !id.IsValid() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
	delete(c.listings, id)
	if call, ok := c.calls[id]; ok {
		delete(c.calls, id)
		call.stop()
	}
}

// remaining returns the time until the deadline of ctx, or defaultTaskTTL if ctx has none.
func remaining(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(time.Until(deadline), 0)
	}
	return defaultTaskTTL
}
