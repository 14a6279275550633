package workspace

import (
	"context"
	"crypto/sha256"
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

	"golang.org/x/sync/errgroup"

	"symbio/agent/content"
)

// Make writes the files of a manifest into dir, which must exist and be empty. It checks the manifest first, and each
// content while it is written. If the manifest is of a repository and git is installed, dir becomes a repository of its
// own with one commit. After an error the caller removes dir: a part may be written.
func Make(ctx context.Context, m Manifest, store *content.Store, dir string) error {
	if err := m.Check(Limits{math.MaxInt, math.MaxInt64, math.MaxInt64}); err != nil {
		return err
	}
	if err := write(ctx, m.Files, store, dir); err != nil {
		return fmt.Errorf("make the workspace %s: %w", dir, err)
	}
	if err := commit(ctx, m, dir); err != nil {
		return fmt.Errorf("make the workspace %s a repository: %w", dir, err)
	}
	return nil
}

func write(ctx context.Context, files []File, store *content.Store, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if entries, err := fs.ReadDir(root.FS(), "."); err != nil || len(entries) > 0 {
		return errors.Join(err, fmt.Errorf("it has %d files already: %w", len(entries), fs.ErrExist))
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, f := range files {
		if err := root.MkdirAll(filepath.FromSlash(path.Dir(f.Path)), 0o755); err != nil {
			return errors.Join(err, group.Wait())
		}
		if f.Kind.hasContent() {
			group.Go(func() error { return errors.Join(context.Cause(inner), copyFile(root, f.Path, f, store)) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// Links come last, so that nothing is written through one.
	for _, f := range files {
		if f.Kind == Link {
			if err := root.Symlink(f.Link, filepath.FromSlash(f.Path)); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyFile makes the file name of the content of f. What is there already is an error.
func copyFile(root *os.Root, name string, f File, store *content.Store) (err error) {
	from, err := store.Open(f.Hash)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	defer from.Close()
	perm := fs.FileMode(0o644)
	if f.Kind == Executable {
		perm = 0o755
	}
	to, err := root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(from, f.Size+1))
	if err == nil && (n != f.Size || content.Hash(sum.Sum(nil)) != f.Hash) {
		err = fmt.Errorf("%s: %w", f.Path, content.ErrMismatch)
	}
	return err
}

// noAttributes are over those of the files, which could have git change contents or run a filter.
const noAttributes = "* -text -eol -ident -filter -working-tree-encoding\n"

// commit makes dir a repository with one commit of all files, also of those that it ignores. It has no hooks, and of
// configurations only what git init writes: those of the user and the system name filters and templates.
func commit(ctx context.Context, m Manifest, dir string) error {
	if _, err := exec.LookPath("git"); err != nil || m.Commit == "" || len(m.Files) == 0 {
		return nil
	}
	info := filepath.Join(dir, ".git", "info")
	env := []string{"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=" + filepath.Join(dir, ".git"), "GIT_WORK_TREE=" + dir}
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env = append(env, "GIT_"+who+"_NAME=symbio", "GIT_"+who+"_EMAIL=symbio@localhost")
	}
	git := func(args ...string) error {
		_, err := runGit(ctx, dir, env, slices.Concat([]string{"-c", "core.looseCompression=0", "-c", "gc.auto=0"}, args)...)
		return err
	}
	if err := git("init", "--quiet", "--template=", "--initial-branch=main"); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(info, 0o755), os.WriteFile(filepath.Join(info, "attributes"), []byte(noAttributes), 0o644)); err != nil {
		return err
	}
	if err := git("add", "--all", "--force"); err != nil {
		return err
	}
	return git("commit", "--quiet", "--message=snapshot of "+m.Commit)
}
