package skills

// Scope is where a skill comes from. The zero value counts as ScopeProject, which grants nothing that no
// person has trusted.
type Scope string

// The scopes, in order of precedence.
const (
	ScopeProject Scope = "project" // the repository that is worked on
	ScopeUser    Scope = "user"    // the home directory
	ScopeConfig  Scope = "config"  // configuration or the environment
	ScopeBundled Scope = "bundled" // inside the program
	ScopePeer    Scope = "peer"    // fetched from another node; trusted least, and found by name when nothing else is
)

// Grants reports whether the skills of the scope grant without a person's leave.
func (s Scope) Grants() bool { return s == ScopeUser || s == ScopeConfig || s == ScopeBundled }

// rank orders scopes by precedence, first the one that wins.
func (s Scope) rank() int {
	switch s {
	case ScopeUser:
		return 1
	case ScopeConfig:
		return 2
	case ScopeBundled:
		return 3
	case ScopePeer:
		return 4
	}
	return 0
}
