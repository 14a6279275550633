package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"symbio/agent/session"
	"symbio/internal/agent/node/backup"
	"symbio/internal/agent/node/state"
	"symbio/internal/agent/session/sqlite"
)

// home makes directories of a user with node desk, a cluster, a conversation that stays open, and a
// configuration with a program.
func home(t *testing.T) (backup.Places, *sqlite.Store) {
	t.Helper()
	p := places(t)
	n := p.State.Node("desk")
	if _, err := n.Identity(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.InitCluster("lab", ""); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(n.Sessions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	now := time.Now()
	info := session.Info{ID: "s1", Title: "the plan", Root: "s1", Created: now, Updated: now}
	if err := store.Commit([]session.Write{{Info: info}}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(p.Config, "symbio.yaml"), "node: {name: desk}\n", 0o600)
	write(t, filepath.Join(p.Config, "skills", "a", "run.sh"), "#!/bin/sh\n", 0o700)
	for _, gone := range []string{"lock", "dashboard.html", "workspaces/x/file"} {
		write(t, filepath.Join(string(p.State), "nodes", "desk", gone), "x", 0o600)
	}
	write(t, filepath.Join(string(p.State), "packages", "p", "big"), "x", 0o600)
	if err := os.Symlink("/etc/passwd", filepath.Join(string(p.State), "link")); err != nil {
		t.Fatal(err)
	}
	return p, store
}

func places(t *testing.T) backup.Places {
	dir := t.TempDir()
	return backup.Places{State: state.Dir(filepath.Join(dir, "state", "symbio")), Config: filepath.Join(dir, "config", "symbio")}
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), mode)); err != nil {
		t.Fatal(err)
	}
}

// files returns the paths of all files below the places.
func files(t *testing.T, p backup.Places) (all []string) {
	t.Helper()
	for _, root := range []string{p.Config, string(p.State)} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				rel, _ := filepath.Rel(filepath.Dir(filepath.Dir(root)), path)
				all = append(all, rel)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return all
}

func secret(text string) func() (string, error) { return func() (string, error) { return text, nil } }

func TestBackupOfARunningNodeIsTheSameNodeElsewhere(t *testing.T) {
	from, store := home(t)
	file := filepath.Join(t.TempDir(), "backup")
	made, err := backup.Create(t.Context(), file, "correct horse", "v1", from)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	if data, err := os.ReadFile(file); err != nil || bytes.Contains(data, []byte("PRIVATE KEY")) || bytes.Contains(data, []byte("the plan")) {
		t.Errorf("the file shows a secret, %v", err)
	}
	if _, err := backup.Create(t.Context(), file, "x", "v1", from); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made again: %v", err)
	}
	// A restore knows only what was there at the instant of the backup.
	if err := store.Delete(t.Context(), "s1"); err != nil {
		t.Fatal(err)
	}
	to := places(t)
	m, err := backup.Restore(t.Context(), file, secret("correct horse"), to)
	if err != nil {
		t.Fatal(err)
	}
	if m.Authority != "lab" || m.Version != "v1" || len(m.Nodes) != 1 || !slices.Equal(m.Nodes, made.Nodes) {
		t.Errorf("restored %+v, made %+v", m, made)
	}
	want, err := from.State.Node("desk").Identity()
	got, err2 := to.State.Node("desk").Identity()
	if err != nil || err2 != nil || got.ID() != want.ID() || got.Tag() != want.Tag() || got.Cluster() == nil {
		t.Errorf("the identity is %v, %v; it was %v, %v", got, err2, want, err)
	}
	again, err := sqlite.OpenReader(to.State.Node("desk").Sessions())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if all, err := again.Sessions(t.Context(), session.Filter{}); err != nil || len(all) != 1 || all[0].Title != "the plan" {
		t.Errorf("the sessions are %v, %v", all, err)
	}
	if info, err := os.Stat(filepath.Join(to.Config, "skills", "a", "run.sh")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the program: %v, %v", info, err)
	}
	for _, f := range files(t, to) {
		for _, gone := range []string{"lock", "dashboard.html", "workspaces", "packages", "link", ".symbio-"} {
			if strings.Contains(f, gone) {
				t.Errorf("%s was restored", f)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(string(from.State), ".symbio-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRestoreOverwritesNothing(t *testing.T) {
	from, _ := home(t)
	file := filepath.Join(t.TempDir(), "backup")
	if _, err := backup.Create(t.Context(), file, "", "v1", from); err != nil {
		t.Fatal(err)
	}
	before := files(t, from)
	if _, err := backup.Restore(t.Context(), file, nil, from); !errors.Is(err, backup.ErrOccupied) {
		t.Errorf("over itself: %v", err)
	}
	if after := files(t, from); !slices.Equal(before, after) {
		t.Errorf("it changed: %v, was %v", after, before)
	}
	// Empty directories, as every command makes, are not in the way, nor is a configuration that is left out.
	to := places(t)
	if err := to.State.Prepare(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(to.Config, "symbio.yaml"), "{}", 0o600)
	if _, err := backup.Restore(t.Context(), file, nil, to); !errors.Is(err, backup.ErrOccupied) {
		t.Errorf("over a configuration: %v", err)
	}
	if _, err := backup.Restore(t.Context(), file, nil, backup.Places{State: to.State}); err != nil {
		t.Errorf("without the configuration: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(to.Config, "symbio.yaml")); err != nil || string(text) != "{}" {
		t.Errorf("the configuration is %q, %v", text, err)
	}
}

func TestNothingToSave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "backup")
	if _, err := backup.Create(t.Context(), file, "", "v1", places(t)); !errors.Is(err, backup.ErrNoNode) {
		t.Errorf("without a node: %v", err)
	}
	from, _ := home(t)
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := backup.Create(ended, file, "", "v1", from); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a backup stayed: %v", err)
	}
}

// entry is one of a tar file.
type entry struct {
	tar.Header
	text string
}

// entries reads a backup that is not encrypted.
func entries(t *testing.T, file string) (all []entry) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		text, err2 := io.ReadAll(r)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		all = append(all, entry{tar.Header{Typeflag: h.Typeflag, Name: h.Name, Size: h.Size, Mode: h.Mode, Linkname: h.Linkname}, string(text)})
	}
}

// pack writes a tar file.
func pack(t *testing.T, all []entry) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range all {
		e.Size = int64(len(e.text))
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	write(t, file, out.String(), 0o600)
	return file
}

// summed returns the entries with one more before the last, whose sum fits all of them.
func summed(all []entry, more entry) []entry {
	last := len(all) - 1
	out := slices.Insert(slices.Clone(all), last, more)
	sum := sha256.New()
	for _, e := range out[:last+1] {
		fmt.Fprintf(sum, "%q %d\n%s", e.Name, len(e.text), e.text)
	}
	out[last+1].text = hex.EncodeToString(sum.Sum(nil))
	return out
}

func TestHostileBackupWritesNothing(t *testing.T) {
	from, store := home(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	if _, err := backup.Create(t.Context(), file, "", "v1", from); err != nil {
		t.Fatal(err)
	}
	good := entries(t, file)
	if _, err := backup.Restore(t.Context(), pack(t, good), nil, places(t)); err != nil {
		t.Fatalf("the backup, packed again: %v", err)
	}
	named := func(name string) entry { return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600}, "x"} }
	last := len(good) - 1
	if _, err := backup.Restore(t.Context(), pack(t, summed(good, named("state/more"))), nil, places(t)); err != nil {
		t.Fatalf("with a file more, and its sum: %v", err)
	}
	tests := map[string]func() []entry{
		"outside":         func() []entry { return summed(good, named("state/../../evil")) },
		"absolute":        func() []entry { return summed(good, named("/evil")) },
		"elsewhere":       func() []entry { return summed(good, named("home/evil")) },
		"second spelling": func() []entry { return summed(good, named("state//evil")) },
		"twice":           func() []entry { return summed(good, good[last-1]) },
		"left out":        func() []entry { return summed(good, named("state/nodes/desk/lock")) },
		"link": func() []entry {
			return summed(good, entry{tar.Header{Typeflag: tar.TypeSymlink, Name: "state/evil", Linkname: "/etc"}, ""})
		},
		"hard link": func() []entry {
			return summed(good, entry{tar.Header{Typeflag: tar.TypeLink, Name: "state/evil", Linkname: "/etc/passwd"}, ""})
		},
		"one more":       func() []entry { return slices.Insert(slices.Clone(good), last, named("state/evil")) },
		"one less":       func() []entry { return slices.Delete(slices.Clone(good), last-1, last) },
		"no end":         func() []entry { return good[:last] },
		"behind its end": func() []entry { return append(slices.Clone(good), named("state/evil")) },
		"no beginning":   func() []entry { return good[1:] },
		"changed": func() []entry {
			all := slices.Clone(good)
			i := slices.IndexFunc(all, func(e entry) bool { return e.Name == "config/symbio.yaml" })
			all[i].text = strings.Replace(all[i].text, "desk", "evil", 1)
			return all
		},
		"empty": func() []entry { return nil },
	}
	for name, make := range tests {
		t.Run(name, func(t *testing.T) {
			to := places(t)
			_, err := backup.Restore(t.Context(), pack(t, make()), nil, to)
			if !errors.Is(err, backup.ErrBroken) {
				t.Errorf("got %v", err)
			}
			if all := files(t, to); len(all) > 0 {
				t.Errorf("it wrote %v", all)
			}
		})
	}
	t.Run("other form", func(t *testing.T) {
		all := slices.Clone(good)
		all[0].text = strings.Replace(all[0].text, `"format":1`, `"format":2`, 1)
		if _, err := backup.Restore(t.Context(), pack(t, all), nil, places(t)); err == nil || !strings.Contains(err.Error(), "another form") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no tar", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "x")
		write(t, file, "hello", 0o600)
		if _, err := backup.Restore(t.Context(), file, nil, places(t)); !errors.Is(err, backup.ErrBroken) {
			t.Errorf("got %v", err)
		}
	})
}

// A damaged conversation is not saved as if it were whole.
func TestDamagedSessionsAreNotSaved(t *testing.T) {
	from, store := home(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	write(t, from.State.Node("desk").Sessions(), "no database at all, but long enough to be read as one"+strings.Repeat("x", 4096), 0o600)
	if _, err := backup.Create(t.Context(), file, "", "v1", from); !errors.Is(err, session.ErrDamaged) {
		t.Errorf("saved a damaged file: %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a backup stayed: %v", err)
	}
}

// A backup with a right sum can still be of no use: its parts are checked, too.
func TestBackupOfOtherKeysOrDamagedSessionsIsNotRestored(t *testing.T) {
	from, store := home(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	if _, err := backup.Create(t.Context(), file, "", "v1", from); err != nil {
		t.Fatal(err)
	}
	good := entries(t, file)
	more := entry{tar.Header{Typeflag: tar.TypeReg, Name: "state/more", Mode: 0o600}, "x"}
	for name, text := range map[string]string{"state/nodes/desk/key.pem": "no key", "state/nodes/desk/sessions.db": strings.Repeat("no database ", 500)} {
		all := slices.Clone(good)
		all[slices.IndexFunc(all, func(e entry) bool { return e.Name == name })].text = text
		to := places(t)
		if _, err := backup.Restore(t.Context(), pack(t, summed(all, more)), nil, to); !errors.Is(err, backup.ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
		if left := files(t, to); len(left) > 0 {
			t.Errorf("%s: it wrote %v", name, left)
		}
	}
}
