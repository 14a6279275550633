//go:build race

package memory_test

// simulated is how many nodes the simulated cluster has under the race detector, which cannot watch the
// goroutines of more of them: it allows 8128.
const simulated = 40
