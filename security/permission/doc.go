// Package permission decides whether a tool call is allowed: rules in, a verdict out. It does no
// I/O but the resolution of paths.
//
// The one idea: allow needs certainty, deny needs only possibility. A zero Policy, an empty Chain,
// and a rule that cannot be read all deny, and where a deny rule might apply but
// that cannot be told, the answer is Ask.
//
// A Chain is judged link by link, each link in six stages: final deny, session memory, override,
// deny, allow, default. The strictest link wins, so an agent can never do more than those it acts
// for. Rules, policies, chains and verdicts are values; everything here may be used from many
// goroutines at once.
//
// A command is judged on its parsed program (package shell): each simple command that runs has to be
// allowed, and each file that a redirection opens; a deny rule is held against everything that may run.
// The caller executes the Verdict's Plan, not the given text.
package permission
