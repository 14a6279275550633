// Command gates answers questions by a model, behind a gate that checks what goes in and another that checks what
// comes out. The model is a function here, so that no key is needed.
package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"symbio/agent/llm"
	"symbio/agent/step"
)

// parrot is a model that repeats the question and leaks a secret.
type parrot struct{}

func (parrot) Name() string { return "parrot" }

// Stream yields one chunk; a real model yields many. It does not watch the context, because it
// never waits. A model that dials must end with it.
func (parrot) Stream(_ context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		asked := r.Messages[len(r.Messages)-1].Text
		yield(llm.Chunk{Text: "You asked: " + asked + " My key is sk-123.", Stop: llm.StopEnd}, nil)
	}
}

// entrance is the gate in front of the model: it trims the question, and blocks one that is empty
// or too long. The limit is in bytes.
func entrance(question string) (string, error) {
	question = strings.TrimSpace(question)
	switch {
	case question == "":
		return "", step.Block("there is no question")
	case len(question) > 100:
		return "", step.Block("the question is too long")
	}
	return question, nil
}

// exit is the gate behind the model: it removes secrets from the answer.
func exit(answer string) (string, error) {
	before, _, found := strings.Cut(answer, " My key is ")
	if found {
		before += " (something was left out)"
	}
	return before, nil
}

func main() {
	// A pipeline ends with the first error, so a question that entrance blocks never reaches the
	// model.
	answer := step.Pipeline(
		step.Gate(entrance),
		step.GenerateText(func(question string) string { return question }),
		step.Gate(exit),
	)
	// GenerateText finds its model in the context. The same steps can so run with another model.
	answer = step.With(step.Session{Model: parrot{}}, answer)

	for _, question := range []string{"  Why is the sky blue? ", "   "} {
		text, err := answer.Run(context.Background(), question)
		// A gate that blocks is an answer of the program, not a failure. Any other error is printed
		// with the text.
		if blocked, ok := errors.AsType[*step.GateError](err); ok {
			fmt.Println("Not asked:", blocked.Reason)
			continue
		}
		fmt.Println(text, err)
	}
}
