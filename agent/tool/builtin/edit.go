package builtin

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"symbio/agent/tool"
)

//go:embed edit.md
var editText string

//go:embed multiedit.md
var multiEditText string

// editArgs are the arguments of Edit. The texts are matched as they are: no pattern, no trimming.
type editArgs struct {
	FilePath   string `json:"file_path" jsonschema:"The file to edit."`
	OldString  string `json:"old_string" jsonschema:"The text to replace, exactly as it stands in the file."`
	NewString  string `json:"new_string" jsonschema:"What to put in its place."`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"Replace every occurrence. Default: false, there has to be exactly one."`
}

// multiEditArgs are the arguments of MultiEdit.
type multiEditArgs struct {
	FilePath string `json:"file_path" jsonschema:"The file to edit."`
	// Edits has 1 to maxEdits edits. Each works on the text that the one before left.
	Edits []edit `json:"edits" jsonschema:"The edits, done one after the other."`
}

// maxEdits limits the edits of one call. It is more than a person would read before approving them.
const maxEdits = 200

// editTools returns Edit and MultiEdit. Both make all edits of a call or none.
func editTools(w *Workspace) []tool.Tool {
	return []tool.Tool{
		newEditor(w, "Edit", editText, func(a editArgs) (string, []edit) {
			return a.FilePath, []edit{{a.OldString, a.NewString, a.ReplaceAll}}
		}),
		newEditor(w, "MultiEdit", multiEditText, func(a multiEditArgs) (string, []edit) { return a.FilePath, a.Edits }),
	}
}

// newEditor returns a tool that makes edits. editsOf returns its path and edits. It runs alone in its
// turn, like Write.
func newEditor[A any](w *Workspace, name, description string, editsOf func(A) (string, []edit)) tool.Tool {
	return tool.NewPreviewed(tool.Spec{Name: name, Description: description, Alone: true}, func(ctx context.Context, a A) tool.Result {
		path, edits := editsOf(a)
		return w.of(ctx, path).edit(ctx, path, edits)
	}, func(ctx context.Context, a A) tool.FileDiff {
		path, edits := editsOf(a)
		at := w.of(ctx, path)
		if o, err := at.target(ctx, path); err == nil {
			// It says nothing about the file: whether it exists does not matter here.
			if _, known := knownFile(ctx, at.key(o.name)); !known {
				return tool.FileDiff{Unfit: unread(path)}
			}
		}
		e, err := at.prepareEdit(ctx, path, edits)
		if err != nil {
			return tool.FileDiff{}
		}
		return diff(ctx, at, path, &e.operation, e.content)
	})
}

// edit makes all edits or none and returns the result for the model: the part of the file that
// changed. Other edits and writes of this workspace wait meanwhile. The errors come from
// prepareEdit and replace.
func (w *workdir) edit(ctx context.Context, path string, edits []edit) tool.Result {
	w.changing.Lock()
	defer w.changing.Unlock()
	e, err := w.prepareEdit(ctx, path, edits)
	if err != nil {
		return failed(err)
	}
	change := diff(ctx, w, path, &e.operation, e.content)
	// replace is the only step that changes the file; every error before it leaves the file as it
	// was.
	if err := w.replace(ctx, path, e.operation, e.content); err != nil {
		return failed(err)
	}
	noteFile(ctx, w.key(e.name), sha256.Sum256(e.content))
	return tool.Result{Text: fmt.Sprintf("Edited %s. It reads now:\n%s", w.shower(ctx)(e.name), e.snippet), Change: change}
}

// preparedEdit is a file with the edits made, before it is written.
type preparedEdit struct {
	operation
	content []byte
	snippet string // the part that changed
}

// prepareEdit makes the edits in memory. It returns an error if the file does not exist, was not read
// by the agent, has changed since, is no text, or lacks an edit's old text.
func (w *workdir) prepareEdit(ctx context.Context, path string, edits []edit) (e preparedEdit, err error) {
	switch {
	case len(edits) == 0:
		return e, errors.New("edits is empty; give at least one")
	case len(edits) > maxEdits:
		return e, fmt.Errorf("%d edits are more than the %d that are done at once; make fewer, or Write the file", len(edits), maxEdits)
	}
	if e.operation, err = w.target(ctx, path); err != nil {
		return e, err
	}
	if e.before == nil {
		return e, fmt.Errorf("%s does not exist; make it with Write, or use Glob to see what is there", quoted(path))
	}
	if err := w.asRead(ctx, path, &e.operation); err != nil {
		return e, err
	}
	text, f, err := toText(e.old)
	if err != nil {
		return e, fmt.Errorf("%s is not edited: it is %w", quoted(path), err)
	}
	text, spans, err := applyAll(text, f, edits)
	if err != nil {
		return e, fmt.Errorf("%s: %w", quoted(path), err)
	}
	if ctx.Err() != nil {
		return e, context.Cause(ctx)
	}
	e.content, e.snippet = toBytes(text, f), snippet(text, spans)
	return e, nil
}

// applyAll applies the edits one after the other, so that each sees the text of the one before.
// spans belong to the last edit, in the returned text: earlier ones may have moved. An error
// names the edit if there are several.
func applyAll(text string, f form, edits []edit) (string, []span, error) {
	var spans []span
	for i, e := range edits {
		// The encoding is checked before the edit is made, so that no text that the file cannot
		// hold gets in.
		err := f.fits(e.NewString)
		if err == nil {
			text, spans, err = e.apply(text)
		}
		if err != nil && len(edits) > 1 {
			err = fmt.Errorf("edit %d of %d: %w. None of the edits was made", i+1, len(edits), err)
		}
		if err != nil {
			return "", nil, err
		}
	}
	return text, spans, nil
}

// asRead reads an existing file into did.old. It returns an error if the agent has not read the
// file or if it has changed since, so that an edit never destroys changes that the model has not
// seen. Contents are compared, not times: a file that was written anew with the same content counts
// as unchanged.
func (w *workdir) asRead(ctx context.Context, path string, did *operation) error {
	known, ok := knownFile(ctx, w.key(did.name))
	if !ok {
		return unread(path)
	}
	if err := w.load(ctx, path, did); err != nil {
		return err
	}
	if sha256.Sum256(did.old) != known {
		return fmt.Errorf("%s has changed since you read it; Read it again, and edit what is there now", quoted(path))
	}
	return nil
}

func unread(path string) error {
	return fmt.Errorf("%s has not been read yet; Read it first, so that you edit what is there", quoted(path))
}

// load stores the content of an existing file and its state in did, so that putInto can see changes
// after this moment. It returns an error for a file of more than maxEdited bytes.
func (w *workdir) load(ctx context.Context, path string, did *operation) error {
	f, info, err := OpenRegular(w.root, did.name)
	if err != nil {
		return explain(path, err)
	}
	defer f.Close()
	if err := w.followLink(ctx, f, did.name, path); err != nil {
		return err
	}
	// One byte more than the limit tells a file that is too long from one that just fits, also if
	// it grows while it is read.
	raw, err := io.ReadAll(io.LimitReader(f, maxEdited+1))
	if err != nil {
		return explain(path, err)
	}
	if len(raw) > maxEdited {
		return fmt.Errorf("%s is longer than the %d MiB that are edited; use a command of Bash, such as sed", quoted(path), maxEdited>>20)
	}
	did.before, did.old = info, raw
	return nil
}

// key returns the absolute path of a file, by which readFiles knows it.
func (w *workdir) key(name string) string { return filepath.Join(w.real, name) }

const (
	// shownAround is the number of lines that snippet shows before and after a change.
	shownAround = 3
	// maxSnippet limits the lines of a snippet after its first one.
	maxSnippet = 60
)

// snippet returns the first change with the lines around it, so that the model sees its change
// without reading the file again. spans must not be empty.
func snippet(text string, spans []span) string {
	lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	from := max(lineAt(text, spans[0].from)-shownAround, 1)
	to := min(lineAt(text, spans[0].to)+shownAround, len(lines), from+maxSnippet)
	var b strings.Builder
	for n := from; n <= to; n++ {
		fmt.Fprintf(&b, "%6d\t%s\n", n, cutLine(lines[n-1]))
	}
	if len(spans) > 1 {
		fmt.Fprintf(&b, "[%d occurrences were replaced; this is the first.]\n", len(spans))
	}
	return b.String()
}

// errChanged is returned when another program has written the file at the same moment.
var errChanged = errors.New("it was changed by another program at the same moment; nothing was written. Read it again")

// same reports whether a file is unchanged, by size, modification time and mode. It does not
// compare contents: asRead has done that, and this is the cheap check right before the rename.
func same(before, now fs.FileInfo) bool {
	return before.Size() == now.Size() && before.ModTime().Equal(now.ModTime()) && before.Mode() == now.Mode()
}
