// Package demo is the two-minute tour: two nodes, each a process of its own, and a real task on
// real input. It is a script over the program's own commands: it writes the configuration of two nodes (the files below
// tour), starts `symbio up` twice, gives one of the nodes a task with `symbio run`, adds a remark with `symbio agents steer`,
// answers questions with `symbio approvals`, and ends with `symbio map` (tour.go). The view shows and counts what the nodes
// print (view.go).
//
// The model is a Go function, see Models, unless --model names another. Nothing in it is prepared:
// parts, numbers and text come from the directory that is surveyed, through the tools.
package demo
