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

// taskIDPrefix begin the ids of what a taskConn asks. The SDK's are numbers, so that the two are never the same.
const taskIDPrefix = "task-"

// withTasks has the calls of tools that have to be tasks made as tasks, which the SDK cannot (specification 2025-11-25,
// basic/utilities/tasks). Streamable HTTP stays as it is: there the SDK tells its own connection alone what was agreed on
// in the handshake, and another around it would lose the stream of what the server says unasked.
func withTasks(t sdk.Transport) sdk.Transport {
	if _, http := t.(*sdk.StreamableClientTransport); http {
		return t
	}
	return taskTransport{t}
}

type taskTransport struct{ sdk.Transport }

func (t taskTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	inner, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return newTaskConn(inner), nil
}

// taskConn is a connection on which the SDK sees a call and its answer where the server sees a call, a task, questions
// about the task and its result. All that it starts ends in Close.
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

// taskOffer is what a server can do with tasks, in its answer to initialize.
type taskOffer struct {
	Cancel   *struct{} `json:"cancel"`
	Requests struct {
		Tools struct {
			Call *struct{} `json:"call"`
		} `json:"tools"`
	} `json:"requests"`
}

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

// Read returns what is for the SDK.
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

// Close ends the connection and waits for what it started.
func (c *taskConn) Close() error {
	c.end(io.EOF)
	err := c.Connection.Close()
	c.wg.Wait()
	return err
}

// pump reads what the server says, also while the SDK is told something else.
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

// deliver tells the SDK.
func (c *taskConn) deliver(m jsonrpc.Message) {
	select {
	case c.in <- m:
	case <-c.ctx.Done():
	}
}

// Write sends what the SDK says; a call of a tool that has to be a task as a task.
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

// handle takes what is about tasks from what the server says; what it does not take is for the SDK.
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

// recordTaskTools notes which tools have to be tasks, and is called with mu held. A page says it of its own tools alone.
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

// roundTrip asks the server something about a task. A refusal of the server is an answer; an error is why there is none.
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

// newRequest is a request about a task, with an id that no other has.
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

// forget drops what waits for an answer to id, which does not come or is not wanted.
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

// remaining is how long whoever made a call waits for it.
func remaining(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(time.Until(deadline), 0)
	}
	return defaultTaskTTL
}
