// Command race asks three models the same and delay the first answer. The models are functions here, so that no key is
// needed: one is down, one is slow, one is quick.
package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"symbio/agent/llm"
	"symbio/agent/step"
)

// delayedModel is a model that answers with its name after a while, or fails. delay is how long it
// takes to answer; 0 answers at once. A non-nil err is yielded together with the text.
type delayedModel struct {
	name  string
	delay time.Duration
	err   error
}

func (a delayedModel) Name() string { return a.name }

// Stream waits for delay or the end of ctx and yields one chunk. It must return when ctx ends: Race
// waits for the steps that it has cancelled.
func (a delayedModel) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if a.delay > 0 {
			select {
			case <-ctx.Done():
				fmt.Println(a.name, "was cancelled")
				yield(llm.Chunk{}, ctx.Err())
				return
			case <-time.After(a.delay):
			}
		}
		yield(llm.Chunk{Text: "this is " + a.name, Stop: llm.StopEnd}, a.err)
	}
}

// askModel returns a step that asks one model.
func askModel(m llm.Model) step.Step[string, string] {
	return step.With(step.Session{Model: m}, step.GenerateText(func(q string) string { return q }))
}

func main() {
	down := delayedModel{name: "down", err: &llm.Error{Model: "down", Err: llm.ErrUnavailable}}
	slow := delayedModel{name: "slow", delay: time.Hour}
	quick := delayedModel{name: "quick", delay: time.Millisecond}
	ctx := context.Background()

	// The first success wins. The others are cancelled, and have ended when Run returns.
	fmt.Println(step.Race(askModel(down), askModel(slow), askModel(quick)).Run(ctx, "who is there?"))

	// When no model answers in time, the timeout is the error.
	_, err := step.Timeout(20*time.Millisecond, step.Race(askModel(down), askModel(slow))).Run(ctx, "who is there?")
	fmt.Println(err)

	// When all fail, the error joins their reasons.
	_, err = step.Race(askModel(down), askModel(down)).Run(ctx, "who is there?")
	fmt.Println(err)
}
