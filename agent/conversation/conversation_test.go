package conversation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/security/permission"
)

// answers is a model that answers by a function of what it is given.
func answers(f func(ctx context.Context, r llm.Request) (llm.Message, error)) llm.Model {
	return llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
		m, err := f(ctx, r)
		return llm.Response{Message: m}, err
	})
}

// stopping is a model whose answers end for that reason.
func stopping(why llm.Stop) llm.Model {
	return llm.Func(func(context.Context, llm.Request) (llm.Response, error) {
		return llm.Response{Message: llm.Message{Text: "as far as it got"}, Stop: why}, nil
	})
}

func say(text string) (llm.Message, error) { return llm.Message{Text: text}, nil }

func call(calls ...llm.ToolCall) (llm.Message, error) { return llm.Message{Calls: calls}, nil }

func waits(d time.Duration) llm.ToolCall {
	return llm.ToolCall{Name: "wait", Args: json.RawMessage(fmt.Sprintf(`{"seconds":%d}`, int(d.Seconds())))}
}

// last is the newest message of a request.
func last(r llm.Request) llm.Message { return r.Messages[len(r.Messages)-1] }

// lastWords is what was said last to the model, at the end of a request.
func lastWords(r llm.Request) string { return last(r).Text }

type waitArgs struct {
	Seconds int `json:"seconds"`
}

// tools are wait, which takes as long as it is told, and talk, which says that many bytes.
func tools() *tool.Set {
	wait := tool.New(tool.Spec{Name: "wait"}, func(ctx context.Context, a waitArgs) tool.Result {
		select {
		case <-time.After(time.Duration(a.Seconds) * time.Second):
			return tool.Result{Text: fmt.Sprintf("waited %d s", a.Seconds)}
		case <-ctx.Done():
			return tool.Result{Text: "did not wait", IsError: true}
		}
	})
	talk := tool.New(tool.Spec{Name: "talk"}, func(_ context.Context, a struct {
		Bytes int `json:"bytes"`
	}) tool.Result {
		return tool.Result{Text: strings.Repeat("x", a.Bytes)}
	})
	return tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Policy: permission.Policy{Default: permission.Allow}}}}, wait, talk)
}

func talks(bytes int) llm.ToolCall {
	return llm.ToolCall{Name: "talk", Args: json.RawMessage(fmt.Sprintf(`{"bytes":%d}`, bytes))}
}

// send sends in a goroutine of its own. What comes of it is there when it returns.
func send(ctx context.Context, c *conversation.Conversation, text string) func() (string, error) {
	var reply conversation.Reply
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { reply, err = c.Send(ctx, text) })
	return func() (string, error) { wg.Wait(); return reply.Text, err }
}

func want(t *testing.T, what string, done func() (string, error), text string, err error) {
	t.Helper()
	if got, gotErr := done(); got != text || !errors.Is(gotErr, err) {
		t.Errorf("%s: %q, %v; want %q, %v", what, got, gotErr, text, err)
	}
}

// echo answers with what it was told last, after a second.
func echo() llm.Model {
	return answers(func(ctx context.Context, r llm.Request) (llm.Message, error) {
		select {
		case <-time.After(time.Second):
			return say("re: " + lastWords(r))
		case <-ctx.Done():
			return llm.Message{}, ctx.Err()
		}
	})
}

func texts(messages []llm.Message) (out []string) {
	for _, m := range messages {
		line := string(m.Role) + ": " + m.Text
		for _, c := range m.Calls {
			line += fmt.Sprintf("[%s %s]", c.ID, c.Name)
		}
		for _, r := range m.Results {
			line += fmt.Sprintf("[%s %s]", r.CallID, r.Text)
		}
		out = append(out, line)
	}
	return out
}

func TestMessagesAreAnsweredInTheOrderInWhichTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := conversation.New(conversation.Config{Model: echo()})
		var all []func() (string, error)
		for i := range 4 {
			all = append(all, send(t.Context(), c, fmt.Sprint(i)))
			synctest.Wait()
		}
		if s := c.State(); !s.Responding || s.Waiting != 3 || s.Turn != 1 {
			t.Errorf("state = %+v, want one in flight in its first turn, and three that wait", s)
		}
		start := time.Now()
		for i, done := range all {
			want(t, fmt.Sprint("message ", i), done, fmt.Sprint("re: ", i), nil)
			if took := time.Since(start); took != time.Duration(i+1)*time.Second {
				t.Errorf("message %d was answered after %v, want %d s", i, took, i+1)
			}
		}
		if d := cmp.Diff([]string{"user: 0", "assistant: re: 0", "user: 1", "assistant: re: 1", "user: 2", "assistant: re: 2", "user: 3", "assistant: re: 3"}, texts(c.Transcript())); d != "" {
			t.Errorf("transcript (-want +got):\n%s", d)
		}
		if c.State().Responding {
			t.Error("it is responding after all was answered")
		}
	})
}

func TestCancelledMessageLeavesTheQueueWithoutATrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := conversation.New(conversation.Config{Model: echo(), Waiting: 1})
		first := send(t.Context(), c, "first")
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := send(ctx, c, "gone")
		synctest.Wait()
		want(t, "one too many", send(t.Context(), c, "x"), "", conversation.ErrBusy)
		why := errors.New("no more wanted")
		cancel(why)
		want(t, "the cancelled", gone, "", why)
		second := send(t.Context(), c, "second") // there is room again
		want(t, "first", first, "re: first", nil)
		want(t, "second", second, "re: second", nil)
		if n := len(c.Transcript()); n != 4 {
			t.Errorf("%d messages in the history, want 4", n)
		}
	})
}

// Whoever has the slot at the very moment at which they give up hands it on.
func TestSlotSurvivesCancelledWaiter(t *testing.T) {
	for range 50 { // which of the two comes first is a matter of luck
		synctest.Test(t, func(t *testing.T) {
			c := conversation.New(conversation.Config{Model: echo()})
			first := send(t.Context(), c, "first")
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // at which first is done
			defer cancel()
			second := send(ctx, c, "second")
			synctest.Wait()
			third := send(t.Context(), c, "third")
			want(t, "first", first, "re: first", nil)
			want(t, "second", second, "", context.DeadlineExceeded)
			want(t, "third", third, "re: third", nil)
			want(t, "fourth", send(t.Context(), c, "fourth"), "re: fourth", nil)
		})
	}
}

func TestWithoutAModelThereIsAnErrorThatSaysSo(t *testing.T) {
	if _, err := conversation.New(conversation.Config{}).Send(t.Context(), "hello"); !errors.Is(err, llm.ErrNoModel) {
		t.Errorf("got %v", err)
	}
}
