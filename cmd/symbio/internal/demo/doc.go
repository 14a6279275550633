// Package demo is the two-minute tour: two nodes, each a process of its own, one community, and a
// real task on real input. It is a user of the program like any other: it writes configuration
// files, starts `symbio up` twice, and gives one of the nodes a task.
//
// The model is a Go function, see Model, unless another is named. Parts, numbers and text all come from the directory
// that is surveyed.
package demo
