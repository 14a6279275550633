package builtin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"symbio/agent/tool"
)

// workdir is a directory whose files the tools read and change. Its methods may be called from many
// goroutines.
type workdir struct {
	// root opens all files. No path can leave it.
	root *os.Root
	// dir is the absolute path as it was given; real is the same with links followed. Paths below
	// either are accepted, because models may know the directory by both.
	dir  string
	real string
	// reach lists the directories that the tools reach, for an error message.
	reach string

	// changing is held while a file is checked and replaced, so that two edits of one turn cannot
	// both start from the same content.
	changing sync.Mutex
}

// open opens a directory. It follows links once, now: if the link is changed later,
// the workdir stays where it is.
func open(dir string) (*workdir, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open workspace %s: %w", dir, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	return &workdir{root: root, dir: abs, real: real, reach: abs}, nil
}

// within returns the name of path in the workspace, "." for the workspace itself. It resolves path
// exactly as the guard did: against the same directory, cleaned in the same way. It compares texts
// only and follows no links; root does that when the file is opened. It returns the error of
// CheckPath, or one that names the directories that can be reached.
func (w *workdir) within(ctx context.Context, path string) (string, error) {
	if err := CheckPath(path); err != nil {
		return "", err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.here(ctx), path)
	}
	path = filepath.Clean(path)
	for _, dir := range []string{w.dir, w.real} {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return rel, nil
		}
	}
	return "", fmt.Errorf("%s is outside the workspace; the tools reach only what is below %s", quoted(path), w.reach)
}

// here returns the directory to which relative paths are resolved.
func (w *workdir) here(ctx context.Context) string {
	if dir := tool.Dir(ctx); dir != "" {
		return dir
	}
	return w.dir
}

// shower returns a function that turns names in the workspace into paths for the model: relative to
// its working directory if they are below it, else absolute. The model can use these paths in its
// next call as they are.
func (w *workdir) shower(ctx context.Context) func(name string) string {
	here, err := w.within(ctx, w.here(ctx))
	if err != nil {
		// No name is below "..", so all paths are shown as absolute ones.
		here = ".."
	}
	return func(name string) string {
		if rel, err := filepath.Rel(here, name); err == nil && filepath.IsLocal(rel) {
			return quoted(filepath.ToSlash(rel))
		}
		return quoted(filepath.ToSlash(filepath.Join(w.dir, name)))
	}
}

// followLink returns an error if the open file f is not the one that the guard judged. If a link
// was on the way, the rules are asked again about the file's real path, which the kernel reports
// and which a link created in the meantime cannot change.
func (w *workdir) followLink(ctx context.Context, f *os.File, name, path string) error {
	at := pathOf(f)
	if at == "" || at == filepath.Join(w.real, name) || tool.MayFollowLink(ctx, at) {
		return nil
	}
	return errLeads(path, at)
}
