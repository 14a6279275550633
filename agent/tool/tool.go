package tool

import (
	"context"
	"encoding/json"

	"symbio/agent/llm"
	"symbio/security/permission"
)

// Tool is a function that a model can call. Only a Set runs tools, after its guard has allowed the
// call. Methods may be called from many goroutines.
type Tool interface {
	// Spec describes the tool to the model. It is called in every turn. Callers must not write to
	// the schema.
	Spec() llm.ToolSpec
	// Decode decodes what the model wrote: once and strictly, without unknown or duplicate keys.
	// The error tells the model what is wrong and how to correct it.
	Decode(args json.RawMessage) (Invocation, error)
}

// Conditional is a Tool that is not always available. While Offered returns false, a Set neither
// describes nor runs it. Offered may be called from many goroutines and must be fast.
type Conditional interface {
	Tool
	Offered() bool
}

// Invocation is a decoded call. The guard and the tool get the same value.
type Invocation struct {
	// Args are the decoded arguments, for the guard. They must not be written to.
	Args map[string]any
	// Run does the work and returns when it is done or ctx has ended. A failure is a Result, not a
	// panic.
	Run func(ctx context.Context) Result
	// Holds returns nil if the sandbox can hold what the call runs, and a *sandbox.Refusal if it
	// cannot fully: then a person decides, and without a person the call is denied. It is called
	// after the guard. nil means that nothing needs a sandbox.
	Holds func(ctx context.Context) error
	// Keeps reports whether a sandbox keeps what the call runs away from the denied files. The
	// guard calls it. nil means that no sandbox does.
	Keeps func(ctx context.Context, d *permission.FileDenials) bool
	// HasBox reports whether the call can run in permission.BoxLook, or in permission.BoxWork with nothing more than that
	// promises. The guard calls it. nil means that it cannot.
	HasBox func(ctx context.Context, b permission.Box) bool
	// Doubt returns one sentence that says why a person has to decide about the call even where a
	// rule allows it; "" if there is no reason. It is called after the guard. nil means that there
	// is none.
	Doubt func() string
	// Preview returns the change of a file that Run would make now, for a person who decides about the
	// call. It changes nothing, and may be called by several goroutines. The zero FileDiff means that
	// the change is not known. nil means that the call changes no file.
	Preview func(ctx context.Context) FileDiff
	// OnConsent gets a person's yes to the call, which only asks for something. nil means that the yes is for this call alone.
	OnConsent func(*Consent)
	// Consent returns the yes that a person gave when the same was asked for; nil = none. ctx belongs to the call. It is called for one
	// call at a time, and only if a person is to decide. nil means that the person is asked.
	Consent func(ctx context.Context, d Decision) *Consent
	// Alone is true if the call must not run in parallel with others of its turn.
	Alone bool
	// ReadOnly is true if the call changes nothing, so that one that was interrupted may run again.
	ReadOnly bool

	describes bool           // it only describes tools, as Specs does; only ToolSearch is that
	noted     map[string]any // what the decision about it records in the place of Args; nil = Args
}

// Result is what the model reads.
type Result struct {
	Text    string
	IsError bool
	// Images are shown beside the text, as many as fit into a request; the text then says how many
	// were left out. A model without vision only reads that there are images, so the text should
	// say what matters about them.
	Images []llm.Image
	// Change is the file that the call changed, for people. The model does not read it.
	Change FileDiff
}

// FileDiff is a change of a file, for people.
type FileDiff struct {
	File string // relative to the working directory if it is below that
	// Diff is the change as a unified diff; "" if the agent may not read the file, the file is no text
	// or too long, or nothing changed.
	Diff string
	// Unfit is why the call cannot be done, as far as the agent knows already; nil = it is not known. A
	// person is not asked about such a call.
	Unfit error
}

// JSON returns v as JSON, as the result of a tool.
func JSON(v any) Result {
	text, err := json.Marshal(v)
	if err != nil {
		return Result{Text: err.Error(), IsError: true}
	}
	return Result{Text: string(text)}
}
