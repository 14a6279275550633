//go:build !race

package sandbox_test

// races says that this is built with the race detector, with which everything takes several times as long.
const races = false
