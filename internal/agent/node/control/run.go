package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/conversation"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/community"
	"symbio/internal/agent/node/tasks"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// Events sends the events of the node from a time or a number on, until the
// caller ends the call. Filters do not apply to gaps: a reader must learn that events are
// missing. ErrInvalid: no event has one of the types.
func (c *server) Events(r *symbiov1.EventsRequest, stream symbiov1.Control_EventsServer) error {
	types := event.Types()
	for _, t := range r.GetTypes() {
		if !slices.Contains(types, t) {
			return fmt.Errorf("%w: no event has the type %q; the types are %s", community.ErrInvalid, visible.Escape(t), strings.Join(types, ", "))
		}
	}
	var tap *event.Subscription
	switch {
	case r.After != nil:
		tap = c.cfg.Events.SubscribeAfter(r.GetAfter())
	case r.GetSince() != nil:
		tap = c.cfg.Events.Subscribe(r.GetSince().AsTime())
	default:
		tap = c.cfg.Events.Subscribe(time.Time{})
	}
	defer tap.Close()
	for {
		e, err := tap.Next(stream.Context())
		if err != nil {
			return err
		}
		// An empty list of types selects all.
		if len(r.GetTypes()) > 0 && !slices.Contains(r.GetTypes(), e.Type) && e.Type != event.TypeGap {
			continue
		}
		if r.GetAgent() != "" && !visible.IsID(r.GetAgent(), e.Agent) && e.Name != r.GetAgent() {
			continue
		}
		if err := sendEvent(stream.Send, e); err != nil {
			return err
		}
	}
}

// eventPart is the largest part of an event in one message, in bytes: a quarter
// of the 4 MiB that gRPC accepts by default.
const eventPart = 1 << 20

// sendEvent sends an event, in several messages if its JSON is larger than
// eventPart. All but the last have More set.
func sendEvent(send func(*symbiov1.Event) error, e event.Event) error {
	line, err := json.Marshal(e)
	for err == nil {
		part := line[:min(len(line), eventPart)]
		line = line[len(part):]
		if err = send(&symbiov1.Event{Json: part, More: len(line) > 0}); len(line) == 0 {
			break
		}
	}
	return err
}

// Receive returns the next event of a control stream, joined from its parts. It
// is the counterpart of sendEvent. The error comes from recv, or from JSON that is
// no event.
func Receive(recv func() (*symbiov1.Event, error)) (e event.Event, err error) {
	var line []byte
	for more := true; more; {
		part, err := recv()
		if err != nil {
			return e, err
		}
		line, more = append(line, part.GetJson()...), part.GetMore()
	}
	err = json.Unmarshal(line, &e)
	return e, err
}

// order converts a request to an order for an agent. The rules of the request
// are added to the rules of the configuration, whose denials win; the rules are
// read again for every call, so that a reload applies to a running agent.
func (c *server) order(ctx context.Context, r *symbiov1.RunRequest) (o agent.Order, err error) {
	if r.GetSession() != "" {
		o, err = c.cfg.Resume(ctx, r.GetSession())
	}
	if err == nil && (r.GetSession() == "" || r.GetAgent() != "") {
		o.Definition, err = c.cfg.Agents.Definitions.Find(r.GetAgent())
	}
	if err != nil {
		return agent.Order{}, err
	}
	if o.Session.ID == "" {
		o.Limits = c.cfg.Agents.Limits
	}
	if r.GetModel() != "" {
		o.Session.Model = r.GetModel()
		if o.Model, err = c.cfg.Model(ctx, r.GetModel()); err != nil {
			return agent.Order{}, err
		}
	}
	if err := setOptions(&o, r); err != nil {
		return agent.Order{}, err
	}
	if o.Rules, _, err = c.cfg.Rules.With(r.GetAllow()); err != nil {
		return agent.Order{}, err
	}
	o.Limits = tasks.LimitsOf(o.Limits, r.GetBudget())
	o.Session.Limits = o.Limits
	return o, nil
}

// setOptions sets the effort, the mode, the limit of turns and the schema of answers that a request has.
func setOptions(o *agent.Order, r *symbiov1.RunRequest) error {
	asked := agent.Settings{Effort: r.GetEffort(), Mode: agent.Mode(r.GetMode())}
	o.Mode = cmp.Or(asked.Mode, o.Mode) // the mode of a resumed session holds if the person does not say another
	o.Definition.Effort = cmp.Or(asked.Effort, o.Definition.Effort)
	if r.GetMaxTurns() > 0 {
		o.Definition.MaxTurns = int(min(r.GetMaxTurns(), math.MaxInt32))
	}
	if schema := r.GetOutputSchema(); schema != "" {
		form, err := llm.NewForm(llm.Output{Name: "answer", Schema: json.RawMessage(schema)})
		if err != nil {
			return fmt.Errorf("%w: the output schema: %w", community.ErrInvalid, err)
		}
		o.Definition.Output = form
	}
	return asked.Check()
}

// turn sends the agent a task and returns the result; with "" the agent goes
// on with its interrupted task. Errors become part of the result: they are the
// outcome of the task, not of the call. After an exceeded budget the text is the
// agent's summary of its work.
func (c *server) turn(ctx context.Context, task string, member community.Member) event.Event {
	var data []byte
	if task != "" {
		data, _ = json.Marshal(task) // a string has a JSON form
	}
	reply, err := c.cfg.Community.Send(ctx, member.ID, community.Signal{Perception: member.Accepts[0], Data: data})
	r := result(ctx, string(reply.Data), err)
	end, _ := r.Part.(event.End)
	end.Tasks = c.cfg.Agents.Session(member.ID).Tasks
	if spent, ok := c.cfg.Agents.Spent(member.ID); ok {
		end.Spent = &spent
	}
	r.Part = end
	return r
}

// result returns the result of a turn that ended with an answer or err.
func result(ctx context.Context, text string, err error) event.Event {
	r := event.End{Status: "done"}
	var over *budget.ExceededError
	switch {
	case err == nil:
	// A context that ended counts before the error itself: the error may be any consequence of it.
	case ctx.Err() != nil || errors.Is(err, conversation.ErrInterrupted):
		r.Status, r.Error = "interrupted", err.Error()
	case errors.As(err, &over):
		text, r.Status, r.Error = over.Summary, "failed", budgetError(over)
	default:
		r.Status, r.Error, r.Over = "failed", err.Error(), errors.Is(err, community.ErrNotFound)
	}
	return event.Event{Type: event.TypeResult, Text: text, Part: r}
}

// budgetError returns the message of a task that ended at a limit, with what to
// do.
func budgetError(e *budget.ExceededError) string {
	return budget.ErrExceeded.Error() + ": " + e.Limit + "; --budget, or budget in the configuration, allows more"
}
