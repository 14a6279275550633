package team

import (
	"os"
	"path/filepath"
	"testing"
)

// The second agent in a directory is told of the first one, until that leaves.
func TestOccupyKnowsWhoWorksInADirectory(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	w := new(Workspaces)
	busy, leave := w.Occupy(t.Context(), dir)
	again, leaveAgain := w.Occupy(t.Context(), link)
	if busy || !again {
		t.Errorf("the first is told %t, the second %t", busy, again)
	}
	leave()
	leave() // counts once
	if other, leaveOther := w.Occupy(t.Context(), dir); !other {
		t.Error("the second one works there still")
	} else {
		leaveOther()
	}
	leaveAgain()
	if busy, _ := w.Occupy(t.Context(), dir); busy {
		t.Error("nobody works there any more")
	}
}
