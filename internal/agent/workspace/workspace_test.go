package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/internal/agent/content"
	"symbio/internal/agent/workspace"
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
	for _, name := range slices.Sorted(maps.Keys(want)) {
		text, file := want[name], filepath.Join(dir, filepath.FromSlash(name))
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
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"},
		args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

// check compares trees; t is a testing.TB or a rapid.T.
func check(t interface {
	Helper()
	Errorf(string, ...any)
}, got, want tree) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("want -, got +:\n%s", d)
	}
}

func TestChangesComeBack(t *testing.T) {
	dir := t.TempDir()
	tree{"a.txt": "one\n", "b/run.sh": "x:#!/bin/sh\n", "b/c/d": "", "gone/x": "1", "link": "->b/run.sh", ".gitignore": "*.o\n",
		"x.o": "object", "swap": "was a file"}.write(t, dir)
	base, there, store := lend(t, dir)
	check(t, read(t, there), tree{"a.txt": "one\n", "b/run.sh": "x:#!/bin/sh\n", "b/c/d": "", "gone/x": "1", "link": "->b/run.sh",
		".gitignore": "*.o\n", "swap": "was a file"})

	tree{"a.txt": "two\n", "b/run.sh": "#!/bin/sh\n", "gone": "-", "new/e": "x:e", "link": "->new/e", "y.o": "built", "swap": "-",
		"swap/in": "a directory"}.write(t, there)
	p, omitted := diff(t, base.Manifest, there, store)
	if len(omitted) > 0 {
		t.Errorf("omitted: %v", omitted)
	}
	pl := plan(t, p, base.Manifest, dir, store)
	if err := pl.Apply(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	check(t, read(t, dir), tree{"a.txt": "two\n", "b/run.sh": "#!/bin/sh\n", "b/c/d": "", "new/e": "x:e", "link": "->new/e",
		".gitignore": "*.o\n", "x.o": "object", "swap/in": "a directory"})
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

// markers are files that must not leave, each with its path as content.
var markers = []string{
	".env", ".env.local", "sub/.env.production", "prod.env", ".envrc", "id_rsa", "deploy/id_ed25519", "server.pem", "tls/server.KEY", "store.p12", "a.pfx", "a.jks", ".netrc", "home/.netrc",
	".aws/credentials", "me/.ssh/config", ".gnupg/x", ".kube/config", "kubeconfig", "vault.kdbx", ".docker/config.json", "credentials.json", "client_secret_1.json", "infra/terraform.tfstate",
	".pgpass", ".git-credentials", "denied/notes", ".ssh/.env.example",
}

func TestSecretsStay(t *testing.T) {
	for _, repository := range []bool{false, true} {
		dir := t.TempDir()
		kept := tree{"main.go": "package main", ".env.example": "NAME=", ".npmrc": "registry=https://r", "id_rsa.pub": "ssh-rsa",
			"keys.md": "about -----BEGIN PRIVATE KEY-----"}
		kept.write(t, dir)
		tree{
			"sub/.npmrc": "//r/:_authToken=MARKER", "sub/.pypirc": "password = MARKER", "notes.txt": "\n-----BEGIN OPENSSH PRIVATE KEY-----\nMARKER", "old": "-----BEGIN RSA PRIVATE KEY-----\nMARKER",
			"key.ppk2": "PuTTY-User-Key-File-2: MARKER", "to-env": "->.env", "to-ssh": "->me/.ssh",
		}.write(t, dir)
		for _, m := range markers {
			tree{m: "MARKER " + m}.write(t, dir)
		}
		if repository {
			gitIn(t, dir, "init", "-q")
			gitIn(t, dir, "add", "-f", ".")
			gitIn(t, dir, "commit", "-qm", "with secrets")
		}
		s := take(t, dir, workspace.Options{Denied: func(path string) bool { return strings.HasPrefix(path, "denied/") }})
		store, there := openStore(t), t.TempDir()
		send(t, s, store)
		if err := workspace.Make(t.Context(), s.Manifest, store, there); err != nil {
			t.Fatal(err)
		}
		check(t, read(t, there), kept)
		if got, want := len(s.Omitted), len(markers)+7; got != want {
			t.Errorf("%d files are said to be left out, want %d: %v", got, want, s.Omitted)
		}
		for _, o := range s.Omitted {
			if o.Why == "" {
				t.Errorf("%s is left out without a reason", o.Path)
			}
		}
		for _, e := range store.All() {
			f, _ := store.Open(e.Hash)
			text, _ := io.ReadAll(f)
			f.Close()
			if strings.Contains(string(text), "MARKER") {
				t.Errorf("the lender has %q", text)
			}
		}
		// What looks like a secret does not come back either, nor over a file.
		tree{"new.pem": "x", "main.go": "-----BEGIN PRIVATE KEY-----\n", "fine": "f"}.write(t, there)
		p, omitted := diff(t, s.Manifest, there, store)
		if len(p.Changes) != 1 || p.Changes[0].Path != "fine" || len(omitted) != 2 {
			t.Errorf("changes %v, omitted %v", p.Changes, omitted)
		}
	}
}

func TestTakeLeavesOut(t *testing.T) {
	dir := t.TempDir()
	tree{
		"a": "1", "A": "2", "aux": "device", "x:y": "stream", "d/f": "f", "absolute": "->/etc/passwd", "out": "->../x", "dangling": "->none", "chain": "->good", "good": "->d", "up": "->.",
		"only/link": "->../none", "to-only": "->only", ".gitignore": "ignored/\n", "ignored/x": "x", "to-ignored": "->ignored/x", "big": strings.Repeat("b", 2000),
	}.write(t, dir)
	t.Chdir(dir) // the path of a socket must be short
	l, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := take(t, dir, workspace.Options{Limits: workspace.Limits{FileSize: 1000}})
	var got, left []string
	for _, f := range s.Files {
		got = append(got, f.Path)
	}
	for _, o := range s.Omitted {
		left = append(left, o.Path)
	}
	if d := cmp.Diff([]string{".gitignore", "A", "d/f", "good"}, got); d != "" {
		t.Errorf("files: %s", d)
	}
	if d := cmp.Diff([]string{"a", "absolute", "aux", "big", "chain", "dangling", "only/link", "out", "socket", "to-ignored", "to-only",
		"up", "x:y"}, left); d != "" {
		t.Errorf("omitted: %s", d)
	}
}

func TestTakeSaysWhatIsTooLarge(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		tree{fmt.Sprintf("src/%d", i): "x", fmt.Sprintf("assets/%d", i): strings.Repeat("x", 10_000)}.write(t, dir)
	}
	for _, l := range []workspace.Limits{{Files: 9}, {Size: 49_000}} {
		_, err := workspace.Take(t.Context(), dir, workspace.Options{Limits: l})
		if !errors.Is(err, workspace.ErrTooLarge) || !strings.Contains(err.Error(), "most of them in assets") ||
			!strings.Contains(err.Error(), ".gitignore") {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

func TestRepositoriesOfOtherForms(t *testing.T) {
	dir, sub, linked := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "linked")
	gitIn(t, sub, "init", "-q")
	tree{"s": "submodule"}.write(t, sub)
	gitIn(t, sub, "add", ".")
	gitIn(t, sub, "commit", "-qm", "s")
	gitIn(t, dir, "init", "-q")
	if s := take(t, dir, workspace.Options{}); s.Commit != "" || len(s.Files) != 0 {
		t.Errorf("an empty repository is %+v", s)
	}
	tree{"a/1": "1", "b/2": "2", "gone": "g", ".gitignore": "*.log\nall/\n", "all/x": "ignored directory"}.write(t, dir)
	gitIn(t, dir, "submodule", "--quiet", "add", sub, "mod")
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-qm", "all")
	gitIn(t, dir, "worktree", "add", "-q", linked)
	tree{"gone": "-", "x.log": "ignored", "b": "-", "c/2": "2"}.write(t, dir)
	tree{"b": "->c"}.write(t, dir) // git lists b/2 yet, which leads into c
	for name, c := range map[string]struct {
		dir  string
		want string
	}{
		"submodule":                {dir, ".gitignore .gitmodules a/1 b c/2"},
		"directory of a worktree":  {filepath.Join(linked, "a"), "1"},
		"worktree":                 {linked, ".gitignore .gitmodules a/1 b/2 gone"},
		"ignored directory itself": {filepath.Join(dir, "all"), "x"},
	} {
		s := take(t, c.dir, workspace.Options{})
		var got []string
		for _, f := range s.Files {
			got = append(got, f.Path)
		}
		if strings.Join(got, " ") != c.want || len(s.Commit) != 40 {
			t.Errorf("%s: %v of %q, want %s", name, got, s.Commit, c.want)
		}
		if said := len(s.Omitted) == 1 && s.Omitted[0].Path == "mod"; said != (name == "submodule") {
			t.Errorf("%s: omitted %v", name, s.Omitted)
		}
	}
	gitIn(t, linked, "sparse-checkout", "set", "--no-cone", "/a/")
	if s := take(t, linked, workspace.Options{}); len(s.Files) != 1 {
		t.Errorf("a sparse worktree has %v", s.Files)
	}
}

// A repository's configuration, attributes and hooks are of those who wrote them, and start nothing.
func TestGitStartsNothing(t *testing.T) {
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q")
	tree{"a": "a", "evil.sh": "x:#!/bin/sh\ntouch \"$(dirname \"$0\")/started\"\n"}.write(t, dir)
	gitIn(t, dir, "add", "a")
	gitIn(t, dir, "commit", "-qm", "a")
	tree{".gitattributes": "* filter=evil text eol=crlf working-tree-encoding=none\n"}.write(t, dir)
	evil := filepath.Join(dir, "evil.sh")
	for _, key := range []string{"core.fsmonitor", "core.hooksPath", "core.pager", "filter.evil.clean", "filter.evil.process",
		"core.editor", "diff.external", "core.sshCommand"} {
		gitIn(t, dir, "config", key, evil)
	}
	config := filepath.Join(t.TempDir(), "config")
	tree{"config": "[filter \"evil\"]\n\tclean = " + evil + "\n\trequired\n[init]\n\ttemplateDir = " + dir + "\n[commit]\n\tgpgSign\n[gpg]\n\tprogram = " + evil + "\n"}.write(t,
		filepath.Dir(config))
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	t.Setenv("GIT_DIR", "/none")
	t.Setenv("HOME", filepath.Dir(config))
	tree{".gitconfig": "[filter \"evil\"]\n\tclean = " + evil + "\n\trequired\n[commit]\n\tgpgSign\n[gpg]\n\tprogram = " + evil + "\n"}.write(t, filepath.Dir(config))
	base, there, store := lend(t, dir)
	if base.Commit == "" {
		t.Error("it was not taken as a repository")
	}
	tree{".git/config": "[core]\n\tfsmonitor = " + evil + "\n\tworktree = /\n", "a": "changed"}.write(t, there)
	if p, _ := diff(t, base.Manifest, there, store); len(p.Changes) != 1 {
		t.Errorf("changes: %v", p.Changes)
	}
	if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
		t.Error("a program was started")
	}
}

func TestSnapshotNoticesChanges(t *testing.T) {
	dir := t.TempDir()
	tree{"same": "1234", "longer": "1234", "shorter": "1234", "gone": "1", "link": "1"}.write(t, dir)
	s := take(t, dir, workspace.Options{})
	tree{"same": "4321", "longer": "12345", "shorter": "123", "gone": "-", "link": "->/etc/passwd"}.write(t, dir)
	for _, f := range s.Files {
		r, err := s.Open(f)
		var text []byte
		if err == nil {
			text, err = io.ReadAll(r)
			r.Close()
		}
		if f.Path == "longer" { // its beginning is what was taken
			if err != nil || string(text) != "1234" {
				t.Errorf("%s: %q, %v", f.Path, text, err)
			}
		} else if !errors.Is(err, workspace.ErrChanged) {
			t.Errorf("%s: %q, %v", f.Path, text, err)
		}
	}
}

// prepare returns a plan: what was in dir, what the lender made of it, and what was made of it here meanwhile.
func prepare(t testing.TB, was, theirs, ours tree) (*workspace.Plan, string) {
	t.Helper()
	dir := t.TempDir()
	was.write(t, dir)
	base, there, store := lend(t, dir)
	theirs.write(t, there)
	ours.write(t, dir)
	p, _ := diff(t, base.Manifest, there, store)
	return plan(t, p, base.Manifest, dir, store), dir
}

func TestConflictsAreReportedByFile(t *testing.T) {
	was := tree{
		"same": "1\n2\n3\n", "lines": "1\n2\n3\n4\n5\n", "touch": "1\n2\n3\n", "end": "1\n", "binary": "a\x00b", "theirs gone": "x", "ours gone": "x", "both gone": "x", "mode": "m\n", "link": "->lines", "fine": "f", "equal": "1",
	}
	theirs := tree{
		"same": "1\ntheirs\n3\n", "lines": "1\n2\n3\n4\nfive\n", "touch": "1\ntwo\n3\n", "end": "1\n2\n", "binary": "a\x00c", "theirs gone": "-", "ours gone": "y", "both gone": "-", "mode": "x:m\n", "link": "->fine",
		"fine": "theirs", "equal": "2", "new": "theirs", "new equal": "n", "socket": "theirs",
	}
	ours := tree{
		"same": "1\nours\n3\n", "lines": "one\n2\n3\n4\n5\n", "touch": "one\n2\n3\n", "end": "1\n3\n", "binary": "a\x00d", "theirs gone": "y", "ours gone": "-", "both gone": "-", "mode": "M\n", "link": "->touch",
		"equal": "2", "new": "ours", "new equal": "n", "unrelated": "ours",
	}
	pl, dir := prepare(t, was, theirs, ours)
	before := read(t, dir)
	got := map[string]string{}
	for _, s := range pl.Steps {
		got[s.Path] = string(s.Action)
		if s.Conflict != "" {
			got[s.Path] = "conflict"
		}
	}
	want := map[string]string{
		"same": "conflict", "lines": "merge", "touch": "conflict", "end": "conflict", "binary": "conflict", "theirs gone": "conflict", "ours gone": "conflict", "both gone": "same", "mode": "merge", "link": "conflict",
		"fine": "change", "equal": "same", "new": "conflict", "new equal": "same", "socket": "add",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("steps: %s", d)
	}
	if err := pl.Apply(t.Context(), false); !errors.Is(err, workspace.ErrConflict) {
		t.Errorf("Apply with conflicts: %v", err)
	}
	check(t, read(t, dir), before)
	if err := pl.Apply(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	maps.Copy(before, tree{"lines": "one\n2\n3\n4\nfive\n", "mode": "x:M\n", "fine": "theirs", "socket": "theirs"})
	check(t, read(t, dir), before)
}

// A file where the patch needs a directory, and the reverse, is a conflict of that file only.
func TestFileForDirectoryIsConflict(t *testing.T) {
	was := tree{"a": "1", "d/1": "x", "d/2": "x", "e/1": "x", "f": "x", "g/f": "x", "g/d/x": "x", "h": "->g"}
	theirs := tree{"a": "one", "n/m": "new", "n/o/p": "new", "d": "file", "e": "file", "l/x": "new", "x": "new", "f": "-", "f/g": "new",
		"h": "-", "h/f/n": "new", "h/d": "file"}
	ours := tree{"n": "mine", "d/mine/deep": "mine", "l": "->a", "x/y": "mine"}
	pl, dir := prepare(t, was, theirs, ours)
	got := map[string]string{}
	for _, s := range pl.Conflicts() {
		got[s.Path] = s.Conflict
	}
	dirHere := "it is a directory here, and a file in the patch"
	want := map[string]string{"n/m": "n is no directory here, and one in the patch", "n/o/p": "n is no directory here, and one in the patch", "l/x": "l is no directory here, and one in the patch", "d": dirHere, "x": dirHere}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("conflicts (-want +got):\n%s", d)
	}
	before := read(t, dir)
	if err := pl.Apply(t.Context(), false); !errors.Is(err, workspace.ErrConflict) {
		t.Errorf("Apply: %v", err)
	}
	check(t, read(t, dir), before)
	if err := pl.Apply(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	check(t, read(t, dir), tree{"a": "one", "n": "mine", "d/mine/deep": "mine", "e": "file", "l": "->a", "x/y": "mine", "f/g": "new",
		"g/f": "x", "g/d/x": "x", "h/f/n": "new", "h/d": "file"})
}

// What a crash leaves of a patch does not travel. It is removed, unless it holds files that may be nowhere else, or may be
// in use.
func TestLeftoversOfPatch(t *testing.T) {
	was := tree{"a": "1"}
	left := tree{".symbio-patch-A/new/x": "new", ".symbio-patch-B/old/a": "mine", ".symbio-patch-B/new/a": "x",
		".symbio-patch-C/done/a": "0", ".symbio-patch-D/new/x": "in use"}
	pl, dir := prepare(t, was, tree{"a": "2"}, left)
	long := time.Now().Add(-2 * time.Hour)
	for _, name := range []string{"A", "B", "C"} {
		if err := os.Chtimes(filepath.Join(dir, ".symbio-patch-"+name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	s := take(t, dir, workspace.Options{})
	if len(s.Files) != 1 || len(s.Omitted) != len(left) || !strings.Contains(s.Omitted[0].Why, "not applied to its end") {
		t.Errorf("%d files travel, and %v do not", len(s.Files), s.Omitted)
	}
	if kept := new(workspace.Leftovers).Remove(dir); len(kept) != 1 || kept[0] != filepath.Join(dir, ".symbio-patch-B") {
		t.Errorf("kept are %q, want B", kept)
	}
	if err := pl.Apply(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	check(t, read(t, dir), tree{"a": "2", ".symbio-patch-B/old/a": "mine", ".symbio-patch-B/new/a": "x", ".symbio-patch-D/new/x": "in use"})
}

func TestPlanShowsDiffs(t *testing.T) {
	pl, _ := prepare(t, tree{"a": "1\n2\n", "b": "x\n", "bin": "\x00"},
		tree{"a": "1\nzwei\n", "b": "-", "c": "new\n", "bin": "\x00\x01"}, nil)
	for i, want := range []string{"--- a\n+++ a\n@@ -1,2 +1,2 @@\n 1\n-2\n+zwei\n", "--- b\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", "", "--- /dev/null\n+++ c\n@@ -0,0 +1 @@\n+new\n"} {
		if got := pl.Steps[i].Diff; got != want {
			t.Errorf("%s: got %q, want %q", pl.Steps[i].Path, got, want)
		}
	}
}

// The borrower need not keep what it sent: the lender has it.
func TestMergeNeedsWhatWasSent(t *testing.T) {
	dir := t.TempDir()
	tree{"a": "1\n2\n3\n"}.write(t, dir)
	base, there, lender := lend(t, dir)
	tree{"a": "1\n2\n3\n4\n"}.write(t, there)
	tree{"a": "0\n1\n2\n3\n"}.write(t, dir)
	p, _ := diff(t, base.Manifest, there, lender)
	store := openStore(t)
	fetch := func(all []content.Hash) {
		for _, h := range all {
			f, err := lender.Open(h)
			if err == nil {
				err = errors.Join(store.PutAs(h, f, 100), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	fetch(p.Contents())
	pl := plan(t, p, base.Manifest, dir, store)
	if d := cmp.Diff([]content.Hash{base.Files[0].Hash}, pl.Missing); d != "" || len(pl.Conflicts()) != 1 {
		t.Errorf("missing: %s, conflicts %v", d, pl.Conflicts())
	}
	fetch(pl.Missing)
	if err := plan(t, p, base.Manifest, dir, store).Apply(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	check(t, read(t, dir), tree{"a": "0\n1\n2\n3\n4\n"})
}

// What happens between the plan and Apply is not lost, and nothing is half applied.
func TestApplyTakesAllBack(t *testing.T) {
	was := tree{"a": "1", "b/c": "2", "d/e": "3", "z": "9"}
	theirs := tree{"a": "one", "b": "now a file", "d/e": "-", "n/m": "new", "z": "nine"}
	for name, meanwhile := range map[string]tree{
		"changed":             {"z": "changed"},
		"deleted":             {"z": "-"},
		"new file":            {"n/m": "mine"},
		"new directory":       {"n/m/x": "mine"},
		"file for directory":  {"n": "mine"},
		"link for directory":  {"n": "->/tmp"},
		"link in the tree":    {"n": "->y", "y/x": "mine"},
		"link to the top":     {"n": "->."},
		"directory for file":  {"z": "-", "z/y": "mine"},
		"executable":          {"z": "x:9"},
		"link":                {"z": "->a"},
		"file beside deleted": {"b/mine": "mine"},
		"link to where it is": {"d": "-", "other/e": "3", "b/c": "-"},
	} {
		pl, dir := prepare(t, was, theirs, nil)
		meanwhile.write(t, dir)
		before := read(t, dir)
		err := pl.Apply(t.Context(), false)
		if err == nil {
			t.Errorf("%s: it was applied", name)
		}
		if d := cmp.Diff(before, read(t, dir)); d != "" {
			t.Errorf("%s: %v: before -, after +:\n%s", name, err, d)
		}
	}
	pl, dir := prepare(t, was, theirs, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pl.Apply(ctx, false); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	check(t, read(t, dir), was)
}

func TestApplyKeepsPermissions(t *testing.T) {
	pl, dir := prepare(t, tree{"a": "1"}, tree{"a": "2"}, nil)
	file := filepath.Join(dir, "a")
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := pl.Apply(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
