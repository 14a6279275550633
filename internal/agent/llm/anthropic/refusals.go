package anthropic

import (
	"errors"
	"strconv"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/security/lazyregexp"
)

// refusals are the forms of a request that a server has refused. Later requests do without them.
type refusals struct {
	// budget and adaptive are the two forms of thinking, effort and format the fields of output_config.
	budget, adaptive, effort, format bool
	// temperature is one of any value.
	temperature bool
	// maxTokens is the server's limit for an answer with its thoughts; 0 = not known.
	maxTokens int
}

var (
	// adaptiveNames matches the models that take adaptive thinking and effort: Opus and Sonnet from 4.6
	// on, and all of the fifth generation. Other models, and other servers' models, get a budget first.
	adaptiveNames = lazyregexp.New(`claude-(?:(?:opus|sonnet)-4[-.](?:[6-9]|[1-9]\d)|mythos|fable|[a-z]+-(?:[5-9]|[1-9]\d))(?:\D|$)`)
	// maxTokensError matches a server's error about too large a max_tokens, and its limit.
	maxTokensError = lazyregexp.New(`max_tokens: \d+ > (\d+)`)
	// foreignThoughts matches an error about the thoughts of a history, such as those that another
	// account signed.
	foreignThoughts = lazyregexp.New(`^messages\.\d+.*(?i:signature|thinking)`)
	// refusedFormat matches an error about the schema of an answer.
	refusedFormat = lazyregexp.New(`(?i)output_config|format|schema|structured output`)
)

// isAdaptive reports whether requests have the form of models that decide themselves how long they
// think. Only the refusal of one form leads to the other; after both, requests do without thoughts.
func (f refusals) isAdaptive(model string) bool {
	if f.budget != f.adaptive {
		return f.budget
	}
	return adaptiveNames().MatchString(model)
}

// learn reports whether err refuses a form that w has, and then adds it. Each call that returns true
// leaves one form fewer, or a lower limit, so repeating the request ends.
func (f *refusals) learn(err error, w *wireRequest) bool {
	var e *llm.Error
	if !errors.As(err, &e) || !errors.Is(e, llm.ErrInvalid) || strings.HasPrefix(e.Detail, "messages.") {
		return false
	}
	if said := maxTokensError().FindStringSubmatch(e.Detail); said != nil {
		n, err := strconv.Atoi(said[1])
		if err != nil || n <= 0 || n >= w.MaxTokens {
			return false
		}
		f.maxTokens = n
		return true
	}
	effort := w.Config != nil && w.Config.Effort != ""
	switch format := w.Config != nil && w.Config.Format != nil; {
	case w.Temperature != nil && strings.Contains(e.Detail, "temperature"):
		f.temperature = true
	case effort && strings.Contains(e.Detail, "effort"), effort && !format && strings.Contains(e.Detail, "output_config"):
		f.effort = true
	case w.Thinking != nil && strings.Contains(e.Detail, "thinking") && w.Thinking.Type == "adaptive":
		f.adaptive = true
	case w.Thinking != nil && strings.Contains(e.Detail, "thinking"):
		f.budget = true
	case format && refusedFormat().MatchString(e.Detail):
		f.format = true
	default:
		return false
	}
	return true
}
