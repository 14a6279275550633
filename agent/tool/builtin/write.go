package builtin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"symbio/agent/tool"
	"symbio/internal/security/visible"
)

//go:embed write.md
var writeText string

// writeArgs are the arguments of Write.
type writeArgs struct {
	// FilePath is absolute or relative to the agent's working directory.
	FilePath string `json:"file_path" jsonschema:"The file to write."`
	// Content replaces everything that the file has. Models send it as UTF-8; it is written in the form of the file that is
	// there.
	Content string `json:"content" jsonschema:"The whole new content."`
}

// writeTool returns Write. It runs alone in its turn, so that a Read of the same turn sees the file
// either before or after it, in the order of the model's calls.
func (w *Workspace) writeTool() tool.Tool {
	return tool.NewPreviewed(tool.Spec{Name: "Write", Description: writeText, Alone: true}, func(ctx context.Context, a writeArgs) tool.Result {
		at := w.of(ctx, a.FilePath)
		did, change, err := at.write(ctx, a)
		if err != nil {
			return failed(err)
		}
		lines, kept := strings.Count(a.Content, "\n"), ""
		if _, kept = did.inForm(a.Content); kept != "" {
			kept = " It keeps " + kept + "; a command of Bash can change that."
		}
		return tool.Result{Text: fmt.Sprintf("%s %s: %s, %s.%s", did, at.shower(ctx)(did.name), visible.Plural(len(a.Content), "byte"),
			visible.Plural(lines, "line"), kept), Change: change}
	}, func(ctx context.Context, a writeArgs) tool.FileDiff {
		at := w.of(ctx, a.FilePath)
		did, err := at.prepareWrite(ctx, a.FilePath)
		if err != nil {
			return tool.FileDiff{}
		}
		content, _ := did.inForm(a.Content)
		return diff(ctx, at, a.FilePath, &did, content)
	})
}

// operation is a change of one file, from the first check of the file to the rename in putInto.
type operation struct {
	// name is the file's name in the workspace.
	name string
	// before is the state of the file that is replaced; nil if there is none. putInto compares it
	// with the state right before the rename.
	before fs.FileInfo
	// old is the content that is replaced; nil if it was not read.
	old []byte
}

// inForm returns new content in the form of the file that it replaces: with its byte order mark, its UTF-16, and its line
// ends CR LF if all of them are. kept says in words what was kept; "" if the content is used as it is.
func (d operation) inForm(content string) (raw []byte, kept string) {
	text, f, err := toText(d.old)
	if err != nil {
		return []byte(content), ""
	}
	var all []string
	if n := strings.Count(text, "\n"); n > 0 && n == strings.Count(text, "\r\n") && strings.Contains(content, "\n") && !strings.Contains(content, "\r") {
		content, all = strings.ReplaceAll(content, "\n", "\r\n"), append(all, "the line ends CR LF of the file")
	}
	mark := string(markUTF8)
	switch {
	case f == formUTF16LE || f == formUTF16BE:
		return toBytes(strings.TrimPrefix(content, mark), f), strings.Join(append(all, "its encoding, "+f.String()), " and ")
	case strings.HasPrefix(text, mark) && !strings.HasPrefix(content, mark):
		content, all = mark+content, append(all, "its byte order mark")
	}
	return []byte(content), strings.Join(all, " and ")
}

// String returns the verb for the result that the model reads.
func (d operation) String() string {
	if d.before != nil {
		return "Replaced"
	}
	return "Created"
}

// write writes a whole file and creates the directories above it. It returns an error if the file
// has changed since the agent read it, and nothing is written then.
func (w *workdir) write(ctx context.Context, a writeArgs) (operation, tool.FileDiff, error) {
	// The lock covers the check and the rename, so that of two writes the second sees the first.
	w.changing.Lock()
	defer w.changing.Unlock()
	did, err := w.prepareWrite(ctx, a.FilePath)
	if err != nil {
		return operation{}, tool.FileDiff{}, err
	}
	if err := w.root.MkdirAll(filepath.Dir(did.name), 0o755); err != nil {
		return operation{}, tool.FileDiff{}, explain(a.FilePath, err)
	}
	content, _ := did.inForm(a.Content)
	change := diff(ctx, w, a.FilePath, &did, content)
	if err := w.replace(ctx, a.FilePath, did, content); err != nil {
		return operation{}, tool.FileDiff{}, err
	}
	// The agent knows this content, so it may edit the file without reading it.
	noteFile(ctx, w.key(did.name), sha256.Sum256(content))
	return did, change, nil
}

// prepareWrite checks that the file at path may be replaced. It returns an error if the agent has read
// the file and it has changed since.
func (w *workdir) prepareWrite(ctx context.Context, path string) (operation, error) {
	did, err := w.target(ctx, path)
	if err != nil {
		return operation{}, err
	}
	// Only a file that the agent has read is compared: a Write of any other file replaces it
	// whatever it contains. Files above maxEdited are not compared, because they would have to be
	// read into memory.
	if did.before == nil || did.before.Size() > maxEdited {
		return did, nil
	}
	if _, read := knownFile(ctx, w.key(did.name)); read {
		return did, w.asRead(ctx, path, &did)
	}
	_ = w.load(ctx, path, &did) // for its form; a file that cannot be read is replaced all the same
	return did, nil
}

// target checks that the file at path may be written, and returns its state. It refuses symbolic
// links, because the rename in replace would replace the link, and files in .git. It returns the
// cause of ctx if ctx has ended. The file does not have to exist.
func (w *workdir) target(ctx context.Context, path string) (operation, error) {
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
		// The rename in putInto would put a file in the link's place, not in its target's.
		return operation{}, fmt.Errorf("%s is a symbolic link; write the file that it leads to", quoted(path))
	case err == nil && !info.Mode().IsRegular():
		return operation{}, fmt.Errorf("%s is not replaced: it is %w", quoted(path), errNotRegular)
	case err == nil:
		did.before = info
	case !errors.Is(err, fs.ErrNotExist):
		return operation{}, explain(path, err)
	}
	// Both are needed: inGit sees the path as written, leadsIntoGit what its links lead to.
	if inGit(name) || leadsIntoGit(w.real, filepath.Dir(name)) {
		return operation{}, errInGit(path)
	}
	return did, nil
}

// leadsIntoGit reports whether dir, below root, lies in a .git directory once its links are
// followed. Parts of dir that do not exist yet are left out. It returns true if the links cannot be
// followed or lead out of root, so that a doubtful path is not written.
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
// in the short time between the last check in putInto and the rename: no system call does both at
// once. Call it with changing held.
func (w *workdir) replace(ctx context.Context, path string, d operation, content []byte) error {
	dir, err := w.root.OpenRoot(filepath.Dir(d.name))
	if err != nil {
		return explain(path, err)
	}
	defer dir.Close()
	file, err := w.ledTo(ctx, dir, d.name, path)
	if err != nil {
		return err
	}
	err = tool.RecordEdit(ctx, func() (tool.FileEdit, error) { return d.describe(dir, file, content) })
	if err != nil {
		return explain(path, err)
	}
	if err := d.putInto(dir, content); err != nil {
		return explain(path, err)
	}
	return nil
}

// describe returns the change for its record: how the file in dir is, and that content replaces it.
// It returns errChanged if the file is not the one that was checked.
func (d operation) describe(dir *os.Root, file string, content []byte) (tool.FileEdit, error) {
	e := tool.FileEdit{Path: file, After: fmt.Sprintf("%x", sha256.Sum256(content))}
	if d.before == nil {
		return e, nil
	}
	f, info, err := OpenRegular(dir, filepath.Base(d.name))
	if err != nil {
		return e, err
	}
	defer f.Close()
	if !same(d.before, info) {
		return e, errChanged
	}
	hash := sha256.New()
	kept, err := io.ReadAll(io.LimitReader(io.TeeReader(f, hash), tool.MaxKept+1))
	if err == nil && len(kept) > tool.MaxKept {
		kept = nil
		_, err = io.Copy(hash, f)
	}
	e.Before, e.Mode, e.Content = fmt.Sprintf("%x", hash.Sum(nil)), info.Mode().Perm(), kept
	return e, err
}

// ledTo returns the real path of the file name in dir, the open directory to which path led. It
// returns an error if dir must not be written to: it lies in .git, or needs a permission of its own.
// The check is about the open directory and not about a path, so that a link created after target
// cannot get around it.
func (w *workdir) ledTo(ctx context.Context, dir *os.Root, name, path string) (string, error) {
	here, err := dir.Open(".")
	if err != nil {
		return "", explain(path, err)
	}
	defer here.Close()
	at := pathOf(here)
	if at == "" {
		// The system does not tell the path of an open file. target has followed the links, which
		// is all that can be done there.
		return w.key(name), nil
	}
	if rel, err := filepath.Rel(w.real, at); err != nil || inGit(rel) {
		return "", errInGit(path)
	}
	file := filepath.Join(at, filepath.Base(name))
	if file != filepath.Join(w.real, name) && !tool.MayFollowLink(ctx, file) {
		return "", errLeads(path, file)
	}
	return file, nil
}

// putInto writes the content into dir under d's name. It keeps the permission bits of a replaced
// file. It returns errChanged if another program changed the file meanwhile. On every error the
// target is as before and the temporary file is removed.
func (d operation) putInto(dir *os.Root, content []byte) (err error) {
	// The temporary file is in the same directory, because a rename is atomic only within a file
	// system. Its name is random, so that two writers never share one. O_EXCL makes sure of that
	// and follows no link of that name.
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

// inGit reports whether a path leads through .git, where a file can be a command to run, such as a
// hook. Case does not matter, because some file systems ignore it.
func inGit(name string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(name), "/"), func(part string) bool { return strings.EqualFold(part, ".git") })
}

// errInGit is the error for a file in a .git directory.
func errInGit(path string) error {
	return fmt.Errorf("%s lies in a .git directory, where a file can be a command that git runs; it is not written", quoted(path))
}
