//go:build unix

package telemetry_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// span is a span as the receiver got it.
type span struct {
	ptrace.Span
	node string
}

// spans returns all spans by their ids.
func (r *receiver) spans() map[pcommon.SpanID]span {
	all := map[pcommon.SpanID]span{}
	for _, batch := range r.traces.AllTraces() {
		for _, from := range batch.ResourceSpans().All() {
			node := fmt.Sprint(from.Resource().Attributes().AsRaw()["symbio.node.name"])
			for _, scope := range from.ScopeSpans().All() {
				for _, s := range scope.Spans().All() {
					all[s.SpanID()] = span{s, node}
				}
			}
		}
	}
	return all
}

// path returns the names of a span and all above it, the outermost first, with their nodes.
func path(all map[pcommon.SpanID]span, s span) string {
	name := s.node + ":" + s.Name()
	if s.ParentSpanID().IsEmpty() {
		return name
	}
	parent, ok := all[s.ParentSpanID()]
	if !ok {
		return "LOST > " + name
	}
	return path(all, parent) + " > " + name
}

func attr(s span, key string) string {
	if v, ok := s.Attributes().Get(key); ok {
		return v.AsString()
	}
	return ""
}

// wantPaths are the spans of the task, each by those above it.
var wantPaths = []string{
	"a:invoke_agent general > a:chat func",
	"a:invoke_agent general > a:approval Bash",
	"a:invoke_agent general > a:execute_tool Bash > a:sandbox bash",
	"a:invoke_agent general > a:execute_tool replicate_agent > a:invoke_agent helper > a:chat func",
	"a:invoke_agent general > a:execute_tool replicate_agent > a:invoke agents.spawn > b:serve agents.spawn",
	"a:invoke_agent general > a:execute_tool replicate_agent > a:invoke agent.perception.task > b:serve agent.perception.task > b:invoke_agent lent > b:chat func",
	"a:invoke_agent general > a:execute_tool invoke_capability > a:invoke text.echo > b:serve text.echo > b:sandbox cat",
	"a:invoke_agent general > a:execute_tool invoke_capability > a:invoke text.review > b:serve text.review > b:invoke_agent general > b:chat func",
}

func TestTaskOverTwoNodesIsOneTrace(t *testing.T) {
	r := startReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+r.address)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key="+headerWord)
	t.Setenv("OTEL_SERVICE_NAME", "house")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	if out := doTask(t); strings.Contains(out, headerWord) || !strings.Contains(out, argsWord) {
		t.Errorf("the command has the headers of the exporters, or did not run:\n%s", out)
	}
	checkTrace(t, r.spans())
	checkResources(t, r)
	checkContent(t, r, false)
	checkMetrics(t, r)
	checkLogs(t, r)
}

func TestContentIsSentIfAskedFor(t *testing.T) {
	r := startReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://"+r.address+"/v1/traces")
	t.Setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_only")
	doTask(t)
	checkContent(t, r, true)
	if m, l := r.metrics.DataPointCount(), r.logs.LogRecordCount(); m+l > 0 {
		t.Errorf("%d metrics and %d lines of logs, for which there is no endpoint, were sent", m, l)
	}
}

func TestNothingIsSentByDefault(t *testing.T) {
	r := startReceiver(t)
	for name, value := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + r.address, "OTEL_SDK_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	doTask(t)
	if n := r.traces.SpanCount() + r.metrics.DataPointCount() + r.logs.LogRecordCount(); n > 0 {
		t.Errorf("%d things were sent", n)
	}
}

// checkTrace checks that the spans of agents are one tree.
func checkTrace(t *testing.T, all map[pcommon.SpanID]span) {
	t.Helper()
	found := map[string]bool{}
	traces := map[pcommon.TraceID]string{}
	for _, s := range all {
		p := path(all, s)
		found[p] = true
		if strings.HasPrefix(p, "LOST") {
			t.Errorf("a span has no parent: %s", p)
		}
		if s.StartTimestamp() > s.EndTimestamp() {
			t.Errorf("%s ends before it starts", p)
		}
		if strings.Contains(p, "invoke_agent") {
			traces[s.TraceID()] = p
		}
		checkAttributes(t, s)
	}
	if len(traces) != 1 {
		t.Errorf("the spans of agents have %d traces, want one: %v", len(traces), traces)
	}
	for _, want := range wantPaths {
		if !found[want] {
			t.Errorf("there is no span %s; there are\n%s", want, strings.Join(slices.Sorted(maps.Keys(found)), "\n"))
		}
	}
}

// checkAttributes checks that a span has what the conventions ask of its kind.
func checkAttributes(t *testing.T, s span) {
	t.Helper()
	operation, _, _ := strings.Cut(s.Name(), " ")
	agent := []string{"gen_ai.operation.name", "gen_ai.agent.id", "gen_ai.agent.name", "gen_ai.conversation.id"}
	kind, keys := ptrace.SpanKindInternal, []string{}
	switch operation {
	case "invoke_agent":
		keys = append(agent, "gen_ai.provider.name", "gen_ai.request.model")
	case "chat":
		kind, keys = ptrace.SpanKindClient, append(agent, "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.finish_reasons")
		if in, out := attr(s, "gen_ai.usage.input_tokens"), attr(s, "gen_ai.usage.output_tokens"); in != "11" || out != "5" {
			t.Errorf("%s has %q and %q tokens", s.Name(), in, out)
		}
	case "execute_tool", "approval":
		keys = append(agent, "gen_ai.tool.name", "gen_ai.tool.call.id")
	case "sandbox":
		keys = []string{"process.executable.name", "process.exit.code", "symbio.sandbox.level"}
	case "invoke":
		kind, keys = ptrace.SpanKindClient, []string{"symbio.capability", "symbio.peer.id"}
	case "serve":
		kind, keys = ptrace.SpanKindServer, []string{"symbio.capability", "symbio.peer.id"}
	default:
		t.Errorf("an unknown span %s", s.Name())
	}
	if s.Kind() != kind {
		t.Errorf("%s is of the kind %v, want %v", s.Name(), s.Kind(), kind)
	}
	for _, key := range keys {
		if attr(s, key) == "" {
			t.Errorf("%s has no %s: %v", s.Name(), key, s.Attributes().AsRaw())
		}
	}
	if slices.Contains(keys, "gen_ai.operation.name") && attr(s, "gen_ai.operation.name") != operation {
		t.Errorf("%s is the operation %s", s.Name(), attr(s, "gen_ai.operation.name"))
	}
	if e := attr(s, "error.type"); e != "" && operation != "invoke" && operation != "serve" {
		t.Errorf("%s failed: %s", s.Name(), e)
	}
}

// checkResources checks that each signal says which node sent it.
func checkResources(t *testing.T, r *receiver) {
	t.Helper()
	resources := map[string][]pcommon.Resource{}
	for _, batch := range r.traces.AllTraces() {
		for _, from := range batch.ResourceSpans().All() {
			resources["traces"] = append(resources["traces"], from.Resource())
		}
	}
	for _, batch := range r.metrics.AllMetrics() {
		for _, from := range batch.ResourceMetrics().All() {
			resources["metrics"] = append(resources["metrics"], from.Resource())
		}
	}
	for _, batch := range r.logs.AllLogs() {
		for _, from := range batch.ResourceLogs().All() {
			resources["logs"] = append(resources["logs"], from.Resource())
		}
	}
	for _, signal := range []string{"traces", "metrics", "logs"} {
		nodes, ids := map[string]bool{}, map[string]bool{}
		for _, from := range resources[signal] {
			values := from.Attributes().AsRaw()
			nodes[fmt.Sprint(values["symbio.node.name"])], ids[fmt.Sprint(values["service.instance.id"])] = true, true
			if values["service.name"] != "house" || values["deployment.environment.name"] != "test" || values["service.version"] != "1.2.3" {
				t.Errorf("%s come from %v", signal, values)
			}
		}
		if !nodes["a"] || !nodes["b"] || len(ids) != 2 {
			t.Errorf("%s come from the nodes %v with the ids %v, want a and b", signal, nodes, ids)
		}
	}
}

// checkContent checks whether texts of the task were sent.
func checkContent(t *testing.T, r *receiver, want bool) {
	t.Helper()
	var text strings.Builder
	for _, s := range r.spans() {
		fmt.Fprintln(&text, s.Name(), s.Attributes().AsRaw(), s.Status().Message())
	}
	for _, batch := range r.logs.AllLogs() {
		data, err := (&plog.JSONMarshaler{}).MarshalLogs(batch)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
	}
	for _, word := range []string{taskWord, answerWord, argsWord} {
		if strings.Contains(text.String(), word) != want {
			t.Errorf("that %s was sent is %v", word, !want)
		}
	}
}

func checkMetrics(t *testing.T, r *receiver) {
	t.Helper()
	found := map[string]bool{}
	for _, batch := range r.metrics.AllMetrics() {
		for _, from := range batch.ResourceMetrics().All() {
			for _, scope := range from.ScopeMetrics().All() {
				for _, m := range scope.Metrics().All() {
					found[m.Name()] = true
				}
			}
		}
	}
	for _, want := range []string{
		"gen_ai.client.token.usage", "gen_ai.client.operation.duration", "gen_ai.invoke_agent.duration", "gen_ai.execute_tool.duration",
		"symbio.members", "symbio.nodes", "symbio.agents.working", "symbio.approvals.waiting", "symbio.tool.calls", "symbio.approval.duration",
	} {
		if !found[want] {
			t.Errorf("there is no metric %s; there are %v", want, slices.Sorted(maps.Keys(found)))
		}
	}
}

// checkLogs checks that lines came, and that those of tasks have the trace.
func checkLogs(t *testing.T, r *receiver) {
	t.Helper()
	traces := map[pcommon.TraceID]bool{}
	for _, s := range r.spans() {
		traces[s.TraceID()] = true
	}
	done := 0
	for _, batch := range r.logs.AllLogs() {
		for _, from := range batch.ResourceLogs().All() {
			for _, scope := range from.ScopeLogs().All() {
				for _, l := range scope.LogRecords().All() {
					if l.Body().AsString() != "task ended" {
						continue
					}
					done++
					if !traces[l.TraceID()] {
						t.Errorf("the line %q has the trace %q", l.Body().AsString(), l.TraceID())
					}
				}
			}
		}
	}
	if done != 4 {
		t.Errorf("%d tasks are in the log, want 4", done)
	}
}
