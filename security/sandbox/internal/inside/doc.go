// Package inside is the helper of a sandbox: this same program, started again in new namespaces,
// which makes the sandbox, runs the command in it, and ends with it.
//
// The one idea: a helper has no use for what the rest of the program needs, and Go initialises
// packages in the order of their import paths, each as soon as all that it imports is. So one that
// imports little comes before nearly all of them. This package runs the helper when it is
// initialised, and a helper never comes to the others, whose beginning takes several times as long
// as all that it does itself. Therefore nothing here may import fmt, strings or
// golang.org/x/sys/unix, directly or not; a test sees to that.
//
// Guarantees: a process is a helper only if its one argument and its environment say so, both; in
// any other process nothing happens. A job that cannot be done wholly is not begun: the command
// never runs with less around it.
//
// It does not decide anything. What is to be mounted, allowed and limited, package sandbox says.
package inside
