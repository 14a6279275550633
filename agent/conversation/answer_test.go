package conversation_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/conversation"
	"symbio/agent/event"
	"symbio/agent/llm"
)

// sequence is a model that gives these answers one after the other, and then the last one again. It keeps the requests.
type sequence struct {
	answers  []llm.Response
	requests []llm.Request
}

func (s *sequence) model() llm.Model {
	return llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		s.requests = append(s.requests, r)
		answer := s.answers[0]
		if len(s.answers) > 1 {
			s.answers = s.answers[1:]
		}
		answer.Usage = llm.Usage{Input: 10, Output: 1}
		return answer, nil
	})
}

func text(t string) llm.Response {
	return llm.Response{Message: llm.Message{Text: t}, Stop: llm.StopEnd}
}

func calls(all ...llm.ToolCall) llm.Response {
	return llm.Response{Message: llm.Message{Calls: all}, Stop: llm.StopTools}
}

// Each turn ends in calls, an answer or a failure that is named. A model that answers with none of them is asked again.
func TestTurnThatBroughtNothingIsAskedAgain(t *testing.T) {
	dropped := llm.Response{Message: llm.Message{Text: "I look."}, Stop: llm.StopTools}
	for name, c := range map[string]struct {
		answers []llm.Response
		want    string // the answer; "" = ErrNoAnswer
		notes   []string
		history []string
	}{
		"an answer":            {[]llm.Response{text("fine")}, "fine", nil, []string{"user: go", "assistant: fine"}},
		"nothing once":         {[]llm.Response{text(""), text("fine")}, "fine", []string{"empty"}, []string{"user: go", "assistant: fine"}},
		"white space twice":    {[]llm.Response{text(" \n\t"), text("\n"), text("fine")}, "fine", []string{"empty", "empty"}, []string{"user: go", "assistant: fine"}},
		"nothing three times":  {[]llm.Response{text("")}, "", []string{"empty", "empty"}, nil},
		"a call that is lost":  {[]llm.Response{dropped, text("fine")}, "fine", []string{"no call arrived"}, []string{"user: go", "assistant: fine"}},
		"lost three times":     {[]llm.Response{dropped}, "", []string{"no call arrived", "no call arrived"}, nil},
		"a call after nothing": {[]llm.Response{text(""), calls(talks(1)), text("fine")}, "fine", []string{"empty"}, []string{"user: go", "assistant: [1 talk]", "tool: [1 x]", "assistant: fine"}},
		"nothing after a result": {
			[]llm.Response{calls(talks(1)), text(""), text("fine")}, "fine", []string{"empty"}, []string{"user: go", "assistant: [1 talk]", "tool: [1 x]", "assistant: fine"},
		},
		"nothing more after a result": {
			[]llm.Response{calls(talks(1)), text("")}, "", []string{"empty", "empty"}, []string{"user: go", "assistant: [1 talk]", "tool: [1 x]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sequence{answers: c.answers}
			for i := range s.answers {
				for j := range s.answers[i].Message.Calls {
					s.answers[i].Message.Calls[j].ID = "1"
				}
			}
			var retries int
			conv := conversation.New(conversation.Config{Model: s.model(), Tools: tools(), Watch: func(_ context.Context, e event.Event) {
				if e.Type == event.TypeRetry && e.Why == conversation.ErrNoAnswer.Error() {
					retries++
				}
			}})
			reply, err := conv.Send(t.Context(), "go")
			if c.want == "" && !errors.Is(err, conversation.ErrNoAnswer) || c.want != "" && (err != nil || reply.Text != c.want) {
				t.Errorf("got %q, %v; want %q", reply.Text, err, c.want)
			}
			var notes []string
			for _, r := range s.requests {
				if m := last(r); m.Role == llm.User && strings.HasPrefix(m.Text, "[You") {
					notes = append(notes, m.Text)
				}
			}
			if len(notes) != len(c.notes) || retries != len(c.notes) {
				t.Fatalf("the model was told %q, and people of %d tries; want %q", notes, retries, c.notes)
			}
			for i, want := range c.notes {
				if !strings.Contains(notes[i], want) {
					t.Errorf("the model was told %q, want %q", notes[i], want)
				}
			}
			if reply.Usage.Input != 10*len(s.requests) {
				t.Errorf("%d tokens are counted for %d requests", reply.Usage.Input, len(s.requests))
			}
			if diff := cmp.Diff(c.history, texts(conv.Transcript())); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
		})
	}
}

// An answer that was cut or refused has a failure of its own, and is not asked for again.
func TestCutAnswerWithoutTextIsNotAskedForAgain(t *testing.T) {
	for stop, want := range map[llm.Stop]error{llm.StopLength: llm.ErrCut, llm.StopFilter: llm.ErrRefused} {
		s := &sequence{answers: []llm.Response{{Stop: stop}}}
		_, err := conversation.New(conversation.Config{Model: s.model(), Tools: tools()}).Send(t.Context(), "go")
		if !errors.Is(err, want) || len(s.requests) != 1 {
			t.Errorf("%s: %v after %d requests, want %v after one", stop, err, len(s.requests), want)
		}
	}
}
