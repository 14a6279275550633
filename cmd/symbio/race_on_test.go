//go:build race

package main

// slow is how much longer things may take under the race detector, with which a start alone takes
// most of a second.
const slow = 5
