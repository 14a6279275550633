package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"symbio/security/sandbox"
)

func TestMasksWaitForTheNextCommand(t *testing.T) {
	atEachLevel(t, []sandbox.Level{sandbox.Native, sandbox.Bwrap}, func(t *testing.T, b *sandbox.Box) {
		dir, temp := t.TempDir(), t.TempDir()
		// One that a process left which has ended, with what is not of it, and one in use.
		left, used := filepath.Join(temp, ".symbio-masks-left"), ""
		mask := time.Unix(1, 20261121)
		if err := errors.Join(os.Mkdir(left, 0o700), os.Mkdir(left+"/1", 0o555), os.Chtimes(left+"/1", mask, mask), os.WriteFile(left+"/theirs", nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		var boxes []*sandbox.Box // the first is in use until the end: without its owner a directory is nobody's
		for range 2 {
			b := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{b.Status().Level}, Env: os.Environ(), TempDir: temp})
			boxes = append(boxes, b)
			for range 3 {
				if r, err := sh(t, t.Context(), b, dir, "echo evil > .envrc; mkdir .vscode; test -d .git"); err != nil || r.Code != 0 {
					t.Errorf("status %d, %v", r.Code, err)
				}
			}
			if now := waiting(t, temp); used == "" {
				used = now
			} else if now == used {
				t.Error("the second took over what the first has in use")
			}
			if all, err := os.ReadDir(filepath.Join(temp, used)); err != nil || len(all) != masked {
				t.Errorf("there wait %v, %v; want those of a command", all, err)
			}
		}
		if all, err := os.ReadDir(left); err != nil || len(all) != 1 || all[0].Name() != "theirs" {
			t.Errorf("of what was left there is %v, %v; want what is no mask", all, err)
		}
		runtime.KeepAlive(boxes)
	})
}

// waiting is the newest directory of masks in temp.
func waiting(t *testing.T, temp string) (name string) {
	t.Helper()
	entries, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	var newest time.Time
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != ".symbio-masks-left" && info.ModTime().After(newest) {
			name, newest = e.Name(), info.ModTime()
		}
	}
	if name == "" {
		t.Fatal("no masks wait")
	}
	return name
}
