package skills

import "slices"

// Scope is where a skill comes from. The zero value counts as ScopeProject, whose skills grant
// nothing without a person's trust.
type Scope string

// The scopes, in order of precedence.
const (
	// ScopeProject is the repository in which the agent works. Anyone who can change it can add
	// skills, so they need a person's trust.
	ScopeProject Scope = "project"
	// ScopeUser is the user's home directory.
	ScopeUser Scope = "user"
	// ScopeConfig is a directory named by the configuration or the environment.
	ScopeConfig Scope = "config"
	// ScopeBundled is inside the program.
	ScopeBundled Scope = "bundled"
	// ScopePeer is a skill that was fetched from another node. It has the last rank, so that it
	// cannot replace a skill of this machine.
	ScopePeer Scope = "peer"
)

// Grants reports whether skills of the scope may grant rules without a person's trust.
func (s Scope) Grants() bool { return s == ScopeUser || s == ScopeConfig || s == ScopeBundled }

// rank orders scopes by precedence. The lowest rank wins.
func (s Scope) rank() int {
	return max(0, slices.Index([]Scope{ScopeProject, ScopeUser, ScopeConfig, ScopeBundled, ScopePeer}, s))
}
