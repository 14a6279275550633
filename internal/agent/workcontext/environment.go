package workcontext

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"symbio/agent/conversation"
	"symbio/internal/security/lazyregexp"
	"symbio/security/sandbox"
	"symbio/skills"
)

// Environment returns the part that says when and on what system an agent works in dir, on which
// branch of git and whether files were changed, and the access of its commands. level is the sandbox's, as
// sandbox.Level names it; "" = not known. held is what the sandbox allows. The text has the day and not the time,
// so that it mostly stays the same from task to task, and servers of models keep it in their caches.
func Environment(now time.Time, dir, level string, held sandbox.Policy) conversation.Part {
	commands := "network " + held.Network.String() + "; can write " + writable(held.Files)
	switch level {
	case "":
	case sandbox.Off.String():
		commands = "run as the user, without a sandbox"
	case sandbox.None.String():
		commands = "are refused, because this machine has no sandbox"
	default:
		commands = "sandbox " + level + "; " + commands
	}
	text := fmt.Sprintf("\n\n# Environment\n\nDate: %s\nSystem: %s %s\nShell: bash\nGit: %s\nCommands: %s\n", now.Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, git(dir), commands)
	return conversation.Part{Name: "environment", Text: text}
}

// maxWritable is how many writable directories are listed.
const maxWritable = 8

// writable lists what commands may write.
func writable(f sandbox.Files) string {
	list := f.Write[:min(len(f.Write), maxWritable)]
	if f.Temp {
		list = append(list[:len(list):len(list)], "a private $TMPDIR")
	}
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// maxHead bounds the files of git that are read, in bytes.
const maxHead = 4 << 10

var (
	branchHead = lazyregexp.New(`^ref: refs/heads/([\w./+@=-]{1,200})\s*$`)
	commitHead = lazyregexp.New(`^([0-9a-f]{12})[0-9a-f]{28,52}\s*$`)
)

// gitStates are the files in a git directory that tell of an operation that is not finished.
var gitStates = [...]struct{ file, state string }{
	{"rebase-merge", "a rebase"}, {"rebase-apply", "a rebase"}, {"MERGE_HEAD", "a merge"}, {"CHERRY_PICK_HEAD", "a cherry-pick"},
	{"REVERT_HEAD", "a revert"}, {"BISECT_LOG", "a bisection"},
}

// git describes the repository of dir: the branch, an operation that is not finished, and whether tracked files
// were changed. It reads
// git's own files and does not run git, because a repository's configuration can name programs that
// git runs.
func git(dir string) string {
	dirs := skills.ParentDirs(dir, "", []string{".git"})
	top := dirs[len(dirs)-1]
	at := filepath.Join(top, ".git")
	if info, err := os.Stat(at); err != nil {
		return "no repository"
	} else if info.Mode().IsRegular() { // of a worktree or a submodule
		link, err := readHead(top, ".git")
		to, is := strings.CutPrefix(strings.TrimSpace(string(link)), "gitdir: ")
		if err != nil || !is {
			return "a repository that cannot be read"
		}
		if at = to; !filepath.IsAbs(at) {
			at = filepath.Join(top, at)
		}
	}
	head, err := readHead(at, "HEAD")
	if err != nil {
		return "a repository that cannot be read"
	}
	text := "a repository in an unknown state"
	if m := branchHead().FindSubmatch(head); m != nil {
		text = "branch " + string(m[1])
	} else if m := commitHead().FindSubmatch(head); m != nil {
		text = "commit " + string(m[1]) + ", on no branch"
	}
	for _, s := range gitStates {
		if _, err := os.Lstat(filepath.Join(at, s.file)); err == nil {
			return text + ", in the middle of " + s.state
		}
	}
	return text + unstaged(top, at)
}

// readHead returns a small file of git.
func readHead(dir, name string) ([]byte, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := readFile(r, name, maxHead)
	return bytes.TrimSpace(text), err
}
