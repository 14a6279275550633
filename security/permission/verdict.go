package permission

import (
	"fmt"
	"slices"

	"symbio/internal/security/permission/endpoint"
	"symbio/internal/security/permission/file"
)

// Action is what may happen with a call. The zero value denies; a larger one is more permissive.
type Action int

// The actions, strictest first.
const (
	Deny Action = iota
	Ask
	Allow
)

// actionNames are the texts of the actions, in configurations, on the wire and for people.
var actionNames = []string{Deny: "deny", Ask: "ask", Allow: "allow"}

// String returns "deny", "ask" or "allow"; "deny" for a number that is no action, since that denies.
func (a Action) String() string {
	if a < Deny || a > Allow {
		a = Deny
	}
	return actionNames[a]
}

// MarshalText writes the action as String does.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what ParseAction reads.
func (a *Action) UnmarshalText(text []byte) error {
	parsed, err := ParseAction(string(text))
	*a = parsed
	return err
}

// ParseAction reads "allow", "ask" or "deny". Any other text is an error, and the action beside it is Deny.
func ParseAction(text string) (Action, error) {
	if i := slices.Index(actionNames, text); i >= 0 {
		return Action(i), nil
	}
	return Deny, fmt.Errorf("%q is no action: write allow, ask or deny", text)
}

// Stage names the step of the evaluation that decided.
type Stage string

// The stages, in the order they are tried.
const (
	StageFinalDeny Stage = "final deny"
	StageMemory    Stage = "session memory"
	StageOverride  Stage = "override"
	StageDeny      Stage = "deny"
	StageAllow     Stage = "allow"
	StageDefault   Stage = "default"
	// StageSandbox comes after them, and is not of a Chain: what is to hold the call cannot do all that it should.
	StageSandbox Stage = "sandbox"
	// StageMode is not of a Chain, either: a person has the agent read only for now.
	StageMode Stage = "mode"
)

// Verdict is a decision and its grounds.
type Verdict struct {
	Action Action
	Stage  Stage
	Rule   string // the rule that decided, as written; "" when none did
	Source string // where that rule stands: "config", "skill:NAME", "memory", "authorize"
	Link   string // the name of the chain's link that decided; "" outside a chain
	Why    string // one sentence for people
	// Except is what a call that walks a directory must leave out; nil is nothing. The tool that
	// runs the call has to obey it: the verdict holds only without those paths.
	Except *file.Except
	// Dial is the addresses that a call which makes requests may connect to. The tool has to call its Allows for
	// each connection.
	Dial *endpoint.AllowList
	// Box is what has to hold a call of Bash or Git when it runs; "" for other tools.
	Box Box
	// Plan is what a call of Bash or Git has to execute instead of its arguments; nil for other tools.
	Plan *Plan
}

// Call is a tool call, decoded once; the tool gets the same decoded value.
type Call struct {
	Tool string
	Args map[string]any
	Dir  string // the working directory, absolute; relative paths are relative to it
	// Within are the guardrails around the call, the outermost first.
	Within []Guardrail
	// Kept reports whether a sandbox keeps what the call runs from the files; nil = there is none. It is asked when a
	// command may use a denied file and that cannot be told.
	Kept func(*FileDenials) bool
	// HasBox reports whether this machine has BoxLook or BoxWork; nil = it has neither.
	HasBox func(Box) bool
}
