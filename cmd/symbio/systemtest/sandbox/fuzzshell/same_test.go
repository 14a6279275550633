//go:build system && linux

package fuzzshell_test

import (
	"fmt"
	"strings"
	"testing"
)

// A script that a run has reported is the same in a new world.
func TestScriptsAreTheSameInAnotherWorld(t *testing.T) {
	a, b := newWorld(t, false), newWorld(t, false)
	general := func(w *world, text string) string {
		for _, name := range []string{w.mark, w.process(), fmt.Sprint(w.tcp), fmt.Sprint(w.udp)} {
			text = strings.ReplaceAll(text, name, "NAME")
		}
		return text
	}
	same := 0
	for number := range uint64(1000) {
		one, access := script(*seed, number, a)
		other, otherAccess := script(*seed, number, b)
		if access != otherAccess {
			t.Errorf("script %d asks for %q and for %q", number, access, otherAccess)
		}
		if len(one) == len(other) && general(a, one) == general(b, other) {
			same++
		}
	}
	if same < 600 { // names that are quoted in pieces are not told from others
		t.Errorf("%d of 1000 are the same", same)
	}
}
