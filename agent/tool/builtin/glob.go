package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"symbio/agent/tool"
	"symbio/internal/security/visible"
)

//go:embed glob.md
var globText string

// globLimit is the default of limit, in lines.
const globLimit = 1000

// globArgs are the arguments of Glob.
type globArgs struct {
	// Pattern is in the syntax of doublestar, relative to Path. CheckPattern says which are
	// refused.
	Pattern string `json:"pattern" jsonschema:"What the names have to match, such as **/*.go."`
	// Path is the directory to search; "" means the working directory.
	Path string `json:"path,omitempty" jsonschema:"The directory to search. Default: the working directory."`
	// Limit is the number of lines to show; 0 means globLimit. The totals count everything.
	Limit int `json:"limit,omitempty" jsonschema:"How many lines to show. Default: 1000."`
	// Ignored includes the files that .gitignore files exclude.
	Ignored bool `json:"ignored,omitempty" jsonschema:"Also what .gitignore leaves out. Default: false."`
}

// globTool returns Glob. It changes no file, so it may run in parallel with other calls.
func (w *Workspace) globTool() tool.Tool {
	return tool.New(tool.Spec{Name: "Glob", Description: globText, ReadOnly: true}, func(ctx context.Context, a globArgs) tool.Result {
		text, err := w.of(ctx, a.Path).glob(ctx, a)
		if err != nil {
			return failed(err)
		}
		return tool.Result{Text: text}
	})
}

// glob returns the names below a directory that match the pattern, sorted, with their total number
// as the last line. Names of directories end with a slash. It returns an error for a pattern that
// CheckPattern refuses, a path that is no directory or cannot be read, and the cause of ctx.
func (w *workdir) glob(ctx context.Context, a globArgs) (string, error) {
	if a.Limit < 0 {
		return "", errors.New("limit cannot be negative")
	}
	a.Limit = cmp.Or(a.Limit, globLimit)
	// A pattern with a slash at its end matches directories only, as in the shell.
	pattern, onlyDirs := strings.CutSuffix(a.Pattern, "/")
	if err := CheckPattern(pattern); err != nil {
		return "", err
	}
	top, err := w.subdirectory(ctx, a.Path)
	if err != nil {
		return "", err
	}
	var found []string
	files, dirs := 0, 0
	show := w.shower(ctx)
	// All matches are counted, and the first in order are kept: at most twice as many as are shown,
	// because a search may match a whole disk. A line has two bytes or more.
	keep := min(a.Limit, maxText/2)
	note := func(rel, mark string, count *int) {
		if ok, _ := doublestar.Match(pattern, rel); ok {
			*count++
			if found = append(found, path.Join(top, rel)+mark); len(found) == 2*keep {
				slices.Sort(found)
				found = found[:keep]
			}
		}
	}
	k := walker{w: w, top: top, mayRead: prune(pattern), all: a.Ignored}
	err = k.walk(ctx, func(f folder) error {
		for _, name := range f.files {
			if !onlyDirs {
				note(f.name(name), "", &files)
			}
		}
		for _, name := range f.dirs {
			note(f.name(name), "/", &dirs)
		}
		return nil
	})
	if err != nil {
		return "", explain(orDot(a.Path), err)
	}
	slices.Sort(found)
	found = found[:min(len(found), keep)]
	more := files + dirs - len(found)
	// Names are converted after the sort and the cut: only those that are shown cost the
	// conversion. The slash of a quoted name goes before its closing quotation mark.
	for i, name := range found {
		if dir, is := strings.CutSuffix(name, "/"); is {
			shown := show(dir)
			if unquoted, isQuoted := strings.CutSuffix(shown, `"`); isQuoted {
				found[i] = unquoted + `/"`
			} else {
				found[i] = shown + "/"
			}
		} else {
			found[i] = show(name)
		}
	}
	return answer(found, a.Limit, more, "narrow the pattern or raise limit", k.notes(),
		"total\t"+visible.Plural(files, "file")+"\t"+visible.Plural(dirs, "directory")), nil
}

// orDot returns path, or "." if it is empty.
func orDot(path string) string {
	if path == "" {
		return "."
	}
	return path
}

// subdirectory returns the name in the workspace of the directory to search. It returns an error if
// path is outside the workspace or no directory.
func (w *workdir) subdirectory(ctx context.Context, path string) (string, error) {
	name, err := w.within(ctx, orDot(path))
	if err != nil {
		return "", err
	}
	info, err := w.root.Stat(name)
	if err != nil {
		return "", explain(orDot(path), err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is no directory", quoted(path))
	}
	return name, nil
}

// CheckPattern returns why Glob does not accept a pattern; nil if it does. A pattern must not lead
// out of the directory that is searched: the guard judges that directory and not the pattern.
func CheckPattern(pattern string) error {
	switch {
	case pattern == "":
		return errors.New("the pattern is empty; ** matches everything")
	case strings.HasPrefix(pattern, "/"):
		return errors.New("the pattern begins with /; put the directory in path, and a pattern relative to it in pattern")
	case slices.Contains(strings.Split(pattern, "/"), ".."):
		return errors.New("the pattern holds ..; put the directory in path, and a pattern relative to it in pattern")
	case !doublestar.ValidatePattern(pattern):
		return fmt.Errorf("the pattern %s is malformed; check that each [ and { is closed", quoted(pattern))
	}
	return nil
}

// prune returns a function that reports whether a directory can contain a match, judged by the
// literal beginning of the pattern and its depth. It saves walking through the rest of a large
// tree. It may return true for a directory without a match, but never false for one with a match.
func prune(pattern string) func(rel string) bool {
	parts := strings.Split(pattern, "/")
	// literal is the number of leading parts without special characters. They must be equal.
	literal := 0
	for literal < len(parts) && !strings.ContainsAny(parts[literal], `*?[{\`) {
		literal++
	}
	// With ** any depth is possible. Otherwise a match has at most as many names as the pattern has
	// parts. Slashes within braces only make that number too large, which is safe.
	deep := strings.Contains(pattern, "**")
	return func(rel string) bool {
		at := strings.Split(rel, "/")
		if !deep && len(at) >= len(parts) {
			return false
		}
		n := min(literal, len(at))
		return slices.Equal(at[:n], parts[:n])
	}
}
