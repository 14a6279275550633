// Package cli is the command line: one cmd_NAME.go for each command; those of skills and of a cluster are packages of their
// own. Commands that act on a node talk to it over its control socket; none of them knows how a node works inside.
//
// Data goes to standard output, everything else to standard error. Exit status: 0 done, 1 failed,
// 2 wrong usage, 3 denied, 4 not found, 5 unavailable or timed out.
package cli
