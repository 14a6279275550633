package telemetry

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/security/visible"
	"symbio/security/sandbox"
)

// maxName bounds names in spans, in bytes. Peers and models write some of them.
const maxName = 200

// text returns an attribute whose value is fit to be shown. A value that is not UTF-8 would make the
// exporter lose all spans that it sends together.
func text(key, value string) attribute.KeyValue {
	return attribute.String(key, visible.Line(value, maxName))
}

// start begins a span below the community.Trace of ctx. The Trace of the returned context is the span.
func (t *Telemetry) start(ctx context.Context, kind trace.SpanKind, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	carrier := propagation.MapCarrier{}
	if from := community.TraceOf(ctx); from.Parent() != "" && !isOf(trace.SpanContextFromContext(ctx), from) {
		carrier.Set("traceparent", from.Parent())
		carrier.Set("tracestate", from.State())
		ctx = propagation.TraceContext{}.Extract(ctx, carrier)
	}
	ctx, span := t.tracer.Start(ctx, visible.Line(name, maxName), trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
	clear(carrier)
	propagation.TraceContext{}.Inject(ctx, carrier)
	return community.WithTrace(ctx, community.ParseTrace(carrier.Get("traceparent"), carrier.Get("tracestate"))), span
}

// isOf reports whether w is the trace of the span s.
func isOf(s trace.SpanContext, w community.Trace) bool {
	return s.IsValid() && strings.HasPrefix(w.Parent()[3:], s.TraceID().String()+"-"+s.SpanID().String())
}

// end ends a span with the kind of its work's error, and not the text: the text may quote a
// message.
func (t *Telemetry) end(span trace.Span, err error) {
	if err != nil {
		span.SetAttributes(attribute.String(errorType, kindOf(err)))
		span.SetStatus(codes.Error, kindOf(err))
	}
	span.End()
}

// kinds are the errors that error.type tells apart. The first that fits counts.
var kinds = []struct {
	err  error
	name string
}{
	{context.DeadlineExceeded, "timeout"}, {context.Canceled, "canceled"}, {conversation.ErrInterrupted, "interrupted"},
	{conversation.ErrTurns, "too_many_turns"}, {conversation.ErrNoAnswer, "no_answer"}, {budget.ErrExceeded, "budget_exceeded"},
	{community.ErrDenied, "denied"}, {community.ErrBusy, "busy"}, {community.ErrUnavailable, "unavailable"},
	{community.ErrNotFound, "not_found"}, {community.ErrNotProvided, "not_found"}, {community.ErrTooLarge, "too_large"},
	{community.ErrInvalid, "invalid"}, {community.ErrStopped, "stopped"}, {community.ErrAgentFailed, "agent_failed"},
	{llm.ErrRateLimited, "rate_limited"}, {llm.ErrQuota, "quota"}, {llm.ErrAuth, "auth"}, {llm.ErrContextLength, "context_length"},
	{llm.ErrRefused, "refused"}, {llm.ErrUnavailable, "unavailable"}, {llm.ErrTimeout, "timeout"}, {llm.ErrInvalid, "invalid"},
	{llm.ErrCut, "cut"}, {llm.ErrMalformed, "malformed"}, {llm.ErrNoModel, "no_model"}, {llm.ErrDenied, "denied"},
	{sandbox.ErrRefused, "sandbox_refused"}, {errTool, "tool_error"},
}

// kindOf returns the kind of an error, from a short list; "" = there is none.
func kindOf(err error) string {
	if err == nil {
		return ""
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "_OTHER"
}

// outcome returns the attributes of a metric of work that ended with err.
func outcome(err error, attrs ...attribute.KeyValue) metric.MeasurementOption {
	if err != nil {
		attrs = append(attrs, attribute.String(errorType, kindOf(err)))
	}
	return metric.WithAttributes(attrs...)
}

// Agents returns what c has to be for the agents of a node to be traced and counted. The spans are
// outside of the program's own middleware.
func (t *Telemetry) Agents(m agent.Middleware) agent.Middleware {
	m.Task = append([]agent.TaskMiddleware{t.task}, m.Task...)
	m.Model = append([]llm.Middleware{t.model}, m.Model...)
	m.Tool = append([]tool.Middleware{t.tool}, m.Tool...)
	return m
}

type taskKey struct{}

// taskOf returns the task that ctx belongs to, of an agent of this node.
func taskOf(ctx context.Context) agent.TaskInfo {
	info, _ := ctx.Value(taskKey{}).(agent.TaskInfo)
	return info
}

// ofAgent returns the attributes of an agent's span.
func ofAgent(info agent.TaskInfo, operation string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attribute.String(aiOperation, operation), text(aiAgentID, string(info.Agent.ID)), text(aiAgentName, info.Agent.Name)}
	if info.Session != "" {
		attrs = append(attrs, text(aiConversation, info.Session))
	}
	return attrs
}

// ofModel returns the provider and the model of a name such as openai:NAME, or of the first of a list.
func ofModel(info agent.TaskInfo) (provider, model string) {
	if info.Model == nil {
		return "unknown", "unknown"
	}
	name, _, _ := strings.Cut(info.Model(), ",")
	if provider, model, ok := strings.Cut(name, ":"); ok {
		return provider, model
	}
	return cmp.Or(name, "unknown"), cmp.Or(name, "unknown")
}

// task makes the span of a task, below which all that is done for it is.
func (t *Telemetry) task(ctx context.Context, info agent.TaskInfo, next func(context.Context) (community.Reply, error)) (community.Reply, error) {
	provider, model := ofModel(info)
	attrs := append(ofAgent(info, invokeAgent), text(aiProvider, provider), text(aiRequestModel, model))
	began := time.Now()
	ctx, span := t.start(context.WithValue(ctx, taskKey{}, info), trace.SpanKindInternal, invokeAgent+" "+info.Agent.Name, attrs...)
	t.counters.working.Add(ctx, 1)
	reply, err := next(ctx)
	t.counters.working.Add(ctx, -1)
	t.counters.tasks.Record(ctx, time.Since(began).Seconds(), outcome(err, attribute.String(aiOperation, invokeAgent)))
	t.log.InfoContext(ctx, "task ended", "agent", string(info.Agent.ID), "name", info.Agent.Name, "error", kindOf(err))
	t.end(span, err)
	return reply, err
}

// errTool is the error of a call that ended with an error for the model.
var errTool = errors.New("the tool reported an error")

// tool makes the span of a call of a tool that may run.
func (t *Telemetry) tool(ctx context.Context, c tool.Call, next func(context.Context) tool.Result) tool.Result {
	attrs := append(ofAgent(taskOf(ctx), executeTool), text(aiToolName, c.Tool), text(aiToolCall, c.ID))
	began := time.Now()
	ctx, span := t.start(ctx, trace.SpanKindInternal, executeTool+" "+c.Tool, attrs...)
	if t.content {
		span.SetAttributes(asJSON(aiToolArguments, c.Args))
	}
	r := next(ctx)
	err := context.Cause(ctx)
	if !r.IsError {
		err = nil
	} else if err == nil {
		err = errTool
	}
	if t.content {
		span.SetAttributes(content(aiToolResult, r.Text))
	}
	of := outcome(err, text(aiToolName, c.Tool))
	t.counters.toolCalls.Add(ctx, 1, of)
	t.counters.tools.Record(ctx, time.Since(began).Seconds(), of)
	t.end(span, err)
	return r
}

// Asked makes the span of the time in which a call waits for a person.
func (t *Telemetry) Asked(ctx context.Context, r agent.ApprovalRequest) func(tool.Answer) {
	attrs := append(ofAgent(taskOf(ctx), "approval"), text(aiToolName, r.Tool), text(aiToolCall, r.CallID))
	began := time.Now()
	ctx, span := t.start(ctx, trace.SpanKindInternal, "approval "+r.Tool, attrs...)
	return func(a tool.Answer) {
		allowed := attribute.Bool("symbio.approval.allowed", a.Allow)
		span.SetAttributes(allowed)
		t.counters.approvals.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(allowed))
		t.log.InfoContext(ctx, "approval answered", "tool", r.Tool, "call", r.CallID, "allowed", a.Allow)
		span.End()
	}
}

// Call makes the span of a call between nodes, on either side.
func (t *Telemetry) Call(ctx context.Context, c community.CallInfo) (context.Context, func(error)) {
	kind, name := trace.SpanKindClient, "invoke "+c.Capability
	if c.Served {
		kind, name = trace.SpanKindServer, "serve "+c.Capability
	}
	ctx, span := t.start(ctx, kind, name, text(ownCapability, c.Capability), text(ownPeer, string(c.Node)))
	return ctx, func(err error) { t.end(span, err) }
}

// Run makes the span of a command in the sandbox. Of the command only the program is told, because
// arguments may be secret.
func (t *Telemetry) Run(ctx context.Context, argv []string) func(sandbox.Result, error) {
	program := "?"
	if len(argv) > 0 {
		program = filepath.Base(argv[0])
	}
	_, span := t.start(ctx, trace.SpanKindInternal, "sandbox "+program, text("process.executable.name", program))
	if t.content {
		span.SetAttributes(content("process.command_line", strings.Join(argv, " ")))
	}
	return func(r sandbox.Result, err error) {
		span.SetAttributes(attribute.Int("process.exit.code", r.Code), attribute.String("symbio.sandbox.level", r.Level.String()))
		t.end(span, err)
	}
}

// Refused counts a call that was not allowed. name is the name of a tool, or invoke or send for a call of
// another node.
func (t *Telemetry) Refused(name string) {
	subject := "tool"
	if name == "invoke" || name == "send" {
		subject = "capability"
	}
	t.counters.refusals.Add(context.Background(), 1, metric.WithAttributes(attribute.String("symbio.refused", subject)))
}
