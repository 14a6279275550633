// Package shell parses a shell program and reports what it may run and which files its
// redirections open. Package permission compares rules with the result.
//
// The syntax tree is judged, and the print of that very tree (Program.Canonical) is what must be
// executed. So a difference between this parser and bash cannot become a difference between what
// was checked and what runs (security.md 2.5).
//
// Parse never fails. Whatever it cannot read for certain becomes a Problem: a Hard one means that
// only a person may let the text run, a Runs one that something may run which is not among the
// Commands. Guard and Uses look up what is known of programs in programs.yaml.
//
// The steps of Parse, by file:
//
//   - parse.go reads the text into a tree that prints as itself, and has the state of the
//     analysis.
//   - walk.go walks statements, redirections and the set of possible directories.
//   - call.go and word.go resolve assignments, arithmetic and words. What only the shell can know
//     is Dynamic.
//   - invocation.go, wrap.go, interpret.go and builtin.go add the commands that a command runs:
//     those behind sudo, xargs, sh -c, eval and the like.
//   - variables.go adds what follows from variables that the program sets.
//
// The package does not read the file system, knows no rules and runs nothing. Parse, Guard and
// Uses may be called from many goroutines.
package shell
