package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"symbio/agent/tool"
)

const (
	// minPollInterval and maxPollInterval limit the interval between two status requests, whatever
	// the server asks for. defaultPollInterval applies if it names none.
	minPollInterval     = 100 * time.Millisecond
	maxPollInterval     = 10 * time.Second
	defaultPollInterval = time.Second
	// defaultTaskTTL is the time to live of a task whose call has no deadline. taskTTLMargin is
	// added to the time that is left of a call: the result is fetched in it.
	defaultTaskTTL = 5 * time.Minute
	taskTTLMargin  = time.Minute
	// maxTaskID limits a task's id in bytes, because the id is sent with every status request.
	maxTaskID = 1 << 10
)

// taskError is why a task of a call has no result of the tool. Its text follows the server's name
// in the error that a model reads.
type taskError string

func (e taskError) Error() string { return string(e) }

// taskCall is a call that is made as a task. The connection's mu guards created, canceled, task and
// reportsProgress.
type taskCall struct {
	// id is the id of the SDK's request. The response must have the same.
	id jsonrpc.ID
	// token is the call's progress token; nil if the SDK does not want progress.
	token json.RawMessage
	// ctx ends when the call is canceled or the connection ends.
	ctx context.Context
	// stop ends ctx. It may be called several times.
	stop context.CancelFunc
	// updates holds a token when the server has reported a change of the task. It has room for one.
	updates chan struct{}

	// created is true when the server has answered the call with a task.
	created bool
	// canceled is true when the SDK has canceled the call, so that no response is needed.
	canceled bool
	// task is the task's id; "" until poll has read it.
	task string
	// reportsProgress is true when the server has sent a progress notification for the call.
	reportsProgress bool
}

// task is the state of a task in the messages of a server (specification 2025-11-25,
// basic/utilities/tasks).
type task struct {
	ID string `json:"taskId"`
	// Status is working, completed, failed, cancelled or input_required.
	Status string `json:"status"`
	// Message is an explanation for people, in the server's words.
	Message string `json:"statusMessage"`
	// Interval is the interval between status requests that the server asks for, in milliseconds. 0
	// means that it names none.
	Interval float64 `json:"pollInterval"`
}

// startTask adds a task to the request r if r calls a tool that requires one, and registers the
// call. It returns other requests unchanged.
func (c *taskConn) startTask(ctx context.Context, r *jsonrpc.Request) *jsonrpc.Request {
	var params map[string]json.RawMessage
	var known struct {
		Name string `json:"name"`
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if json.Unmarshal(r.Params, &known) != nil || !c.required[known.Name] || c.offer.Requests.Tools.Call == nil || json.Unmarshal(r.Params, &params) != nil {
		return r
	}
	// ttl is how long the server must keep the task and its result, in milliseconds.
	params["task"] = fmt.Appendf(nil, `{"ttl":%d}`, (remaining(ctx) + taskTTLMargin).Milliseconds())
	changed, err := json.Marshal(params)
	if err != nil {
		return r
	}
	// Canceled calls whose task the server has not confirmed stay in calls, so that their tasks can
	// still be canceled. A server that never answers must not make the map grow without end.
	for id, call := range c.calls {
		if len(c.calls) < maxCalls {
			break
		}
		if call.canceled && !call.created {
			delete(c.calls, id)
		}
	}
	call := &taskCall{id: r.ID, token: known.Meta.Token, updates: make(chan struct{}, 1)}
	call.ctx, call.stop = context.WithCancel(c.ctx)
	c.calls[r.ID] = call
	return &jsonrpc.Request{ID: r.ID, Method: r.Method, Params: changed, Extra: r.Extra}
}

// cancelCall handles the SDK's cancellation of a request. If the request became a task whose id is
// known, it returns a request that cancels the task, which is sent in place of the notification. If
// the id is not known yet, poll cancels the task when it arrives.
func (c *taskConn) cancelCall(r *jsonrpc.Request) *jsonrpc.Request {
	var params struct {
		ID any `json:"requestId"`
	}
	if json.Unmarshal(r.Params, &params) != nil {
		return r
	}
	id, err := jsonrpc.MakeID(params.ID)
	if err != nil {
		return r
	}
	c.mu.Lock()
	delete(c.listings, id)
	call, ok := c.calls[id]
	if !ok {
		c.mu.Unlock()
		return r
	}
	call.canceled = true
	call.stop()
	name := call.task
	if name != "" {
		delete(c.calls, id)
	}
	can := c.offer.Cancel != nil
	c.mu.Unlock()
	// Without a task the server gets the notification, as for an ordinary call.
	if name == "" || !can {
		return r
	}
	if end, err := c.newRequest("tasks/cancel", name); err == nil {
		// handleResponse drops the response, because it is not pending.
		return end
	}
	return r
}

// onTaskStatus wakes the call of the task that a status notification names. The notification itself
// is not trusted: the state is requested again.
func (c *taskConn) onTaskStatus(params json.RawMessage) {
	var t task
	if json.Unmarshal(params, &t) != nil || t.ID == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		if call.task != t.ID {
			continue
		}
		select {
		case call.updates <- struct{}{}:
		default:
		}
	}
}

// onProgress records that the server sends progress of a call itself. The status messages of its
// task are then not reported as progress, so that no progress is shown twice.
func (c *taskConn) onProgress(params json.RawMessage) {
	var p struct {
		Token json.RawMessage `json:"progressToken"`
	}
	if json.Unmarshal(params, &p) != nil || len(p.Token) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		call.reportsProgress = call.reportsProgress || bytes.Equal(call.token, p.Token)
	}
}

// finishCall waits for the task of a call and gives its result to the SDK as the response to the
// call. It runs in a goroutine of its own, one for each call. If there is no result it cancels the
// task, for the server would work on for nothing. A call that was canceled meanwhile gets no
// response.
func (c *taskConn) finishCall(call *taskCall, created json.RawMessage) {
	defer call.stop()
	answer, err := c.poll(call, created)
	c.mu.Lock()
	gone, name := call.canceled, call.task
	delete(c.calls, call.id)
	c.mu.Unlock()
	if gone || c.ctx.Err() != nil {
		return
	}
	if err != nil {
		if name != "" {
			c.abandon(name)
		}
		answer = &jsonrpc.Response{Error: err}
	}
	c.deliver(&jsonrpc.Response{ID: call.id, Result: answer.Result, Error: answer.Error})
}

// abandon asks the server to cancel a task whose result is not needed. It does not wait for the
// response; the task may have ended already. It does nothing if the server does not support it.
func (c *taskConn) abandon(name string) {
	c.mu.Lock()
	can := c.offer.Cancel != nil
	c.mu.Unlock()
	if !can {
		return
	}
	if r, err := c.newRequest("tasks/cancel", name); err == nil {
		// A write fails only if the connection is lost. The server then has to end the task by
		// itself.
		_ = c.Connection.Write(c.ctx, r)
	}
}

// poll requests the state of a task until it has ended, and returns its result. created is the
// result of the call, which describes the task. It returns a taskError if the server does not
// follow the protocol or asks for input, and the error of the context if the call is canceled.
// After an error the task may still run. The only limit of its duration is the call's: the SDK
// cancels the call then.
func (c *taskConn) poll(call *taskCall, created json.RawMessage) (*jsonrpc.Response, error) {
	var first struct {
		Task *task `json:"task"`
	}
	if json.Unmarshal(created, &first) != nil || first.Task == nil || first.Task.ID == "" || len(first.Task.ID) > maxTaskID {
		return nil, taskError("it was asked for a task, and answered something else")
	}
	now := *first.Task
	c.mu.Lock()
	call.task = now.ID
	// The call may have been canceled while the server created the task; then only this function
	// knows its id and can cancel the task.
	gone := call.canceled
	c.mu.Unlock()
	if gone {
		c.abandon(now.ID)
		return nil, context.Canceled
	}
	// told is the last status message that was reported, to report each change once.
	name, told, steps := now.ID, "", 0
	for {
		switch now.Status {
		case "completed", "failed":
			return c.result(call.ctx, now)
		case "cancelled":
			return &jsonrpc.Response{Error: taskError("it has cancelled the task" + reason(now.Message))}, nil
		// This client cannot give input: it supports no elicitation.
		case "input_required":
			return nil, taskError("the task asks for input, which cannot be given here" + reason(now.Message))
		// The only status in which waiting helps.
		case "working":
		default:
			return nil, taskError("it says that the task is " + fmt.Sprintf("%q", oneLine(now.Status)) + ", which is not known")
		}
		if text := oneLine(now.Message); text != "" && text != told {
			told, steps = text, steps+1
			c.progress(call, text, steps)
		}
		if err := call.pause(now.Interval); err != nil {
			return nil, err
		}
		answer, err := c.roundTrip(call.ctx, "tasks/get", name)
		if err != nil {
			return nil, err
		}
		if answer.Error != nil {
			return nil, taskError("it does not say how the task is" + reason(answer.Error.Error()))
		}
		now = task{}
		if json.Unmarshal(answer.Result, &now) != nil || now.ID != "" && now.ID != name {
			return nil, taskError("it was asked how the task is, and answered something else")
		}
		now.ID = name
	}
}

// result requests the result of an ended task, and turns a missing or malformed one into a
// taskError. A failed task may have a result, too: if the tool itself reports the failure, that
// says more than the status.
func (c *taskConn) result(ctx context.Context, t task) (*jsonrpc.Response, error) {
	answer, err := c.roundTrip(ctx, "tasks/result", t.ID)
	if err != nil {
		return nil, err
	}
	var r struct {
		IsError bool `json:"isError"`
	}
	bad := json.Unmarshal(answer.Result, &r) != nil || !bytes.HasPrefix(bytes.TrimSpace(answer.Result), []byte("{"))
	switch {
	case t.Status == "failed" && answer.Error == nil && !bad && r.IsError:
	case t.Status == "failed" && t.Message == "" && answer.Error != nil:
		answer.Error = taskError("the task failed" + reason(answer.Error.Error()))
	case t.Status == "failed":
		answer.Error = taskError("the task failed" + reason(t.Message))
	case answer.Error != nil:
		answer.Error = taskError("the task has ended, and its result is not given" + reason(answer.Error.Error()))
	case bad:
		answer.Error = taskError("the task has ended, and its result is none")
	}
	return answer, nil
}

// pause waits for the interval that the server asks for, at most maxPollInterval, or until a status
// notification arrives. It always waits minPollInterval, also if a server sends notifications
// without end. It returns the error of call.ctx if that ends.
func (call *taskCall) pause(milliseconds float64) error {
	wait := defaultPollInterval
	if milliseconds > 0 {
		wait = time.Duration(min(milliseconds, float64(maxPollInterval.Milliseconds()))) * time.Millisecond
	}
	select {
	case <-time.After(minPollInterval):
	case <-call.ctx.Done():
		return call.ctx.Err()
	}
	select {
	case <-time.After(wait - minPollInterval):
	case <-call.updates:
	case <-call.ctx.Done():
		return call.ctx.Err()
	}
	return nil
}

// progress gives the SDK a progress notification that is made of a task's status message. step
// counts the messages: the protocol requires a number that grows.
func (c *taskConn) progress(call *taskCall, text string, step int) {
	c.mu.Lock()
	silent := call.reportsProgress || call.canceled || call.token == nil
	c.mu.Unlock()
	if silent {
		return
	}
	params, err := json.Marshal(map[string]any{"progressToken": call.token, "progress": step, "message": text})
	if err == nil {
		c.deliver(&jsonrpc.Request{Method: "notifications/progress", Params: params})
	}
}

// reason returns ": " and a server's explanation in a printable form; "" without one.
func reason(text string) string {
	if text = tool.Shorten(tool.Readable([]byte(text)), maxQuoted); text == "" {
		return ""
	}
	return ": " + text
}
