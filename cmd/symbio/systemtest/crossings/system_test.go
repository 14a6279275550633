//go:build system && linux

package crossings

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

func TestMain(m *testing.M) { symbiotest.Main(m, nil) }

// Each cell is a session of a person with real nodes, and is judged by what that person sees.
func TestCrossing(t *testing.T) {
	waiting := later(t)
	for _, f := range features(t) {
		t.Run(f.file, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, p := range places {
				if _, none := f.parts["not "+p.name]; none || slices.Contains(waiting[f.file], p.name) {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, p.name+".txtar"), f.script(t, p.name, p.script), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			symbiotest.RunScripts(t, dir)
		})
	}
}
