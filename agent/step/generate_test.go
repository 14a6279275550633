package step_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/step"
)

type plan struct {
	Title string   `json:"title" jsonschema:"what it is about"`
	Parts []string `json:"parts"`
}

// says is a session whose model gives one answer after the other, and keeps what it was asked.
func says(asked *[]llm.Request, answers ...string) step.Session {
	return step.Session{System: "be brief", Model: llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		*asked = append(*asked, r)
		text := answers[min(len(*asked), len(answers))-1]
		return llm.Response{Message: llm.Message{Role: llm.Assistant, Text: text}}, nil
	})}
}

func planOf(topic string) string { return "Plan an essay about " + topic }

func TestGenerateTextAsksTheModelOfTheContext(t *testing.T) {
	var asked []llm.Request
	if got := run(t, step.With(says(&asked, "tides rise"), step.GenerateText(planOf)), "tides"); got != "tides rise" {
		t.Errorf("got %q", got)
	}
	if r := asked[0]; r.System != "be brief" || len(r.Messages) != 1 || r.Messages[0].Text != "Plan an essay about tides" {
		t.Errorf("asked %+v", r)
	}
	if _, err := step.GenerateText(planOf).Run(t.Context(), "tides"); err == nil ||
		!strings.Contains(err.Error(), "step.With(step.Session{") {
		t.Errorf("without a model: %v", err)
	}
}

func TestGenerateMakesAValue(t *testing.T) {
	const good = `{"title":"Tides","parts":["moon","sun"]}`
	for name, answers := range map[string][]string{
		"at once":           {good},
		"in a code block":   {"```json\n" + good + "\n```"},
		"at the second try": {"Here it is!", good},
		"after a bad one":   {`{"title":"Tides"}`, good},
		"one field more":    {`{"title":"Tides","parts":[],"pages":3}`, good},
	} {
		var asked []llm.Request
		got := run(t, step.With(says(&asked, answers...), step.Generate[string, plan](planOf)), "tides")
		if got.Title != "Tides" || len(got.Parts) != 2 {
			t.Errorf("%s: got %+v", name, got)
		}
		if len(asked) != len(answers) || asked[0].Output == nil || !strings.Contains(asked[0].Output.Instruction(), "what it is about") {
			t.Errorf("%s: asked %d times: %+v", name, len(asked), asked)
		}
		if last := asked[len(asked)-1].Messages; len(asked) == 2 &&
			(len(last) != 3 || last[1].Text != answers[0] || !strings.HasPrefix(last[2].Text, "That does not fit: ")) {
			t.Errorf("%s: it is told %+v", name, last)
		}
	}
}

func TestGenerateGivesUpAfterTwoAnswers(t *testing.T) {
	var asked []llm.Request
	got, err := step.With(says(&asked, "no", `{"parts":[]}`), step.Generate[string, plan](planOf)).Run(t.Context(), "tides")
	if !errors.Is(err, llm.ErrUnfit) || got.Title != "" || len(asked) != 2 {
		t.Errorf("got %+v, %v, asked %d times", got, err, len(asked))
	}
}

func TestSessionIsToldWhatItsAnswersCost(t *testing.T) {
	var total llm.Usage
	session := step.Session{
		Used: func(u llm.Usage) { total = total.Add(u) },
		Model: llm.Func(func(context.Context, llm.Request) (llm.Response, error) {
			return llm.Response{Message: llm.Message{Text: "no JSON"}, Usage: llm.Usage{Input: 10, Output: 1}}, nil
		}),
	}
	run(t, step.With(session, step.GenerateText(planOf)), "tides")
	if _, err := step.With(session, step.Generate[string, plan](planOf)).Run(t.Context(), "tides"); !errors.Is(err, llm.ErrUnfit) {
		t.Errorf("got %v", err)
	}
	if total.Input != 30 || total.Output != 3 {
		t.Errorf("three answers, one of them in vain: %+v", total)
	}
}

func TestAnswerThatWasCutOrRefusedIsNone(t *testing.T) {
	for stop, want := range map[llm.Stop]error{llm.StopLength: llm.ErrCut, llm.StopFilter: llm.ErrRefused} {
		model := llm.Func(func(context.Context, llm.Request) (llm.Response, error) {
			return llm.Response{Message: llm.Message{Text: "half"}, Stop: stop}, nil
		})
		if _, err := step.With(step.Session{Model: model}, step.GenerateText(planOf)).Run(t.Context(), "x"); !errors.Is(err, want) {
			t.Errorf("%s: got %v", stop, err)
		}
	}
}

func TestTypeWithoutAFormIsAnError(t *testing.T) {
	if _, err := step.Generate[string, chan int](planOf).Run(t.Context(), "x"); err == nil {
		t.Error("a channel was generated")
	}
}
