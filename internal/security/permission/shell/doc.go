// Package shell parses a shell program and reports the programs that it may run and which files its
// redirections open. Package permission compares rules with the result.
//
// The syntax tree is judged, and the print of that very tree (Program.Canonical) is what must be
// executed. So a difference between this parser and bash cannot become a difference between what
// was checked and what runs.
//
// Parse never fails. It reads literal forms: simple commands, pipelines, lists, redirections to literal files, cd to literal
// directories, variables for one command, wrappers. Whatever it cannot read for certain becomes a Problem: a Hard
// one means that
// only a person may let the text run, a Runs one that something may run which is not among the Commands. Nothing here proves
// that a program is harmless: what a command can touch is held by its box (decision 0058).
//
// The steps of Parse, by file:
//
//   - parse.go reads the text into a tree that prints as itself, and has the state of the
//     analysis.
//   - walk.go walks statements, redirections and the set of possible directories.
//   - call.go, word.go and expansion.go resolve assignments and words. Values that only the shell can know
//     are Dynamic.
//   - invocation.go, wrap.go, interpret.go and builtin.go add the commands that a command runs:
//     those behind sudo, xargs, sh -c, eval and the like.
//   - programs.yaml and table.go say what is known of programs.
//
// The package does not read the file system, knows no rules and runs nothing. Parse may be called from many goroutines.
package shell
