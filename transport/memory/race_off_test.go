//go:build !race

package memory_test

// simulated is how many nodes the simulated cluster has.
const simulated = 200
