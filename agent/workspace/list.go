package workspace

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"symbio/agent/tool/gitignore"
)

const (
	// maxListed bounds the entries that are looked at in a directory without git, also those that are ignored.
	maxListed = 1_000_000
	// maxIgnoreFile is how much is read of a .gitignore file, in bytes.
	maxIgnoreFile = 1 << 20
)

// list returns the paths below root that travel unless scanner.add leaves them out, in no order, and the commit of HEAD. Of a repository
// inside of a repository (a submodule) it has only the directory.
func list(ctx context.Context, root *os.Root) (paths []string, commit string, err error) {
	if !hasGit(root.Name(), true) {
		paths, err = walk(ctx, root)
		return paths, "", err
	}
	out, err := runGit(ctx, root.Name(), nil, "ls-files", "-z", "-co", "--exclude-standard")
	if err != nil {
		return nil, "", err
	}
	// A repository without a commit has no HEAD.
	if commit, err = runGit(ctx, root.Name(), nil, "rev-parse", "--verify", "--quiet", "HEAD"); err != nil {
		commit = ""
	}
	if out == "" { // git ignores the directory itself, or it is empty
		paths, err = walk(ctx, root)
		return paths, strings.TrimSpace(commit), err
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), strings.TrimSpace(commit), nil
}

// walker lists a directory without git.
type walker struct {
	root    *os.Root
	entries int
	paths   []string
}

// walk returns the paths that .gitignore files leave. Unlike git it does not know which ignored files are tracked.
func walk(ctx context.Context, root *os.Root) ([]string, error) {
	w := &walker{root: root}
	err := w.walk(ctx, ".", w.rules(nil, "", ".git/info/exclude"))
	return w.paths, err
}

func (w *walker) walk(ctx context.Context, dir string, rules gitignore.Stack) error {
	entries, err := fs.ReadDir(w.root.FS(), dir)
	if w.entries += len(entries); w.entries > maxListed {
		return fmt.Errorf("%w: more than %d files and directories", ErrTooLarge, maxListed)
	}
	if err = context.Cause(ctx); err != nil || strings.Count(dir, "/") >= maxDepth {
		return err // what is deeper cannot travel
	}
	rules = w.rules(rules, dir, ".gitignore")
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.Name() == ".git" || rules.Ignored(name, e.IsDir()):
		case e.IsDir():
			if err := w.walk(ctx, name, rules); err != nil {
				return err
			}
		default:
			w.paths = append(w.paths, name)
		}
	}
	return nil
}

// rules returns the rules with those of a file in dir, if it is a regular file that can be read.
func (w *walker) rules(rules gitignore.Stack, dir, name string) gitignore.Stack {
	dir = strings.TrimPrefix(dir, ".")
	f, err := openRegular(w.root, path.Join(dir, name))
	if err != nil {
		return rules
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	// Clip makes append copy: directories beside each other share the rules from above.
	return append(slices.Clip(rules), gitignore.Parse(dir, text))
}

// openRegular opens a regular file; that it is no link is for the caller to have seen. A FIFO that takes its place does not
// make it wait.
func openRegular(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("open %s: it is not a regular file", name)
	}
	return f, nil
}

// ignored reports whether patterns ignore a file or a directory above it.
func ignored(rules gitignore.Stack, name string) bool {
	for i, c := range name {
		if c == '/' && rules.Ignored(name[:i], true) {
			return true
		}
	}
	return rules.Ignored(name, false)
}
