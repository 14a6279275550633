package sandbox_test

import (
	"strings"
	"testing"

	"symbio/security/sandbox"
)

func TestMemoryIsBounded(t *testing.T) {
	w := newWorld(t)
	atEachLevel(t, every, func(t *testing.T, b *sandbox.Box) {
		for _, test := range []struct {
			most   int64
			refuse bool
		}{{0, true}, {400 << 20, true}, {4 << 30, false}} {
			p := w.policy(t)
			p.Limits.Memory = test.most
			eat := []string{w.self, "attempt", "eat", "600"}
			argvs := [][]string{eat}
			if test.most == 0 {
				line := strings.Join(eat, " ")
				// what it starts, and what would rather not
				argvs = append(argvs, []string{"/bin/sh", "-c", line + "; exit $?"},
					[]string{"/bin/sh", "-c", "ulimit -d unlimited; " + line})
			}
			for _, argv := range argvs {
				r, err := b.Run(t.Context(), p, sandbox.Spec{Argv: argv, Dir: w.dir, Together: true, Accept: true})
				if err != nil {
					t.Fatal(err)
				}
				if (r.Code != 0) != test.refuse {
					t.Errorf("%d MiB, %q: status %d, refused should be %v: %.200s", test.most>>20, argv[2:], r.Code, test.refuse, r.Stdout)
				}
			}
		}
		r, err := sh(t, t.Context(), b, w.dir, "cat /proc/self/oom_score_adj")
		if err != nil || r.Stdout.String() != "1000\n" {
			t.Errorf("when memory is used up, commands do not go first: %q, %v", r.Stdout, err)
		}
	})
}
