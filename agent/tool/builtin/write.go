package builtin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
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
	return tool.New(tool.Spec{Name: "Write", Description: writeText, Alone: true}, func(ctx context.Context, a writeArgs) tool.Result {
		at := w.of(ctx, a.FilePath)
		did, err := at.write(ctx, a)
		if err != nil {
			return failed(err)
		}
		lines := strings.Count(a.Content, "\n")
		return tool.Result{Text: fmt.Sprintf("%s %s: %d bytes, %d lines.", did, at.shower(ctx)(did.name), len(a.Content), lines)}
	})
}

// operation is a change of one file.
type operation struct {
	name   string
	before fs.FileInfo // of the file that is replaced; nil = there is none
}

func (d operation) String() string {
	if d.before != nil {
		return "Replaced"
	}
	return "Created"
}

// write writes a whole file. It refuses to replace a file that has changed since the agent read it.
func (w *Workspace) write(ctx context.Context, a writeArgs) (operation, error) {
	w.changing.Lock()
	defer w.changing.Unlock()
	did, err := w.target(ctx, a.FilePath)
	if err != nil {
		return operation{}, err
	}
	if err := w.root.MkdirAll(filepath.Dir(did.name), 0o755); err != nil {
		return operation{}, explain(a.FilePath, err)
	}
	notes, key := tool.Notes[readFiles](ctx), w.key(did.name)
	// Only a file that the agent has read is compared: a Write of any other file replaces it
	// whatever it contains. Files above maxEdited are not compared, because they would have to be
	// read into memory.
	if _, read := notes.of(key); read && did.before != nil && did.before.Size() <= maxEdited {
		if _, err := w.asRead(ctx, a.FilePath, &did); err != nil {
			return operation{}, err
		}
	}
	if err := w.replace(ctx, a.FilePath, did, []byte(a.Content)); err != nil {
		return operation{}, err
	}
	notes.note(key, sha256.Sum256([]byte(a.Content)))
	return did, nil
}

// target checks that the file at path may be written, and returns its state. It refuses symbolic
// links, because the rename in replace would replace the link, and files in .git.
func (w *Workspace) target(ctx context.Context, path string) (operation, error) {
	name, err := w.within(ctx, path)
	if err != nil {
		return operation{}, err
	}
	if ctx.Err() != nil {
		return operation{}, context.Cause(ctx)
	}
	did := operation{name: name}
	info, err := w.root.Lstat(name)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		// The rename below would put a file in the link's place, not in its target's.
		return operation{}, fmt.Errorf("%s is a symbolic link; write the file that it leads to", quoted(path))
	case err == nil && !info.Mode().IsRegular():
		return operation{}, fmt.Errorf("%s is %w; it is not replaced", quoted(path), errNotRegular)
	case err == nil:
		did.before = info
	case !errors.Is(err, fs.ErrNotExist):
		return operation{}, explain(path, err)
	}
	if inGit(name) || leadsIntoGit(w.real, filepath.Dir(name)) {
		return operation{}, errInGit(path)
	}
	return did, nil
}

// leadsIntoGit reports whether dir, below root, lies in a .git directory once its links are
// followed, as far as it exists.
func leadsIntoGit(root, dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(filepath.Join(root, dir))
		if errors.Is(err, fs.ErrNotExist) && dir != "." {
			continue
		}
		rel, outside := filepath.Rel(root, real)
		return err != nil || outside != nil || inGit(rel)
	}
}

// replace writes a temporary file beside the target and renames it, so that a reader sees the old
// or the new content and never a part. Everything happens in one open directory, so that a link put
// in its place cannot lead elsewhere. A file that has changed since it was checked is kept, except
// in the short time between that check and the rename.
func (w *Workspace) replace(ctx context.Context, path string, d operation, content []byte) error {
	dir, err := w.root.OpenRoot(filepath.Dir(d.name))
	if err != nil {
		return explain(path, err)
	}
	defer dir.Close()
	if err := w.ledTo(ctx, dir, d.name, path); err != nil {
		return err
	}
	if err := d.putInto(dir, content); err != nil {
		return explain(path, err)
	}
	return nil
}

// ledTo returns an error if dir, the open directory to which path led, must not be written to: it
// lies in .git, or needs a permission of its own.
func (w *Workspace) ledTo(ctx context.Context, dir *os.Root, name, path string) error {
	here, err := dir.Open(".")
	if err != nil {
		return explain(path, err)
	}
	defer here.Close()
	at := pathOf(here)
	if at == "" {
		return nil // target has followed the links, as well as can be here
	}
	if rel, err := filepath.Rel(w.real, at); err != nil || inGit(rel) {
		return errInGit(path)
	}
	if file := filepath.Join(at, filepath.Base(name)); file != filepath.Join(w.real, name) && !tool.MayFollowLink(ctx, file) {
		return errLeads(path, file)
	}
	return nil
}

// putInto writes the content into dir under d's name. It keeps the permission bits of a replaced
// file. It returns errChanged if another program changed the file meanwhile.
func (d operation) putInto(dir *os.Root, content []byte) (err error) {
	// The temporary name is random, so that two writers never share a file; O_EXCL makes sure of
	// that.
	temp, name := ".symbio-"+rand.Text()+".tmp", filepath.Base(d.name)
	f, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, dir.Remove(temp))
		}
	}()
	_, err = f.Write(content)
	if err == nil && d.before != nil {
		err = f.Chmod(d.before.Mode().Perm())
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	// Another program may have changed the file since it was read. It is checked as late as
	// possible, but a short time remains before the rename.
	now, err := dir.Lstat(name)
	switch {
	case err == nil && (d.before == nil || !same(d.before, now)), errors.Is(err, fs.ErrNotExist) && d.before != nil:
		return errChanged
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return dir.Rename(temp, name)
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
