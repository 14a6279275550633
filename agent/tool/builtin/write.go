package builtin

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"symbio/agent/tool"
)

//go:embed write.md
var writeText string

type writeArgs struct {
	FilePath string `json:"file_path" jsonschema:"The file to write."`
	Content  string `json:"content" jsonschema:"The whole new content."`
}

func (w *Workspace) writeTool() tool.Tool {
	return tool.New(tool.Spec{Name: "Write", Description: writeText}, func(ctx context.Context, a writeArgs) tool.Result {
		at := w.of(ctx, a.FilePath)
		did, err := at.write(ctx, a)
		if err != nil {
			return failed(err)
		}
		lines := strings.Count(a.Content, "\n")
		return tool.Result{Text: fmt.Sprintf("%s %s: %d bytes, %d lines.", did, at.shower(ctx)(did.name), len(a.Content), lines)}
	})
}

// deed is what a write did to the file of that name.
type deed struct {
	name    string
	existed bool
}

func (d deed) String() string {
	if d.existed {
		return "Replaced"
	}
	return "Created"
}

func (w *Workspace) write(ctx context.Context, a writeArgs) (deed, error) {
	name, err := w.within(ctx, a.FilePath)
	if err != nil {
		return deed{}, err
	}
	if ctx.Err() != nil {
		return deed{}, context.Cause(ctx)
	}
	did := deed{name: name}
	var perm fs.FileMode
	info, err := w.root.Lstat(name)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		// The rename below would put a file in the link's place, not in its target's.
		return deed{}, fmt.Errorf("%s is a symbolic link; write the file that it leads to", quoted(a.FilePath))
	case err == nil && !info.Mode().IsRegular():
		return deed{}, fmt.Errorf("%s is %w; it is not replaced", quoted(a.FilePath), errNotRegular)
	case err == nil:
		did.existed, perm = true, info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return deed{}, w.explain(a.FilePath, err)
	}
	parent := filepath.Dir(name)
	if inGit(name) {
		return deed{}, errInGit(a.FilePath)
	}
	if err := w.root.MkdirAll(parent, 0o755); err != nil {
		return deed{}, w.explain(a.FilePath, err)
	}
	if real, err := filepath.EvalSymlinks(filepath.Join(w.real, parent)); err != nil || inGit(strings.TrimPrefix(real, w.real)) {
		return deed{}, errInGit(a.FilePath)
	}
	if err := w.replace(did, a.Content, perm); err != nil {
		return deed{}, w.explain(a.FilePath, err)
	}
	return did, nil
}

// replace writes a file beside the one to be and renames it: a reader sees the old or the new one.
func (w *Workspace) replace(d deed, content string, perm fs.FileMode) (err error) {
	temp := filepath.Join(filepath.Dir(d.name), ".symbio-"+rand.Text()+".tmp")
	f, err := w.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.root.Remove(temp))
		}
	}()
	_, err = f.WriteString(content)
	if err == nil && d.existed {
		err = f.Chmod(perm)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return w.root.Rename(temp, d.name)
}

// inGit reports whether a path leads through .git, where a file can be a command to run.
func inGit(name string) bool {
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		if strings.EqualFold(part, ".git") {
			return true
		}
	}
	return false
}

func errInGit(path string) error {
	return fmt.Errorf("%s lies in a .git directory, where a file can be a command that git runs; it is not written", quoted(path))
}
