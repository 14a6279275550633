// Package crossings tests pairs of features: each feature in each place where an agent can run. A feature is a file of
// testdata; a place is a script around an agent that has it.
package crossings
