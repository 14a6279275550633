package llmtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
)

// answer is how a model under test is made to answer every request.
type answer struct {
	Text  string
	Calls []llm.ToolCall // their ids may be changed by the model
	Stop  llm.Stop       // StopEnd if empty, or StopTools with calls
	Usage llm.Usage
	// Fault is one of llm's errors: ErrRateLimited, ErrAuth or ErrUnavailable in place of an answer;
	// ErrCut or ErrMalformed after the text.
	Fault error
	// Stall means that the answer never begins.
	Stall bool
}

// runSuite runs the suite. made returns a model that gives the answer; what it needs for that ends
// with t. It may return nil for ErrCut, ErrMalformed and StopFilter if the model knows no such fault. Faults may be
// repeated by the model, so made should see to short waits.
func runSuite(t *testing.T, made func(t *testing.T, a answer) llm.Model) {
	t.Run("AnswersWithText", func(t *testing.T) { answersWithText(t, made) })
	t.Run("AnswersWithCalls", func(t *testing.T) { answersWithCalls(t, made) })
	t.Run("TakesResults", func(t *testing.T) { takesResults(t, made) })
	t.Run("SaysWhyItStopped", func(t *testing.T) { saysWhyItStopped(t, made) })
	t.Run("ReportsFaultsByKind", func(t *testing.T) { reportsFaults(t, made) })
	t.Run("EndsWithTheContext", func(t *testing.T) { endsWithTheContext(t, made) })
	t.Run("StopsWhenTheReaderStops", func(t *testing.T) { stopsWithTheReader(t, made) })
	t.Run("ServesManyAtOnce", func(t *testing.T) { servesMany(t, made) })
}

var (
	hello  = llm.Request{System: "be brief", Messages: []llm.Message{{Role: llm.User, Text: "hello"}}}
	args   = json.RawMessage(`{"city":"Göteborg","deep":{"n":[1,2]}}`)
	needed = []llm.ToolSpec{{Name: "weather", Description: "the weather of a city", Schema: json.RawMessage(`{"type":"object"}`)}}
)

// observe reads a stream and checks what holds for every stream.
func observe(t *testing.T, ctx context.Context, m llm.Model, r llm.Request) (llm.Response, error) {
	t.Helper()
	var (
		stops, usages int
		failed        error
		began         bool
		resp          = llm.Response{Message: llm.Message{Role: llm.Assistant}}
	)
	for c, err := range m.Stream(ctx, r) {
		if failed != nil {
			t.Errorf("%+v, %v was yielded after the error %v", c, err, failed)
		}
		if err != nil {
			failed = err
			continue
		}
		if stops > 0 {
			t.Errorf("%+v was yielded after the chunk with the stop reason", c)
		}
		if c == (llm.Chunk{}) {
			t.Error("an empty chunk")
		}
		if c.Retry != nil {
			if began {
				t.Errorf("%+v was yielded after the answer began", *c.Retry)
			}
			if c.Retry.Model == "" || c.Retry.Next == "" || c.Retry.Err == nil || c.Retry.Attempt < 1 {
				t.Errorf("%+v does not say what failed", *c.Retry)
			}
			continue
		}
		began = true
		resp.Message.Text += c.Text
		if c.Call != nil {
			if c.Call.ID == "" || !json.Valid(c.Call.Args) {
				t.Errorf("call %+v: want an id, and arguments that are JSON", *c.Call)
			}
			resp.Message.Calls = append(resp.Message.Calls, *c.Call)
		}
		if c.Usage != nil {
			usages++
			resp.Usage = *c.Usage
		}
		if c.Stop != "" {
			stops++
			resp.Stop = c.Stop
		}
	}
	if usages > 1 {
		t.Errorf("usage was yielded %d times, want at most once", usages)
	}
	if failed == nil && stops != 1 {
		t.Errorf("the answer has %d stop reasons, want 1", stops)
	}
	if failed != nil && stops != 0 {
		t.Errorf("a stop reason and the error %v", failed)
	}
	return resp, failed
}

func answersWithText(t *testing.T, made func(*testing.T, answer) llm.Model) {
	const text = "Grüße, \"world\"\n\tand a backslash \\ and 日本語 <html> & more of it"
	m := made(t, answer{Text: text, Usage: llm.Usage{Input: 12, Output: 34}})
	if m.Name() == "" {
		t.Error("the model has no name")
	}
	got, err := observe(t, t.Context(), m, hello)
	if err != nil {
		t.Fatal(err)
	}
	want := llm.Response{Message: llm.Message{Role: llm.Assistant, Text: text}, Usage: llm.Usage{Input: 12, Output: 34, Model: got.Usage.Model}, Stop: llm.StopEnd}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("answer (-want +got):\n%s", d)
	}
	again, err := llm.Collect(m.Stream(t.Context(), hello), nil)
	if d := cmp.Diff(want, again); d != "" || err != nil {
		t.Errorf("a second request: %v (-want +got):\n%s", err, d)
	}
}

func answersWithCalls(t *testing.T, made func(*testing.T, answer) llm.Model) {
	m := made(t, answer{Text: "let me see", Calls: []llm.ToolCall{
		{ID: "a", Name: "weather", Args: args}, {ID: "b", Name: "weather", Args: json.RawMessage(`{}`)}, {ID: "c", Name: "clock", Args: json.RawMessage(`{"n":1}`)},
	}})
	r := hello
	r.Tools = needed
	got, err := observe(t, t.Context(), m, r)
	if err != nil {
		t.Fatal(err)
	}
	if got.Message.Text != "let me see" || got.Stop != llm.StopTools {
		t.Errorf("text %q, stop %s; want the text and tool_calls", got.Message.Text, got.Stop)
	}
	ids := map[string]bool{}
	var said []string
	for _, c := range got.Message.Calls {
		ids[c.ID] = true
		said = append(said, c.Name+" "+string(c.Args))
	}
	if d := cmp.Diff([]string{"weather " + string(args), "weather {}", `clock {"n":1}`}, said); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	if len(ids) != 3 {
		t.Errorf("the ids of 3 calls are %v", ids)
	}
}

func takesResults(t *testing.T, made func(*testing.T, answer) llm.Model) {
	m := made(t, answer{Text: "cold", Calls: []llm.ToolCall{{ID: "a", Name: "weather", Args: args}}})
	r := hello
	r.Tools = needed
	r.Messages = append(r.Messages[:1:1],
		llm.Message{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "a", Name: "weather", Args: args}, {ID: "c1", Name: "weather", Args: json.RawMessage(`"no object"`)}}},
		llm.Message{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "a", Name: "weather", Text: "-3 °C"}, {CallID: "c1", Name: "weather", Text: "want an object", IsError: true}}},
	)
	got, err := observe(t, t.Context(), m, r)
	if err != nil {
		t.Fatal(err)
	}
	if got.Message.Text != "cold" || len(got.Message.Calls) != 1 {
		t.Fatalf("answer = %+v", got.Message)
	}
	if id := got.Message.Calls[0].ID; id == "a" || id == "c1" {
		t.Errorf("the id %s is used twice in one conversation", id)
	}
}

func saysWhyItStopped(t *testing.T, made func(*testing.T, answer) llm.Model) {
	for _, stop := range []llm.Stop{llm.StopEnd, llm.StopLength, llm.StopFilter} {
		m := made(t, answer{Text: "so far", Stop: stop})
		if m == nil {
			continue
		}
		got, err := observe(t, t.Context(), m, hello)
		if err != nil || got.Stop != stop || got.Message.Text != "so far" {
			t.Errorf("stop = %s, %q, %v; want %s", got.Stop, got.Message.Text, err, stop)
		}
	}
}

func reportsFaults(t *testing.T, made func(*testing.T, answer) llm.Model) {
	for _, fault := range []error{llm.ErrRateLimited, llm.ErrAuth, llm.ErrUnavailable, llm.ErrCut, llm.ErrMalformed} {
		m := made(t, answer{Text: "half", Fault: fault})
		if m == nil {
			continue
		}
		got, err := observe(t, t.Context(), m, hello)
		if !errors.Is(err, fault) {
			t.Errorf("error = %v, want %v", err, fault)
		}
		var e *llm.Error
		if !errors.As(err, &e) || e.Model == "" {
			t.Errorf("error %v is no *llm.Error that names its model", err)
		}
		if late := fault == llm.ErrCut || fault == llm.ErrMalformed; late && got.Message.Text != "half" {
			t.Errorf("%v: the text before the fault is %q, want half", fault, got.Message.Text)
		}
	}
}

func endsWithTheContext(t *testing.T, made func(*testing.T, answer) llm.Model) {
	ended, stop := context.WithCancel(t.Context())
	stop()
	if got, err := observe(t, ended, made(t, answer{Text: "x"}), hello); !errors.Is(err, context.Canceled) || got.Message.Text != "" {
		t.Errorf("an ended context: got %q, %v; want canceled", got.Message.Text, err)
	}
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := observe(t, short, made(t, answer{Stall: true}), hello); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a model that does not answer: %v, want the context's deadline", err)
	}
}

func stopsWithTheReader(t *testing.T, made func(*testing.T, answer) llm.Model) {
	m := made(t, answer{Text: "one two three four", Calls: []llm.ToolCall{{ID: "a", Name: "weather", Args: args}}})
	for skip := range 3 {
		n := 0
		for range m.Stream(t.Context(), hello) {
			if n++; n > skip {
				break
			}
		}
	}
}

func servesMany(t *testing.T, made func(*testing.T, answer) llm.Model) {
	m := made(t, answer{Text: "one two three four", Calls: []llm.ToolCall{{ID: "a", Name: "weather", Args: args}}})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			r := llm.Request{Messages: []llm.Message{{Role: llm.User, Text: fmt.Sprint("hello ", i)}}}
			got, err := llm.Collect(m.Stream(t.Context(), r), nil)
			if err != nil || got.Message.Text != "one two three four" || len(got.Message.Calls) != 1 {
				t.Errorf("request %d: %+v, %v", i, got.Message, err)
			}
		})
	}
	wg.Wait()
}
