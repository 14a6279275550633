package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"symbio/internal/agent/content"
)

// commitRepo returns a repository with one commit of some files, and the function that runs git in it.
func commitRepo(t *testing.T, files map[string]string) (dir string, git func(args ...string) string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir = t.TempDir()
	git = func(args ...string) string {
		t.Helper()
		out, err := runGit(t.Context(), dir, append([]string{"-c", "user.name=ann", "-c", "user.email=ann@example.org"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	git("init", "-q")
	for name, text := range files {
		writeText(t, filepath.Join(dir, name), text)
	}
	if err := os.Symlink("a.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	git("add", "-A", "-f")
	git("commit", "-qm", "first")
	return dir, git
}

func writeText(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What an agent changes in the files of a commit becomes a commit on a branch; the directory of the person and its index stay.
func TestCommitPutsAPatchOnABranch(t *testing.T) {
	for _, below := range []string{"", "sub"} {
		top, git := commitRepo(t, map[string]string{"a.txt": "one\n", "sub/b.txt": "two\n", "sub/gone.txt": "x\n", "sub/.env": "KEY=1\n",
			"sub/skipped": "s\n", "sub/.gitignore": "skipped\n"})
		dir := filepath.Join(top, below)
		head, err := Head(t.Context(), dir, "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		writeText(t, filepath.Join(top, "a.txt"), "the person's\n")
		work := t.TempDir()
		s, err := TakeCommit(t.Context(), dir, head, work, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Omitted) != 1 || filepath.Base(s.Omitted[0].Path) != ".env" {
			t.Errorf("omitted: %v", s.Omitted)
		}
		inside, _ := filepath.Rel(below, "sub")
		if below == "" {
			inside = "sub"
		}
		writeText(t, filepath.Join(work, inside, "b.txt"), "TWO\n")
		writeText(t, filepath.Join(work, inside, "new.txt"), "new\n")
		if err := os.Remove(filepath.Join(work, inside, "gone.txt")); err != nil {
			t.Fatal(err)
		}
		store, err := content.Open(content.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := Diff(t.Context(), s.Manifest, work, store, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := p.Commit(t.Context(), dir, Branch{Name: "symbio/x-1", Base: head}, "work", store)
		if err != nil {
			t.Fatal(err)
		}
		if got := git("diff", "--name-status", "HEAD...symbio/x-1"); got != "M\tsub/b.txt\nD\tsub/gone.txt\nA\tsub/new.txt" {
			t.Errorf("below %q the branch has\n%s", below, got)
		}
		if got := git("status", "--porcelain"); got != "M a.txt" {
			t.Errorf("the status of the person's files: %q", got)
		}
		if same, err := p.Commit(t.Context(), dir, b, "again", store); err != nil || same != b {
			t.Errorf("without a change: %+v, %v, want %+v", same, err, b)
		}
		if _, err := p.Commit(t.Context(), dir, Branch{Name: "symbio/x-1", Base: head}, "over another one", store); err == nil {
			t.Error("a branch that is there was replaced")
		}
	}
}

func TestHeadNeedsACommit(t *testing.T) {
	if _, err := Head(t.Context(), t.TempDir(), "HEAD"); err == nil || !strings.Contains(err.Error(), "is in no git repository with a commit HEAD") {
		t.Errorf("outside of a repository: %v", err)
	}
}
