package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"symbio/internal/agent/content"
	"symbio/internal/security/gitenv"
	"symbio/internal/security/visible"
)

// Make writes the files of a manifest into dir, which must exist and be empty: what is there is never overwritten.
// The manifest must have passed a Check with the caller's limits. If it is of a repository and git is installed, dir
// becomes a repository of its own with one commit. After an error the caller removes dir: a part may be written.
func Make(ctx context.Context, m Manifest, store *content.Store, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("make a workspace: %w", err)
	}
	defer root.Close()
	err = m.Check(Limits{math.MaxInt, math.MaxInt64, math.MaxInt64}) // the paths again: what they allow is dangerous
	if err == nil {
		err = write(ctx, m.Files, store, root, ".")
	}
	if err == nil && m.Commit != "" {
		err = commit(ctx, m, dir)
	}
	if err != nil {
		return fmt.Errorf("make the workspace %s: %w", dir, err)
	}
	return nil
}

// write makes the files below dir. They must have passed a check, by which none is below another, so their order does not
// matter, and no link is followed.
func write(ctx context.Context, files []File, store *content.Store, root *os.Root, dir string) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, f := range files {
		name := path.Join(dir, f.Path)
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return errors.Join(err, group.Wait())
		}
		group.Go(func() error { return cmp.Or(context.Cause(inner), writeFile(root, name, f, store)) })
	}
	return group.Wait()
}

// writeFile makes f under a name where nothing may be.
func writeFile(root *os.Root, name string, f File, store *content.Store) (err error) {
	perm := fs.FileMode(0o644)
	switch f.Kind {
	case Link:
		return root.Symlink(f.Link, name)
	case Executable:
		perm = 0o755
	}
	from, err := store.Open(f.Hash)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	r := verify(from, f)
	defer r.Close()
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, r)
	return errors.Join(err, to.Close())
}

// noAttributes override the attributes of the files, which could have git change contents or run a filter.
const noAttributes = "* -text -eol -ident -filter -working-tree-encoding\n"

// commit makes dir a repository with one commit of all files, also of those that it ignores. It has no hooks and no
// templates. Without git there is none. All contents go to one pack (bigFileThreshold): a file for each takes twice the time.
func commit(ctx context.Context, m Manifest, dir string) error {
	if _, err := exec.LookPath("git"); err != nil || len(m.Files) == 0 {
		return nil
	}
	// These are there before git is, which leaves them.
	info := filepath.Join(dir, ".git", "info")
	err := errors.Join(os.MkdirAll(info, 0o755), os.WriteFile(filepath.Join(info, "attributes"), []byte(noAttributes), 0o644))
	for _, args := range [][]string{
		{"init", "--quiet", "--template=", "--initial-branch=main"},
		{"add", "--all", "--force"},
		{"commit", "--quiet", "--no-gpg-sign", "--message=snapshot of " + m.Commit},
	} {
		if err == nil {
			_, err = runGit(ctx, dir, slices.Concat([]string{"--git-dir=.git", "--work-tree=.", "-c", "user.name=symbio",
				"-c", "user.email=symbio@localhost", "-c", "core.bigFileThreshold=1", "-c", "core.compression=0", "-c", "gc.auto=0"}, args)...)
		}
	}
	return err
}

// runGit runs git in dir and returns its output. Nothing that a repository or the variables of this process say starts a
// program.
func runGit(ctx context.Context, dir string, args ...string) (string, error) {
	return runGitWith(ctx, gitCall{dir: dir}, args...)
}

// gitCall is where git runs.
type gitCall struct {
	dir   string
	in    io.Reader // nil = nothing
	index string    // the file of an index for commits by symbio; "" = the repository's
}

// runGitWith is runGit with an input and another index.
func runGitWith(ctx context.Context, c gitCall, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdin = c.dir, c.in
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "GIT_") })
	cmd.Env = append(append(cmd.Env, gitenv.Hardened()...), "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
	if c.index != "" {
		cmd.Env = append(cmd.Env, "GIT_INDEX_FILE="+c.index, "GIT_AUTHOR_NAME=symbio", "GIT_AUTHOR_EMAIL=symbio@localhost",
			"GIT_COMMITTER_NAME=symbio", "GIT_COMMITTER_EMAIL=symbio@localhost")
	}
	var messages bytes.Buffer
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], cmp.Or(context.Cause(ctx), err), visible.Line(messages.String(), 400))
	}
	return string(out), nil
}
