package sandbox

import (
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestOutputKeepsTheStartAndTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keep := rapid.IntRange(2, 20).Draw(t, "keep")
		parts := rapid.SliceOf(rapid.StringMatching("[a-z]{0,30}")).Draw(t, "parts")
		all := strings.Join(parts, "")
		ended := 0
		r := &recorder{keep: keep, flood: &flood{most: 50, over: func() { ended++ }}}
		for _, p := range parts {
			if n, err := r.Write([]byte(p)); n != len(p) || err != nil {
				t.Fatalf("Write = %d, %v, want %d", n, err, len(p))
			}
		}
		o := r.output()
		if len(all) <= keep {
			if string(o.Head) != all || len(o.Tail) != 0 || o.Cut != 0 {
				t.Errorf("%q became %q, %q and %d cut, want all of it in front", all, o.Head, o.Tail, o.Cut)
			}
		} else {
			head, tail := keep-keep/2, keep/2
			if string(o.Head) != all[:head] || string(o.Tail) != all[len(all)-tail:] || o.Cut != int64(len(all)-keep) {
				t.Errorf("%q became %q, %q and %d cut", all, o.Head, o.Tail, o.Cut)
			}
		}
		if want := len(all) > 50; (ended == 1) != want || ended > 1 {
			t.Errorf("%d bytes ended the command %d times", len(all), ended)
		}
	})
}

func TestOutputSaysHowMuchIsMissing(t *testing.T) {
	o := Output{Head: []byte("ab"), Tail: []byte("yz"), Cut: 22}
	if got, want := o.String(), "ab\n[… 22 bytes cut …]\nyz"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Both streams of a command are written by goroutines of their own; the race detector sees what is used without its lock.
func TestOutputMayBeWrittenByManyGoroutines(t *testing.T) {
	ended := 0
	f := &flood{most: 399, over: func() { ended++ }}
	out, errs := &recorder{keep: 20, flood: f}, &recorder{keep: 20, flood: f}
	var all sync.WaitGroup
	for _, r := range []*recorder{out, errs, out, errs} {
		all.Go(func() {
			for range 100 {
				if _, err := r.Write([]byte("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if out.output().Cut != 180 || errs.output().Cut != 180 || ended != 1 {
		t.Errorf("%d and %d bytes were cut, and the command was ended %d times, want 180, 180, once", out.output().Cut, errs.output().Cut, ended)
	}
}
