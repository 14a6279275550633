package sandbox

import (
	"os"
	"testing"
)

// Commands that run at the same time make and remove directories in one workspace.
func TestWalkGoesOnWithoutRemovedDirectory(t *testing.T) {
	d, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.Name()); err != nil {
		t.Fatal(err)
	}
	w := walker{left: 10, visit: func(_ *os.File, name string, _ bool) error {
		t.Errorf("visited %s", name)
		return nil
	}}
	if err := w.in(d, false, 0); err != nil {
		t.Error(err)
	}
}
