package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"symbio/agent/tool"
	"symbio/internal/agent/tool/gitignore"
	"symbio/internal/security/visible"
)

// folder is one directory of a walk. Its names are sorted.
type folder struct {
	// rel is the path from the walk's top, with slashes; "" is the top.
	rel string
	// files are the regular files.
	files []string
	// dirs are the directories, without those that the walk never lists. walker.mayRead can still
	// keep the walk from entering one.
	dirs []string
}

// name returns the path of an entry, relative to the top of the walk.
func (f folder) name(entry string) string { return path.Join(f.rel, entry) }

// walker walks through a directory of the workspace in the order of names; the entries of a
// directory come before the files of its sub-directories. It follows no links and counts only regular
// files. One goroutine uses it.
type walker struct {
	// w is the workspace whose root opens all directories.
	w *workdir
	// top is the directory to walk, as a name in the workspace.
	top string
	// mayRead reports whether to walk into a directory; nil means always. The directory itself is
	// listed either way.
	mayRead func(rel string) bool
	// all includes the files that .gitignore files exclude, special those that are neither regular nor directories.
	all, special bool

	// hidden counts the entries that a permission rule leaves out.
	hidden int
	// ignored counts the entries that .gitignore files leave out. Entries below an ignored
	// directory are not counted.
	ignored int
	// unreadable are the directories that could not be read, each with the reason.
	unreadable []string
}

// Walk calls visit for each file below root that .gitignore files leave, and for links, sockets and the like, by its path
// relative to root. It returns the error of visit or the cause of ctx. Directories that cannot be read are skipped.
func Walk(ctx context.Context, root *os.Root, visit func(path string) error) error {
	k := walker{w: &workdir{root: root}, top: ".", special: true}
	return k.walk(ctx, func(f folder) (err error) {
		for _, name := range f.files {
			err = cmp.Or(err, visit(f.name(name)))
		}
		return err
	})
}

// walk calls visit for each directory, in this goroutine. It returns the error of visit or the
// cause of ctx. A directory that cannot be read is noted and skipped, unless it is the top. Call it
// once.
func (k *walker) walk(ctx context.Context, visit func(folder) error) error {
	// except has the files that the verdict on the call excludes.
	except := tool.Except(ctx)
	type place struct {
		rel string
		// rules come from the directories above rel. Each directory adds its own when it is
		// listed.
		rules gitignore.Stack
	}
	// todo is a stack in place of recursion, so that a very deep tree cannot exhaust the
	// goroutine's stack.
	todo := []place{{"", k.above()}}
	for len(todo) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rel, rules := todo[len(todo)-1].rel, todo[len(todo)-1].rules
		todo = todo[:len(todo)-1]
		entries, err := k.list(rel)
		if err != nil {
			if rel == "" || ctx.Err() != nil {
				return err
			}
			k.unreadable = append(k.unreadable, fmt.Sprintf("%s: %v", quoted(rel), reason(err)))
			continue
		}
		f := folder{rel: rel}
		rules = k.rules(rules, path.Join(k.top, rel), entries)
		for _, e := range entries {
			// The type of the entry itself: a link is neither regular nor a directory and is
			// skipped.
			regular := e.Type().IsRegular() || k.special && !e.IsDir()
			if !regular && (!e.IsDir() || e.Name() == ".git") {
				continue
			}
			// Permissions come before .gitignore, so that each entry is counted for one reason
			// only.
			if except.Covers(f.name(e.Name())) {
				k.hidden++
				continue
			}
			if len(rules) > 0 && rules.Ignored(path.Join(k.top, rel, e.Name()), e.IsDir()) {
				k.ignored++
				continue
			}
			if regular {
				f.files = append(f.files, e.Name())
			} else {
				f.dirs = append(f.dirs, e.Name())
			}
		}
		if err := visit(f); err != nil {
			return err
		}
		// The last directory of todo is taken next, so they are pushed in reverse to walk in the
		// order of names.
		for _, d := range slices.Backward(f.dirs) {
			if sub := f.name(d); k.mayRead == nil || k.mayRead(sub) {
				todo = append(todo, place{sub, rules})
			}
		}
	}
	return nil
}

// list returns the entries of a directory, sorted by name. With an error some entries may be
// missing.
func (k *walker) list(rel string) ([]fs.DirEntry, error) {
	// nonblock is for the case that the directory has become a FIFO since it was seen.
	d, err := k.w.root.OpenFile(path.Join(k.top, rel), os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// reason returns the innermost cause of a file error, without the absolute path, which the model
// did not write.
func reason(err error) error {
	var at *fs.PathError
	for errors.As(err, &at) {
		err = at.Err
	}
	return err
}

// entries returns how many files and directories that is.
func entries(n int) string {
	if n == 1 {
		return "1 file or directory"
	}
	return fmt.Sprintf("%d files or directories", n)
}

// notes returns lines about the entries that the sums do not include.
func (k *walker) notes() []string {
	var notes []string
	if k.hidden > 0 {
		notes = append(notes, entries(k.hidden)+" left out by a permission rule")
	}
	if k.ignored > 0 {
		notes = append(notes, entries(k.ignored)+" left out by .gitignore; ignored: true shows all")
	}
	if n := len(k.unreadable); n > 0 {
		notes = append(notes, fmt.Sprintf("%s could not be read, such as %s", visible.Plural(n, "directory"), k.unreadable[0]))
	}
	return notes
}

// answer joins rows, notes and the sum. It shows at most `most` rows and about maxText bytes. A
// line that begins with # says how many more there are: those that do not fit, and the more that
// the caller did not pass. hint says how to see them. The sum is always the last line, so that it
// is never cut off.
func answer(rows []string, most, more int, hint string, notes []string, sum string) string {
	var b strings.Builder
	shown := 0
	for _, r := range rows {
		if shown == most || b.Len()+len(r) > maxText {
			break
		}
		b.WriteString(r)
		b.WriteByte('\n')
		shown++
	}
	if more += len(rows) - shown; more > 0 {
		fmt.Fprintf(&b, "# %d more not shown; %s\n", more, hint)
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "# %s\n", n)
	}
	b.WriteString(sum)
	return b.String()
}
