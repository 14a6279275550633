package sandbox

import (
	"strings"
	"testing"
)

// Kernels that this machine does not have.
func TestOlderKernelLacksMore(t *testing.T) {
	narrow := Policy{Files: Files{Read: []string{"/srv"}}}
	work := Policy{Files: Files{Read: []string{"/"}, Write: []string{"/w"}}}
	bare := work
	bare.Unprotected = true
	for _, test := range []struct {
		name  string
		m     machine
		p     Policy
		words []string
	}{
		{"native without Landlock cannot limit reading", machine{level: Native}, narrow, []string{"read more"}},
		{"native without Landlock holds the rest", machine{level: Native}, work, nil},
		{"bwrap with the first Landlock", machine{level: Bwrap, landlockABI: 1}, narrow, nil},
		{"landlock before signals", machine{level: Landlock, landlockABI: 5}, Restrictive(), []string{"send signals"}},
		{"landlock now", machine{level: Landlock, landlockABI: 7}, Restrictive(), nil},
		{"landlock, writing", machine{level: Landlock, landlockABI: 7}, work, []string{"mode and times", "git's hooks"}},
		{"landlock, writing unprotected", machine{level: Landlock, landlockABI: 7}, bare, []string{"mode and times"}},
		{"landlock, writing everywhere", machine{level: Landlock, landlockABI: 7}, Permissive(), nil},
		{"seatbelt lacks the same for all", machine{level: Seatbelt}, work, nil},
		{"off is the user's choice", machine{level: Off}, work, nil},
		{"none", machine{}, Permissive(), []string{"nothing on this machine"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.m.lacks(test.p)
			if len(got) != len(test.words) {
				t.Fatalf("lacks %q, want %d", got, len(test.words))
			}
			for i, w := range test.words {
				if !strings.Contains(got[i], w) {
					t.Errorf("lacks %q, want that it says %q", got[i], w)
				}
			}
		})
	}
	for _, m := range []machine{{}, {level: Off}, {level: Seatbelt}, {level: Landlock, landlockABI: 5}, {level: Native},
		{level: Native, landlockABI: 7, uncounted: true}} {
		if len(m.missing()) == 0 {
			t.Errorf("%+v says that nothing is missing", m)
		}
	}
	if got := (machine{level: Native, landlockABI: 7}).missing(); len(got) != 1 || !strings.Contains(got[0], "memory") {
		t.Errorf("only the memory of all processes should be missing: %q", got)
	}
}
