package telemetry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"symbio/agent"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/sandbox"
)

// recording returns a Telemetry whose spans are in the recorder when they have ended.
func recording(t *testing.T, env map[string]string) (*Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	all, err := New(t.Context(), Config{Getenv: func(k string) string { return env[k] }, Prometheus: true, State: func() State { return State{} }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Close)
	r := tracetest.NewSpanRecorder()
	all.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r)).Tracer("test")
	return all, r
}

// work does a task with a request to a model, a call of a tool, a question, a command and a call of
// another node, all of which have secret words.
func work(ctx context.Context, all *Telemetry, failure error) {
	info := agent.TaskInfo{Agent: community.Member{ID: "a1", Name: "ann"}, Session: "s1", Model: func() string { return "openai:gpt,other:x" }}
	_, _ = all.task(ctx, info, func(ctx context.Context) (community.Reply, error) {
		r := llm.Request{System: "word-of-system", Messages: []llm.Message{{Role: llm.User, Text: "word-of-user"}}}
		for range all.model(ctx, r, func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				_ = yield(llm.Chunk{Text: "word-of-model"}, nil) && yield(llm.Chunk{Usage: &llm.Usage{Input: 7, Output: 3}, Stop: llm.StopEnd}, nil)
			}
		}) {
		}
		all.Asked(ctx, agent.ApprovalRequest{Decision: tool.Decision{Tool: "Bash", CallID: "c1", Args: map[string]any{"command": "word-of-args"}}})(tool.Answer{Allow: true})
		all.tool(ctx, tool.Call{ID: "c1", Tool: "Bash", Args: map[string]any{"command": "word-of-args", "password": "hunter2hunter2"}}, func(ctx context.Context) tool.Result {
			all.Run(ctx, []string{"/bin/sh", "-c", "word-of-args"})(sandbox.Result{Code: 3}, nil)
			_, end := all.Call(ctx, community.CallInfo{Node: "n2", Capability: "text.count"})
			end(fmt.Errorf("word-of-error: %w", community.ErrDenied))
			return tool.Result{Text: "word-of-result", IsError: true}
		})
		return community.Reply{}, failure
	})
}

func TestSpansOfTaskAreOneTreeWithoutContent(t *testing.T) {
	all, recorder := recording(t, nil)
	work(t.Context(), all, errors.New("word-of-failure"))
	want := map[string]struct{ parent, attrs string }{
		"invoke_agent ann":  {"", "gen_ai.operation.name=invoke_agent gen_ai.agent.id=a1 gen_ai.agent.name=ann gen_ai.conversation.id=s1 gen_ai.provider.name=openai gen_ai.request.model=gpt error.type=_OTHER"},
		"chat gpt":          {"invoke_agent ann", "gen_ai.operation.name=chat gen_ai.agent.id=a1 gen_ai.agent.name=ann gen_ai.conversation.id=s1 gen_ai.provider.name=openai gen_ai.request.model=gpt gen_ai.usage.input_tokens=7 gen_ai.usage.output_tokens=3 gen_ai.usage.cache_read.input_tokens=0 gen_ai.response.finish_reasons=[\"end\"]"},
		"approval Bash":     {"invoke_agent ann", "gen_ai.operation.name=approval gen_ai.agent.id=a1 gen_ai.agent.name=ann gen_ai.conversation.id=s1 gen_ai.tool.name=Bash gen_ai.tool.call.id=c1 symbio.approval.allowed=true"},
		"execute_tool Bash": {"invoke_agent ann", "gen_ai.operation.name=execute_tool gen_ai.agent.id=a1 gen_ai.agent.name=ann gen_ai.conversation.id=s1 gen_ai.tool.name=Bash gen_ai.tool.call.id=c1 error.type=tool_error"},
		"sandbox sh":        {"execute_tool Bash", "process.executable.name=sh process.exit.code=3 symbio.sandbox.level=none"},
		"invoke text.count": {"execute_tool Bash", "symbio.capability=text.count symbio.peer.id=n2 error.type=denied"},
	}
	ids := map[trace.SpanID]string{}
	for _, s := range recorder.Ended() {
		ids[s.SpanContext().SpanID()] = s.Name()
	}
	if len(ids) != len(want) {
		t.Errorf("%d spans: %v", len(ids), ids)
	}
	for _, s := range recorder.Ended() {
		w := want[s.Name()]
		if parent := ids[s.Parent().SpanID()]; parent != w.parent {
			t.Errorf("the parent of %s is %q, want %q", s.Name(), parent, w.parent)
		}
		if got := shown(s.Attributes()); got != w.attrs {
			t.Errorf("%s has\n%s, want\n%s", s.Name(), got, w.attrs)
		}
		if strings.Contains(s.Status().Description, "word") {
			t.Errorf("the status of %s quotes the error: %s", s.Name(), s.Status().Description)
		}
	}
}

func shown(attrs []attribute.KeyValue) string {
	var all []string
	for _, a := range attrs {
		all = append(all, string(a.Key)+"="+a.Value.String())
	}
	return strings.Join(all, " ")
}

func TestContentIsInSpansOnlyIfAskedFor(t *testing.T) {
	words := []string{"word-of-system", "word-of-user", "word-of-model", "word-of-args", "word-of-result"}
	for _, value := range []string{"", "false", "no_content", "true", "SPAN_ONLY", "span_and_event"} {
		all, recorder := recording(t, map[string]string{captureContent: value})
		work(t.Context(), all, nil)
		var text strings.Builder
		for _, s := range recorder.Ended() {
			text.WriteString(shown(s.Attributes()) + "\n")
		}
		asked := value != "" && value != "false" && value != "no_content"
		for _, w := range words {
			if strings.Contains(text.String(), w) != asked {
				t.Errorf("with %q, that the spans have %s is %v:\n%s", value, w, !asked, &text)
			}
		}
		if strings.Contains(text.String(), "hunter2") {
			t.Errorf("the spans have a password:\n%s", &text)
		}
	}
}

func TestSpanContinuesTraceOfCaller(t *testing.T) {
	all, recorder := recording(t, nil)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	from := community.WithTrace(t.Context(), community.ParseTrace(parent, "x=y"))
	ctx, end := all.Call(from, community.CallInfo{Served: true, Node: "n1", Capability: "c"})
	inner, innerEnd := all.Call(ctx, community.CallInfo{Node: "n2", Capability: "d"})
	// Another trace may come from a caller while the context has a span already.
	other, otherEnd := all.Call(community.WithTrace(inner, community.ParseTrace(parent, "")), community.CallInfo{Capability: "e"})
	otherEnd(nil)
	innerEnd(nil)
	end(nil)
	spans := recorder.Ended()
	for i, want := range []string{"00f067aa0ba902b7", spans[2].SpanContext().SpanID().String(), "00f067aa0ba902b7"} {
		if got := spans[i].Parent().SpanID().String(); got != want {
			t.Errorf("the parent of %s is %s, want %s", spans[i].Name(), got, want)
		}
	}
	for i, c := range []context.Context{other, inner, ctx} {
		got := community.TraceOf(c)
		if got.String() != parent[3:35] || !strings.Contains(got.Parent(), spans[i].SpanContext().SpanID().String()) {
			t.Errorf("%s: what travels is %s", spans[i].Name(), got.Parent())
		}
	}
	if got := community.TraceOf(inner).State(); got != "x=y" {
		t.Errorf("the state is %q", got)
	}
}

func TestHostileNamesAreBoundedText(t *testing.T) {
	all, recorder := recording(t, nil)
	_, end := all.Call(t.Context(), community.CallInfo{Capability: "a\x1b[31m\xff\n" + strings.Repeat("x", 10_000)})
	end(nil)
	s := recorder.Ended()[0]
	for _, got := range []string{s.Name(), s.Attributes()[0].Value.AsString()} {
		if len(got) > 2*maxName || strings.ContainsAny(got, "\x1b\n") || !utf8.ValidString(got) {
			t.Errorf("a name is %q", got)
		}
	}
}

// What telemetry costs where it is on: a task with a question, a request to a model, a call of a tool, a
// command and a call of another node. The spans are thrown away.
func BenchmarkSixSpans(b *testing.B) {
	all, err := New(b.Context(), Config{Getenv: func(string) string { return "" }, Prometheus: true, State: func() State { return State{} }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer all.Close()
	all.tracer = sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter())).Tracer("test")
	b.ReportAllocs()
	for b.Loop() {
		work(b.Context(), all, nil)
	}
}
