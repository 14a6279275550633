package llm

import (
	"fmt"
	"slices"
)

// MaxTemperature is the highest temperature, as OpenAI has it.
const MaxTemperature = 2

const (
	maxStopWords = 4   // in a request, as OpenAI has it
	maxStopWord  = 256 // bytes
)

// Check returns an error that wraps ErrInvalid if the request cannot be sent to any model. Models
// call it before the request, so that the error says what is wrong with it.
func (r Request) Check() error {
	if t := r.Temperature; t != nil && !(*t >= 0 && *t <= MaxTemperature) {
		return fmt.Errorf("%w: a temperature of %v; want 0 to %d", ErrInvalid, *t, MaxTemperature)
	}
	if len(r.StopWords) > maxStopWords || slices.ContainsFunc(r.StopWords, func(w string) bool { return w == "" || len(w) > maxStopWord }) {
		return fmt.Errorf("%w: want at most %d stop words, each of 1 to %d bytes", ErrInvalid, maxStopWords, maxStopWord)
	}
	named := func(t ToolSpec) bool { return r.ToolChoice == ChoiceRequired || t.Name == string(r.ToolChoice) }
	if r.ToolChoice.ForcesCall() && !slices.ContainsFunc(r.Tools, named) {
		return fmt.Errorf("%w: the tool choice is %.64q, and the request has no such tool", ErrInvalid, string(r.ToolChoice))
	}
	return r.checkImages()
}
