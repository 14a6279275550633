package workspace_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/content"
	"symbio/agent/workspace"
)

func openStore(t testing.TB) *content.Store {
	t.Helper()
	store, err := content.Open(content.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// tree has the files of a directory by path: the content, with "x:" in front of executables and "->" in front of the target of a link.
type tree map[string]string

// write makes the files; one of content "-" is removed.
func (want tree) write(t testing.TB, dir string) {
	t.Helper()
	for name, text := range want {
		file := filepath.Join(dir, filepath.FromSlash(name))
		target, link := strings.CutPrefix(text, "->")
		text, executable := strings.CutPrefix(text, "x:")
		perm := fs.FileMode(0o644)
		if executable {
			perm = 0o755
		}
		err := os.RemoveAll(file)
		if text != "-" {
			err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755))
		}
		switch {
		case text == "-":
		case link:
			err = errors.Join(err, os.Symlink(target, file))
		default:
			err = errors.Join(err, os.WriteFile(file, []byte(text), perm), os.Chmod(file, perm))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// read returns the files of a directory, without .git.
func read(t testing.TB, dir string) tree {
	t.Helper()
	got := tree{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		switch name, _ := filepath.Rel(dir, file); {
		case err != nil:
			return err
		case d.Name() == ".git":
			return fs.SkipDir
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(file)
			got[filepath.ToSlash(name)] = "->" + target
			return err
		case d.Type().IsRegular():
			text, err := os.ReadFile(file)
			info, _ := d.Info()
			if info.Mode().Perm()&0o111 != 0 {
				text = append([]byte("x:"), text...)
			}
			got[filepath.ToSlash(name)] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func take(t testing.TB, dir string, o workspace.Options) *workspace.Snapshot {
	t.Helper()
	s, err := workspace.Take(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(o.Limits); err != nil {
		t.Fatalf("Take made what Check refuses: %v", err)
	}
	return s
}

// send puts the contents of a snapshot into a store.
func send(t testing.TB, s *workspace.Snapshot, store *content.Store) {
	t.Helper()
	for _, f := range s.Files {
		if f.Hash == (content.Hash{}) {
			continue
		}
		r, err := s.Open(f)
		if err == nil {
			err = errors.Join(store.PutAs(f.Hash, r, f.Size), r.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// lend takes a directory along to another one, and returns what was sent, the new directory, and the lender's store.
func lend(t testing.TB, dir string) (*workspace.Snapshot, string, *content.Store) {
	t.Helper()
	s, store, there := take(t, dir, workspace.Options{}), openStore(t), t.TempDir()
	send(t, s, store)
	m, err := workspace.DecodeManifest(s.Encode(), workspace.Limits{})
	if err == nil {
		err = workspace.Make(t.Context(), m, store, there)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, there, store
}

// diff returns what has changed, as the borrower gets it.
func diff(t testing.TB, base workspace.Manifest, dir string, store *content.Store) (workspace.Patch, []workspace.Omission) {
	t.Helper()
	p, omitted, err := workspace.Diff(t.Context(), base, dir, store, workspace.Limits{})
	if err == nil {
		p, err = workspace.DecodePatch(p.Encode(), base, workspace.Limits{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return p, omitted
}

func plan(t testing.TB, p workspace.Patch, base workspace.Manifest, dir string, store *content.Store) *workspace.Plan {
	t.Helper()
	pl, err := p.Plan(t.Context(), base, dir, store)
	if err != nil {
		t.Fatal(err)
	}
	return pl
}

func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

func check(t testing.TB, got, want tree) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("want -, got +:\n%s", d)
	}
}

func TestChangesComeBack(t *testing.T) {
	dir := t.TempDir()
	tree{"a.txt": "one\n", "b/run.sh": "x:#!/bin/sh\n", "b/c/d": "", "gone/x": "1", "link": "->b/run.sh", ".gitignore": "*.o\n", "x.o": "object", "swap": "was a file"}.write(t, dir)
	base, there, store := lend(t, dir)
	check(t, read(t, there), tree{"a.txt": "one\n", "b/run.sh": "x:#!/bin/sh\n", "b/c/d": "", "gone/x": "1", "link": "->b/run.sh", ".gitignore": "*.o\n", "swap": "was a file"})

	tree{"a.txt": "two\n", "b/run.sh": "#!/bin/sh\n", "gone": "-", "new/e": "x:e", "link": "->new/e", "y.o": "built", "swap": "-", "swap/in": "a directory"}.write(t, there)
	p, omitted := diff(t, base.Manifest, there, store)
	if len(omitted) > 0 {
		t.Errorf("omitted: %v", omitted)
	}
	pl := plan(t, p, base.Manifest, dir, store)
	if err := pl.Apply(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	check(t, read(t, dir), tree{"a.txt": "two\n", "b/run.sh": "#!/bin/sh\n", "b/c/d": "", "new/e": "x:e", "link": "->new/e", ".gitignore": "*.o\n", "x.o": "object", "swap/in": "a directory"})
}

func TestRepositoryTravelsAsOneCommit(t *testing.T) {
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q")
	tree{".gitignore": "*.log\n", "tracked.log": "tracked though ignored", "a": "1\n"}.write(t, dir)
	gitIn(t, dir, "add", "-f", ".")
	gitIn(t, dir, "commit", "-qm", "first")
	tree{"a": "2\n", "new": "n", "x.log": "ignored"}.write(t, dir)
	s, there, _ := lend(t, dir)
	check(t, read(t, there), tree{".gitignore": "*.log\n", "tracked.log": "tracked though ignored", "a": "2\n", "new": "n"})
	if head := strings.TrimSpace(gitIn(t, dir, "rev-parse", "HEAD")); s.Commit != head {
		t.Errorf("the commit is %q, want %q", s.Commit, head)
	}
	if log := gitIn(t, there, "log", "--format=%an %s"); log != "symbio snapshot of "+s.Commit+"\n" {
		t.Errorf("git log there: %q", log)
	}
	if status := gitIn(t, there, "status", "--short"); status != "" {
		t.Errorf("git status there: %q", status)
	}
}

func TestBothSidesMerge(t *testing.T) {
	dir := t.TempDir()
	tree{"a": "1\n2\n3\n4\n5\n"}.write(t, dir)
	base, there, store := lend(t, dir)
	tree{"a": "1\n2\n3\n4\nfive\n"}.write(t, there)
	tree{"a": "one\n2\n3\n4\n5\n"}.write(t, dir)
	p, _ := diff(t, base.Manifest, there, store)
	pl := plan(t, p, base.Manifest, dir, store)
	if err := pl.Apply(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	check(t, read(t, dir), tree{"a": "one\n2\n3\n4\nfive\n"})
}
