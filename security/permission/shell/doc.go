// Package shell reads a shell program and says what it may run and which files it redirects to.
//
// The one idea: what is judged is the syntax tree, and what is executed has to be the print of that very
// tree (Program.Canonical), so that a difference between this parser and the shell cannot become a
// difference between what was checked and what runs (security.md 2.5).
//
// Parse never fails: what it cannot read for certain is a Problem. A Problem that is Hard means that
// nobody but a person may let the text run; one that Runs means that something may run which is not
// among the Commands. Guard and Uses read what is known of programs (programs.yaml). Programs are
// values, and everything here may be called from many goroutines.
//
// It does not touch the file system, does not know rules, and does not run anything.
package shell
