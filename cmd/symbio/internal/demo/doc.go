// Package demo is the two-minute tour: two nodes, each a process of its own, and a real task on
// real input. It is a user of the program like any other: it writes configuration files (setup.go),
// starts `symbio up` twice (node_process.go), gives one of the nodes a task and answers its
// questions (scripted_user.go), and counts what the nodes report (observer.go).
//
// The model is a Go function, see Model, unless Options name another. Nothing in it is prepared:
// parts, numbers and text come from the directory that is surveyed, through the tools.
package demo
