// Package inside is the helper of a sandbox: this same program, started again in new namespaces,
// which makes the sandbox, runs the command in it, and ends with it.
//
// The one idea: this package runs the helper when it is initialised, so that a program that imports
// it need do nothing, and a helper never comes to most other packages of this module (ADR 0059).
//
// Guarantees: a process is a helper only if its one argument and its environment say so, both; in
// any other process nothing happens. A job that cannot be done wholly is not begun: the command
// never runs with less around it.
//
// It does not decide anything. Package sandbox says which mounts, accesses and limits there are.
package inside
