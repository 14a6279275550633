package walk

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMarkKnowsInodeAndChangeTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := MarkOf(path); err != nil || m.ino == 0 || m.ctime == 0 {
		t.Errorf("got %+v, %v", m, err)
	}
}
