package llm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"symbio/agent/llm"
)

func stream(chunks []llm.Chunk, end error) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
		}
		if end != nil {
			yield(llm.Chunk{}, end)
		}
	}
}

func TestCollectJoinsAnAnswer(t *testing.T) {
	call := llm.ToolCall{ID: "c1", Name: "Glob", Args: json.RawMessage(`{}`)}
	seen := 0
	got, err := llm.Collect(stream([]llm.Chunk{
		{Text: "a"}, {Text: "b"}, {Call: &call}, {Usage: &llm.Usage{Input: 3, Output: 4}, Stop: llm.StopTools},
	}, nil), func(llm.Chunk) { seen++ })
	if err != nil {
		t.Fatal(err)
	}
	want := llm.Response{
		Message: llm.Message{Role: llm.Assistant, Text: "ab", Calls: []llm.ToolCall{call}},
		Usage:   llm.Usage{Input: 3, Output: 4}, Stop: llm.StopTools,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("response (-want +got):\n%s", d)
	}
	if seen != 4 {
		t.Errorf("each saw %d chunks, want 4", seen)
	}
}

func TestCollectRefusesAnAnswerWithoutAnEnd(t *testing.T) {
	got, err := llm.Collect(stream([]llm.Chunk{{Text: "half"}}, nil), nil)
	if !errors.Is(err, llm.ErrCut) {
		t.Errorf("error = %v, want ErrCut", err)
	}
	if got.Message.Text != "half" {
		t.Errorf("text = %q, want what came", got.Message.Text)
	}
}

func TestCollectKeepsWhatCameBeforeAnError(t *testing.T) {
	got, err := llm.Collect(stream([]llm.Chunk{{Text: "half"}}, llm.ErrTimeout), nil)
	if !errors.Is(err, llm.ErrTimeout) || got.Message.Text != "half" {
		t.Errorf("got %q, %v; want half and ErrTimeout", got.Message.Text, err)
	}
}

func TestArgsAreAlwaysJSON(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "{}"},
		{"  null ", "{}"},
		{`{ "a" : 1 }`, `{"a":1}`},
		{`[1, 2]`, `[1,2]`},
		{`{"a":`, `"{\"a\":"`},
		{`{} {}`, `"{} {}"`},
		{"\xff", `"\ufffd"`},
	} {
		if got := string(llm.Args(c.in)); got != c.want {
			t.Errorf("Args(%q) = %s, want %s", c.in, got, c.want)
		}
	}
}

func TestCallIDsAreUniqueInAConversation(t *testing.T) {
	ids := llm.NewCallIDs([]llm.Message{{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "x"}, {ID: "c3"}}}})
	var got []string
	for _, want := range []string{"x", "", "y", "y"} {
		got = append(got, ids.Reserve(want))
	}
	if d := cmp.Diff([]string{"c4", "c5", "y", "c6"}, got); d != "" {
		t.Errorf("ids (-want +got):\n%s", d)
	}
}

func TestErrorSaysWhatHappenedAndKeepsItsKind(t *testing.T) {
	err := fmt.Errorf("turn 3: %w", &llm.Error{
		Model: "openai:x", Status: 429, RetryAfter: 2 * time.Second, Detail: "slow down", Err: llm.ErrRateLimited,
	})
	const want = "turn 3: model openai:x: too many requests (status 429), try again in 2s: slow down"
	if err.Error() != want {
		t.Errorf("error = %q, want %q", err, want)
	}
	if !errors.Is(err, llm.ErrRateLimited) {
		t.Error("the kind is lost")
	}
}

func TestStatusesMapToKinds(t *testing.T) {
	for status, want := range map[int]error{
		400: llm.ErrInvalid, 401: llm.ErrAuth, 402: llm.ErrQuota, 403: llm.ErrAuth, 404: llm.ErrNoModel,
		408: llm.ErrUnavailable, 413: llm.ErrContextLength, 422: llm.ErrInvalid, 429: llm.ErrRateLimited,
		500: llm.ErrUnavailable, 503: llm.ErrUnavailable, 529: llm.ErrUnavailable, 302: llm.ErrInvalid,
	} {
		if got := llm.StatusError(status); got != want {
			t.Errorf("status %d is %v, want %v", status, got, want)
		}
	}
}

func TestSecretNeverPrints(t *testing.T) {
	const key = "sk-very-secret"
	type holder struct {
		Name   string
		Key    llm.Secret
		hidden llm.Secret
	}
	s := llm.NewSecret(" " + key + "\n")
	if s.Reveal() != key || s.Empty() {
		t.Fatalf("Reveal = %q, Empty = %v", s.Reveal(), s.Empty())
	}
	h := holder{"x", s, s}
	var b bytes.Buffer
	for _, v := range []any{s, &s, h, &h, []llm.Secret{s}, map[string]any{"k": h}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
			fmt.Fprintf(&b, verb+"\n", v)
		}
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		y, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(j)
		b.Write(y)
		slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&b, nil)).Info("x", "v", v)
	}
	b.WriteString(s.Scrub("the key " + key + " is wrong"))
	if strings.Contains(b.String(), key) || strings.Contains(b.String(), fmt.Sprintf("%x", key)) {
		t.Errorf("the key shows in:\n%s", b.String())
	}
	var none llm.Secret
	if !none.Empty() || none.Reveal() != "" || none.Scrub("abc") != "abc" || none.String() != "" {
		t.Error("the zero Secret is not empty")
	}
}

func ExampleFunc() {
	echo := llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		return llm.Response{Message: llm.Message{Text: "you said " + r.Messages[len(r.Messages)-1].Text}}, nil
	})
	got, err := llm.Collect(echo.Stream(context.Background(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hi"}}}), nil)
	fmt.Println(got.Message.Text, got.Stop, err)
	// Output: you said hi end <nil>
}
