package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"symbio/agent/tool"
)

//go:embed grep.md
var grepText string

const (
	// grepLimit is the default of head_limit: rows of files_with_matches and count.
	grepLimit = 1000
	// contentLimit is the default of head_limit for content. Lines are longer than names.
	contentLimit = 250
)

// grepArgs are the arguments of Grep. The names -i, -n, -A, -B and -C come from the program
// grep, which models know.
type grepArgs struct {
	// Pattern is in Go's RE2 syntax.
	Pattern string `json:"pattern" jsonschema:"The regular expression to search for."`
	// Path is a directory or a file; "" means the working directory.
	Path string `json:"path,omitempty" jsonschema:"A directory or a file. Default: the working directory."`
	// Glob selects files (see chooser); "" means all.
	Glob string `json:"glob,omitempty" jsonschema:"Which files to search, such as *.go."`
	// OutputMode is "files_with_matches" (also for ""), "content" or "count".
	OutputMode string `json:"output_mode,omitempty" jsonschema:"What to show. Default: files_with_matches."`
	// GroupBy is "file" (also for ""), "extension" or "none". Only the mode count uses it.
	GroupBy string `json:"group_by,omitempty" jsonschema:"With output_mode count: what a row is. Default: file."`
	// Multiline matches the pattern against whole files; a dot then also matches a line break.
	Multiline  bool `json:"multiline,omitempty" jsonschema:"Match against whole files instead of lines."`
	IgnoreCase bool `json:"-i,omitempty" jsonschema:"Upper and lower case are the same."`
	// Numbers is whether rows of content have line numbers. nil means true, which a bool could not
	// say.
	Numbers *bool `json:"-n,omitempty" jsonschema:"Line numbers in content. Default: true."`
	// After, Before and Context are numbers of lines. Context is a lower limit of the other two.
	After   int `json:"-A,omitempty" jsonschema:"Lines to show after each match in content."`
	Before  int `json:"-B,omitempty" jsonschema:"Lines to show before each match in content."`
	Context int `json:"-C,omitempty" jsonschema:"Lines to show around each match in content."`
	// HeadLimit limits rows. 0 means grepLimit or contentLimit. It does not change the sums.
	HeadLimit int `json:"head_limit,omitempty" jsonschema:"How many lines or rows to show."`
	// Ignored includes the files that .gitignore files exclude.
	Ignored bool `json:"ignored,omitempty" jsonschema:"Also search what .gitignore leaves out. Default: false."`
}

// grepTool returns Grep. It changes no file, so it may run in parallel with other calls.
func (w *Workspace) grepTool() tool.Tool {
	spec := tool.Spec{Name: "Grep", Description: grepText, ReadOnly: true, Enums: map[string][]string{
		"output_mode": {"files_with_matches", "content", "count"},
		"group_by":    {"file", "extension", "none"},
	}}
	return tool.New(spec, func(ctx context.Context, a grepArgs) tool.Result {
		text, err := w.of(ctx, a.Path).grep(ctx, a)
		if err != nil {
			return failed(err)
		}
		return tool.Result{Text: text}
	})
}

// grep runs a search and formats its result by the output mode. It returns an error for a negative
// number, a malformed pattern, a path that cannot be read or is neither file nor directory, and the
// cause of ctx. A file below the path that cannot be read is no error; a note counts such files.
func (w *workdir) grep(ctx context.Context, a grepArgs) (string, error) {
	if a.HeadLimit < 0 || a.After < 0 || a.Before < 0 || a.Context < 0 {
		return "", errors.New("head_limit, -A, -B and -C cannot be negative")
	}
	m, err := newMatcher(a.Pattern, a.IgnoreCase, a.Multiline)
	if err != nil {
		return "", err
	}
	want, err := chooser(a.Glob)
	if err != nil {
		return "", err
	}
	top, err := w.within(ctx, orDot(a.Path))
	if err != nil {
		return "", err
	}
	info, err := w.root.Stat(top)
	if err != nil {
		return "", explain(orDot(a.Path), err)
	}
	// The search counts first and in parallel; the lines are read in a second pass, for the files
	// that are shown only.
	s := &search{w: w, m: m, want: want, top: top, all: a.Ignored}
	switch {
	case info.IsDir():
		err = s.tree(ctx)
	case info.Mode().IsRegular():
		err = s.one(ctx)
	default:
		err = notRegular(info)
	}
	if err != nil {
		return "", explain(orDot(a.Path), err)
	}
	// The workers finish in any order. Sorted, the same tree always gives the same answer.
	slices.SortFunc(s.found, func(a, b hit) int { return cmp.Compare(a.name, b.name) })
	rows, more, err := s.rows(ctx, a)
	if err != nil {
		return "", err
	}
	limit := a.HeadLimit
	limit = cmp.Or(limit, grepLimit)
	return answer(rows, limit, more, "narrow the search or raise head_limit", s.notes(), s.sum.row("total")), nil
}

// rows returns the rows of the output mode, all of them: answer cuts them. For content it returns
// only as many as are shown, and more counts the matches that are not among them.
func (s *search) rows(ctx context.Context, a grepArgs) (rows []string, more int, err error) {
	show := s.w.shower(ctx)
	if a.OutputMode == "content" {
		return s.content(ctx, a, show)
	}
	if a.OutputMode != "count" {
		for _, h := range s.found {
			rows = append(rows, show(h.name))
		}
		return rows, 0, nil
	}
	switch a.GroupBy {
	// Only the sum is asked for, which is always the last line.
	case "none":
	case "extension":
		// Unlike the rows of files, these include extensions without a match: their number of
		// searched files is asked for, too.
		names := make([]string, 0, len(s.kinds))
		for name := range s.kinds {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(s.kinds[b].matches, s.kinds[a].matches), cmp.Compare(a, b))
		})
		for _, name := range names {
			rows = append(rows, s.kinds[name].row(quoted(name)))
		}
	default:
		// Files with the most matches come first; the stable sort keeps the order of names among
		// equals.
		byCount := slices.Clone(s.found)
		slices.SortStableFunc(byCount, func(a, b hit) int { return cmp.Compare(b.matches, a.matches) })
		for _, h := range byCount {
			rows = append(rows, tally{1, 1, h.matches}.row(show(h.name)))
		}
	}
	return rows, 0, nil
}

// tally counts files and matches: a row of output_mode count. searched and matched are numbers of
// files. matches is the number of matching lines, or with multiline of matches.
type tally struct {
	searched, matched, matches int64
}

// row returns a row of four columns separated by tabs. The name must be quoted already.
func (t tally) row(name string) string {
	return fmt.Sprintf("%s\t%d\t%d\t%d", name, t.searched, t.matched, t.matches)
}

// plus returns the sum of two tallies.
func (t tally) plus(o tally) tally {
	return tally{t.searched + o.searched, t.matched + o.matched, t.matches + o.matches}
}

// noKind is the kind of a file whose name has no extension.
const noKind = "(none)"

// kindOf returns the extension of a file's name in lower case. A dot at the beginning or at the end
// does not start an extension: .gitignore has none, .eslintrc.json has .json.
func kindOf(name string) string {
	name = path.Base(filepath.ToSlash(name))
	dot := strings.LastIndexByte(name, '.')
	if dot <= 0 || dot == len(name)-1 {
		return noKind
	}
	return strings.ToLower(name[dot:])
}

// chooser parses the argument glob and returns a function that reports whether to search a file. A
// pattern with a slash matches the path from the top, one without matches the file's name. A ! in
// front inverts the result. It returns an error for a malformed pattern. The function may be called
// from many goroutines.
func chooser(glob string) (func(rel string) bool, error) {
	if glob == "" {
		return func(string) bool { return true }, nil
	}
	pattern, not := strings.CutPrefix(glob, "!")
	// Computed before ./ is cut off, so that ./*.go matches only files directly in the top.
	whole := strings.Contains(pattern, "/")
	pattern = strings.TrimPrefix(pattern, "./")
	if err := CheckPattern(pattern); err != nil {
		return nil, fmt.Errorf("glob: %w", err)
	}
	return func(rel string) bool {
		if !whole {
			rel = path.Base(rel)
		}
		// CheckPattern has excluded the only error, a malformed pattern.
		ok, _ := doublestar.Match(pattern, rel)
		return ok != not
	}, nil
}
