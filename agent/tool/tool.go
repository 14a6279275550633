package tool

import (
	"context"
	"encoding/json"

	"symbio/agent/llm"
	"symbio/security/permission"
)

// Tool is something a model may ask for. Tools are run only by a Set, which asks its guard first.
type Tool interface {
	// Spec describes the tool to the model. It is asked in every turn; nobody writes to the schema.
	Spec() llm.ToolSpec
	// Decode reads what the model wrote: once, strictly (no unknown, repeated or differently cased
	// keys). The error says what is wrong and how to mend it; the model reads it.
	Decode(args json.RawMessage) (Invocation, error)
}

// Conditional is a Tool that is not always there. While it is not offered, a Set neither describes nor runs it.
// Offered may be called from many goroutines.
type Conditional interface {
	Tool
	Offered() bool
}

// Invocation is a decoded call: the permission check and the tool see the same value.
type Invocation struct {
	// Args are the decoded arguments, for the guard. They are not written to.
	Args map[string]any
	// Run does the work. It returns when the work is done or ctx ends. What goes wrong is a Result.
	Run func(ctx context.Context) Result
	// Holds returns nil if what the call runs can be held as it should be, and a *sandbox.Refusal if less than that is
	// to be had: then a person decides, or nobody, which is a no. It is asked after the guard. nil: nothing is to hold.
	Holds func(ctx context.Context) error
	// Keeps reports whether a sandbox keeps what the call runs from the files. It is asked by the guard. nil: none does.
	Keeps func(ctx context.Context, d *permission.Denied) bool
	// Doubt returns why a person has to decide about the call even where a rule allows it, in one sentence; "" = no
	// reason. It is asked after the guard. nil: there is none.
	Doubt func() string
	// Alone says that the call may not run beside others of its turn.
	Alone bool

	describes bool // it only describes tools, as Specs does; only ToolSearch is that
}

// Result is what the model reads.
type Result struct {
	Text    string
	IsError bool
	// Images are shown beside the text, as many as a model can be shown; the text says how many were not. A model that
	// takes no images is told in words that they are there: what matters about them belongs into the text too.
	Images []llm.Image
}

// JSON returns v as JSON, as the result of a tool.
func JSON(v any) Result {
	text, err := json.Marshal(v)
	if err != nil {
		return Result{Text: err.Error(), IsError: true}
	}
	return Result{Text: string(text)}
}
