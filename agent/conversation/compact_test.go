package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/conversation"
	"symbio/agent/event"
	"symbio/agent/llm"
)

func isSummary(r llm.Request) bool { return strings.HasPrefix(r.System, "You sum up a conversation") }

// size is how many bytes a request has, with room for what is around them.
func size(r llm.Request) (n int) {
	n = len(r.System)
	for _, m := range r.Messages {
		n += len(m.Text) + 24
		for _, c := range m.Calls {
			n += len(c.Name) + len(c.Args) + 24
		}
		for _, res := range m.Results {
			n += len(res.Text) + 24
		}
	}
	return n
}

// bounded is a model that can be given so many bytes and works through its calls, one in a turn, with as much to say in
// each. It answers "done", and sums up with sum.
type bounded struct {
	t        *testing.T
	most     int // 0 = any
	calls    []llm.ToolCall
	says     int
	sum      func() (llm.Message, error)
	counts   func(r llm.Request) llm.Usage
	requests []llm.Request
	refused  int
	sums     []llm.Request
	turn     int
}

func (b *bounded) model() llm.Model {
	return llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		if err := conversation.Sound(r.Messages); err != nil {
			b.t.Error(err)
		}
		if b.most > 0 && size(r) > b.most {
			b.refused++
			return llm.Response{}, &llm.Error{Model: "bounded", Err: llm.ErrContextLength}
		}
		if isSummary(r) {
			b.sums = append(b.sums, r)
			m, err := llm.Message{Text: "SUMMARY " + fmt.Sprint(len(b.sums))}, error(nil)
			if b.sum != nil {
				m, err = b.sum()
			}
			return llm.Response{Message: m, Usage: llm.Usage{Input: 100, Output: 10}}, err
		}
		for i, m := range r.Messages[1:] {
			if m.Role == llm.User && r.Messages[i].Role == llm.User {
				b.t.Error("two messages of the person in a row: some servers refuse that")
			}
		}
		b.requests = append(b.requests, r)
		var u llm.Usage
		if b.counts != nil {
			u = b.counts(r)
		}
		if b.turn >= len(b.calls) {
			return llm.Response{Message: llm.Message{Text: "done"}, Usage: u}, nil
		}
		b.turn++
		return llm.Response{Message: llm.Message{Text: strings.Repeat("a", b.says), Calls: []llm.ToolCall{b.calls[b.turn-1]}}, Usage: u}, nil
	})
}

func (b *bounded) last() llm.Request { return b.requests[len(b.requests)-1] }

func times(n int, c llm.ToolCall) (all []llm.ToolCall) {
	for range n {
		all = append(all, c)
	}
	return all
}

// told is what a conversation reported of making room.
type told struct {
	event.Compaction
	why string
}

// compacting is a conversation with a context of so many tokens, and what it told of making room in it.
func compacting(b *bounded, window int) (*conversation.Conversation, *[]told) {
	var all []told
	c := conversation.New(conversation.Config{Model: b.model(), Tools: tools(), Window: func() int { return window }, MaxTurns: 100, Watch: func(_ context.Context, e event.Event) {
		if e.Type == event.TypeCompacted {
			all = append(all, told{event.PartOf[event.Compaction](e), e.Why})
		}
	}})
	return c, &all
}

func TestResultsOfToolsAreCutBeforeAnythingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bounded{t: t, calls: times(12, talks(3000))}
		c, told := compacting(b, 12_000)
		want(t, "task", send(t.Context(), c, "the task"), "done", nil)
		if len(b.sums) != 0 || len(*told) == 0 {
			t.Fatalf("%d summaries, %d times room was made; want no summary: the results were enough", len(b.sums), len(*told))
		}
		if got := (*told)[0]; got.Cut == 0 || got.Summed != 0 || got.Done >= got.Total || got.Done > 6000 || got.Total < 9600 || got.why != "" {
			t.Errorf("told %+v", got)
		}
		messages := b.last().Messages
		if m := messages[0]; m.Text != "the task" {
			t.Errorf("the first message is %q", m.Text)
		}
		if r := messages[len(messages)-1].Results[0]; len(r.Text) != 3000 {
			t.Errorf("the latest result has %d bytes, want it whole", len(r.Text))
		}
		if r := messages[2].Results[0]; len(r.Text) > 800 || !strings.HasPrefix(r.Text, "xxx") || !strings.HasSuffix(r.Text, "[2400 bytes of this result were cut out to make room; call the tool again if you need them.]") {
			t.Errorf("an old result is %.700q", r.Text)
		}
		for i, r := range b.requests {
			if size(r) > 12_000*3 {
				t.Errorf("request %d has %d bytes", i, size(r))
			}
		}
		if r := b.requests[2].Messages[2].Results[0]; len(r.Text) != 3000 {
			t.Error("an earlier request was written to")
		}
	})
}

func TestModelSumsUpTheOlderPartAndTheTaskStaysWordForWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bounded{t: t, calls: times(40, talks(200)), says: 2000}
		c, told := compacting(b, 12_000)
		want(t, "first", send(t.Context(), c, "first things"), "done", nil)
		task := "the task, with every word of it"
		b.turn = 0
		var delivered conversation.Receipt
		work := send(t.Context(), c, task)
		delivered, _ = c.Interject(t.Context(), conversation.Steering{Text: "and mind the gap", Keep: true})
		want(t, "task", work, "done", nil)
		if len(b.sums) < 3 || len(*told) != len(b.sums) {
			t.Fatalf("%d summaries, room was made %d times, %+v", len(b.sums), len(*told), delivered)
		}
		first := b.last().Messages[0]
		for _, part := range []string{"SUMMARY " + fmt.Sprint(len(b.sums)), task, "mind the gap"} {
			if strings.Count(first.Text, part) != 1 {
				t.Errorf("%q is %d times in the first message:\n%s", part, strings.Count(first.Text, part), first.Text)
			}
		}
		if strings.Contains(first.Text, "first things") {
			t.Error("an earlier task stands there word for word")
		}
		asked := b.sums[0].Messages[0].Text
		if len(b.sums[0].Tools) != 0 || !strings.HasPrefix(asked, "PERSON: first things\nASSISTANT: aaa") || !strings.Contains(asked, `ASSISTANT calls talk {"bytes":200}`) || !strings.Contains(asked, "RESULT of talk: xxx") {
			t.Errorf("asked to sum up, with %d tools: %.300s", len(b.sums[0].Tools), asked)
		}
		for i, one := range *told {
			if one.Summed == 0 || one.Done > 7000 || one.Usage.Input != 100 || one.why != "" {
				t.Errorf("compaction %d: %+v", i, one)
			}
		}
		if got := c.Transcript(); cmp.Diff(texts(got[:1]), texts([]llm.Message{first})) != "" {
			t.Error("the history does not begin with the summary")
		}
	})
}

func TestModelThatTakesLessThanAssumedIsGivenLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bounded{t: t, most: 20_000, calls: times(30, talks(2000)), says: 500}
		c, told := compacting(b, 0)
		want(t, "task", send(t.Context(), c, "the task"), "done", nil)
		if b.refused != 1 || len(*told) < 2 {
			t.Errorf("refused %d times, room was made %d times; want one refusal, from which it learned", b.refused, len(*told))
		}
		if !strings.Contains(b.last().Messages[0].Text, "the task") {
			t.Error("the task is gone")
		}
	})
}

func TestHistoryThatCannotShrinkReturnsModelError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bounded{t: t, most: 10_000}
		c, told := compacting(b, 0)
		if _, err := c.Send(t.Context(), strings.Repeat("long ", 3000)); !errors.Is(err, llm.ErrContextLength) || b.refused != 1 || len(*told) != 0 {
			t.Errorf("%v after %d refusals; want the model's own after one", err, b.refused)
		}
		b.refused, b.most = 0, 100 // not even what is left fits
		b.calls = times(1, talks(9000))
		if _, err := c.Send(t.Context(), strings.Repeat("x", 200)); !errors.Is(err, llm.ErrContextLength) || b.refused > 2 {
			t.Errorf("%v after %d refusals; want at most one more try", err, b.refused)
		}
	})
}

func TestResultThatIsTooLargeByItselfIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bounded{t: t, most: 30_000, calls: times(1, talks(60_000))}
		c, told := compacting(b, 10_000)
		want(t, "task", send(t.Context(), c, "the task"), "done", nil)
		m := b.last().Messages
		if r := m[len(m)-1].Results[0]; len(r.Text) < 5000 || len(r.Text) > 8000 || len(*told) != 1 || b.refused != 0 {
			t.Errorf("the result has %d bytes, room was made %d times, %d refusals", len(r.Text), len(*told), b.refused)
		}
	})
}

func TestWithoutASummaryAnExchangeGoesOn(t *testing.T) {
	for name, sum := range map[string]func() (llm.Message, error){
		"an error":  func() (llm.Message, error) { return llm.Message{}, llm.ErrQuota },
		"no answer": func() (llm.Message, error) { return llm.Message{Text: " \n"}, nil },
		"too long":  func() (llm.Message, error) { return llm.Message{}, llm.ErrContextLength },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bounded{t: t, calls: times(20, talks(200)), says: 2000, sum: sum}
				c, told := compacting(b, 12_000)
				want(t, "task", send(t.Context(), c, "the task"), "done", nil)
				if len(*told) == 0 || (*told)[0].why == "" || (*told)[0].Summed == 0 {
					t.Fatalf("told %+v", *told)
				}
				if text := b.last().Messages[0].Text; strings.Count(text, "the task") == 0 || !strings.Contains(text, "ASSISTANT") {
					t.Errorf("in place of the summary stands %.300q", text)
				}
				if len(b.sums) > 10 {
					t.Errorf("the model was asked %d times for summaries", len(b.sums))
				}
			})
		})
	}
}

func TestAfterRoomWasMadeTheSystemPromptIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bounded{t: t, calls: times(8, talks(3000))}
		lost := 0
		c := conversation.New(conversation.Config{Model: b.model(), Tools: tools(), Window: func() int { return 8000 },
			OnLost: func(bool) { lost++ },
			System: func(context.Context) ([]conversation.Part, error) {
				return []conversation.Part{{Text: fmt.Sprintf("lost %d times", lost)}}, nil
			},
		})
		want(t, "task", send(t.Context(), c, "the task"), "done", nil)
		if got := b.last().System; lost == 0 || got != fmt.Sprintf("lost %d times", lost) {
			t.Errorf("lost %d times, and the system prompt is %q", lost, got)
		}
		failed := errors.New("no prompt")
		c = conversation.New(conversation.Config{Model: b.model(), System: func(context.Context) ([]conversation.Part, error) { return nil, failed }})
		want(t, "without a prompt", send(t.Context(), c, "x"), "", failed)
	})
}

func TestTokenCountOfModelIsClamped(t *testing.T) {
	for name, test := range map[string]struct {
		turns  int
		counts func(llm.Request) llm.Usage
		made   func(n int) bool
	}{
		"as estimated":        {12, nil, func(n int) bool { return n > 0 }},
		"less than estimated": {12, func(r llm.Request) llm.Usage { return llm.Usage{Input: size(r) / 5} }, func(n int) bool { return n == 0 }},
		"more than estimated": {8, func(r llm.Request) llm.Usage { return llm.Usage{Input: size(r) / 2} }, func(n int) bool { return n > 0 }},
		"nothing at all":      {24, func(r llm.Request) llm.Usage { return llm.Usage{Input: 1} }, func(n int) bool { return n > 0 }},
		"out of the world":    {8, func(r llm.Request) llm.Usage { return llm.Usage{Input: 1 << 40} }, func(n int) bool { return n < 4 }},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &bounded{t: t, calls: times(test.turns, talks(2500)), counts: test.counts}
			c, told := compacting(b, 9_500)
			want(t, name, send(t.Context(), c, "the task"), "done", nil)
			if n := len(*told); !test.made(n) {
				t.Errorf("%s: room was made %d times", name, n)
			}
		})
	}
}

func TestEndWhileItSumsUpIsAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bounded{t: t, calls: times(20, talks(200)), says: 2000}
		c, told := compacting(b, 12_000)
		b.sum = func() (llm.Message, error) { _ = c.Interrupt(); return llm.Message{}, context.Canceled }
		if _, err := c.Send(t.Context(), "the task"); !errors.Is(err, conversation.ErrInterrupted) || len(*told) != 0 {
			t.Errorf("%v, told %+v", err, *told)
		}
		if err := conversation.Sound(c.Transcript()); err != nil || len(c.Transcript()) < 5 {
			t.Errorf("%d messages: %v", len(c.Transcript()), err)
		}
	})
}

func TestRoomIsMadeOnceForATurnThatIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bounded{t: t, calls: times(20, talks(2000)), says: 1000}
		asked := 0
		whole := b.model()
		c := conversation.New(conversation.Config{Tools: tools(), MaxTurns: 100, Model: llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
			if len(r.Messages) > 30 || asked > 0 {
				if !isSummary(r) {
					asked++
				}
				return llm.Response{}, &llm.Error{Err: llm.ErrContextLength}
			}
			return llm.Collect(whole.Stream(ctx, r), nil)
		})})
		if _, err := c.Send(t.Context(), "the task"); !errors.Is(err, llm.ErrContextLength) || asked != 2 {
			t.Errorf("%v after %d requests that were too long, want 2", err, asked)
		}
	})
}

func TestConversationOfManyMessagesIsSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bounded{t: t}
		long := llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
			got, err := llm.Collect(b.model().Stream(ctx, r), nil)
			if !isSummary(r) {
				got.Message.Text = strings.Repeat("b", 100+len(b.requests)*37%1900)
			}
			return got, err
		})
		var all []told
		c := conversation.New(conversation.Config{Model: long, Window: func() int { return 6000 }, Watch: func(_ context.Context, e event.Event) {
			if e.Type == event.TypeCompacted {
				all = append(all, told{event.PartOf[event.Compaction](e), e.Why})
			}
		}})
		for i := range 120 {
			text := fmt.Sprintf("message %d %s", i, strings.Repeat("c", i*53%900))
			if _, err := c.Send(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			if m := b.last().Messages; !strings.HasSuffix(m[len(m)-1].Text, text) || strings.Count(m[len(m)-1].Text, text) != 1 {
				t.Fatalf("message %d is given as %q", i, m[len(m)-1].Text)
			}
		}
		if len(all) < 5 || len(b.sums) != len(all) {
			t.Errorf("room was made %d times, with %d summaries", len(all), len(b.sums))
		}
	})
}

func TestTaskThatBeginsWithASummaryStaysWordForWordInTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bounded{t: t, says: 1000}
		c, told := compacting(b, 6000)
		var history []llm.Message
		for i := range 16 {
			history = append(history, llm.Message{Role: llm.User, Text: fmt.Sprint("old ", i, strings.Repeat("o", 700))}, llm.Message{Role: llm.Assistant, Text: strings.Repeat("p", 300)})
		}
		if err := c.Replace(history); err != nil {
			t.Fatal(err)
		}
		b.calls = times(30, talks(100))
		want(t, "task", send(t.Context(), c, "the new task"), "done", nil)
		if first := b.requests[0].Messages[0].Text; len(*told) < 3 || !strings.Contains(first, "SUMMARY 1") {
			t.Fatalf("room was made %d times; the first request begins with %.100q", len(*told), first)
		}
		for i, r := range b.requests {
			if all := strings.Join(texts(r.Messages), "\n"); strings.Count(all, "the new task") != 1 {
				t.Fatalf("request %d has the task %d times", i, strings.Count(all, "the new task"))
			}
		}
	})
}

func TestRoomThatCannotBeMadeIsNotSoughtInEachTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bounded{t: t, calls: times(40, talks(2000))}
		made := 0
		c := conversation.New(conversation.Config{Model: b.model(), Tools: tools(), Window: func() int { return 10_000 }, MaxTurns: 100, Instructions: strings.Repeat("long ", 5500), Watch: func(_ context.Context, e event.Event) {
			if e.Type == event.TypeCompacted {
				made++
			}
		}})
		want(t, "task", send(t.Context(), c, "the task"), "done", nil)
		if made == 0 || made > 30 {
			t.Errorf("room was made %d times in 40 turns", made)
		}
	})
}
