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

// taskTransport wraps the connections of a transport in taskConn. The wrapped transport is used for
// one connection, like every transport of the SDK.
type taskTransport struct{ sdk.Transport }

// Connect opens a connection and starts the goroutine that reads from it. It ends with Close.
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
	// ctx is the life of the connection. Its cause is why there is nothing more to read.
	ctx context.Context
	end context.CancelCauseFunc
	// in has the messages for the SDK: those of the server, and those that stand in for them. It
	// has no buffer, so that a server cannot fill the memory faster than the SDK reads.
	in chan jsonrpc.Message
	// wg counts pump and the goroutines of finishCall.
	wg sync.WaitGroup

	// mu guards the fields below. It is never held during I/O.
	mu sync.Mutex
	// opening is the id of the initialize request, whose response has the server's offer.
	opening jsonrpc.ID
	// listings are the ids of the tools/list requests without a response.
	listings map[jsonrpc.ID]bool
	// offer is what the server supports; the zero value until it has answered initialize.
	offer taskOffer
	// required has the names of the tools that must be called as tasks, at most maxTools.
	required map[string]bool
	// calls are the calls that became tasks, by the id of the SDK's request.
	calls map[jsonrpc.ID]*taskCall
	// pending has the channel for the response to each request of this taskConn. Each has room for
	// one value, so that pump never blocks on it.
	pending map[jsonrpc.ID]chan<- *jsonrpc.Response
	// number is the number in the id of the last request of this taskConn.
	number int
}

// taskOffer is what a server supports of tasks, from its response to initialize
// (capabilities.tasks). A nil pointer means that the server does not support it.
type taskOffer struct {
	// Cancel is about tasks/cancel.
	Cancel   *struct{} `json:"cancel"`
	Requests struct {
		Tools struct {
			// Call is about tools/call as a task.
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
	// The connection lives longer than the context of Connect. Close ends it.
	c.ctx, c.end = context.WithCancelCause(context.Background())
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

// Close closes the connection and waits for its goroutines. Calls that wait for a task get no
// response; the SDK ends them itself when Read fails.
func (c *taskConn) Close() error {
	// end comes first: it frees a goroutine that is blocked in deliver.
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
		if m = mended(m); c.handle(m) {
			c.deliver(m)
		}
	}
}

// deliver gives a message to the SDK. It blocks until the SDK reads it or the connection ends; then
// the message is dropped. Do not call it with mu held.
func (c *taskConn) deliver(m jsonrpc.Message) {
	select {
	case c.in <- m:
	case <-c.ctx.Done():
	}
}

// Write sends a message of the SDK. It turns a call of a tool that requires a task into a task, and
// remembers the requests whose responses handleResponse needs. The SDK may call it from several
// goroutines.
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
// Only pump calls it. It must not block, or no response would be read any more.
func (c *taskConn) handle(m jsonrpc.Message) (pass bool) {
	switch m := m.(type) {
	case *jsonrpc.Response:
		return c.handleResponse(m)
	case *jsonrpc.Request:
		// A request of the server. The SDK answers it.
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
			// The channel has room for one response, and the request is not pending any more, so
			// this never blocks.
			to <- r
		}
		// Responses with this prefix are never for the SDK. One whose request was given up is
		// dropped.
		return false
	}
	if call, ok := c.calls[r.ID]; ok {
		switch {
		// A second response to the same request. The SDK gets the response of finishCall.
		case call.created:
		// The server has refused the task. The SDK gets the refusal.
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
// response; an error means that there is no response: the write failed or ctx ended. It does not
// watch the connection: ctx must end with it, as that of a taskCall does.
func (c *taskConn) roundTrip(ctx context.Context, method, task string) (*jsonrpc.Response, error) {
	r, err := c.newRequest(method, task)
	if err != nil {
		return nil, err
	}
	answer := make(chan *jsonrpc.Response, 1)
	c.mu.Lock()
	// Registered before the write, because the response may come before Write returns.
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

// newRequest returns a request about a task, with an unused id. It does not send it and expects no
// response: roundTrip registers that.
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
