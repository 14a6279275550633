package sandbox_test

import (
	"strings"
	"testing"

	"symbio/security/sandbox"
)

func TestCommandHasASessionOfItsOwn(t *testing.T) {
	atEachLevel(t, every, func(t *testing.T, b *sandbox.Box) {
		r, err := sh(t, t.Context(), b, t.TempDir(), "echo $$; cat /proc/$$/stat")
		// pid, name, state, parent, group, session, terminal: proc_pid_stat(5)
		f := strings.Fields(strings.ReplaceAll(r.Stdout.String(), "(sh)", "sh"))
		if err != nil || len(f) < 8 || f[6] != f[0] || f[7] != "0" {
			t.Errorf("%q, %v; want that it leads a session without a terminal", f, err)
		}
	})
}
