package definition

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Problem is a fault in a definition, with its place. It is an error.
type Problem struct {
	File   string `json:"-"`    // "" when the text is of no file
	Line   int    `json:"line"` // of the text, from 1
	Reason string `json:"message"`
}

// Error returns FILE:LINE: REASON.
func (p *Problem) Error() string {
	if p.File == "" {
		return fmt.Sprintf("line %d: %s", p.Line, p.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Reason)
}

// Problems returns the problems that an error of this package joins; none for other errors.
func Problems(err error) (all []*Problem) {
	if p, ok := err.(*Problem); ok { // not a wrapped one: that is joined
		return []*Problem{p}
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			all = append(all, Problems(one)...)
		}
	}
	return all
}

// Loader reads definitions and checks the names in them. A nil field accepts every name. The zero
// Loader checks only presets and rules.
type Loader struct {
	// Tools are the names of the existing tools, without the tools of MCP servers; nil means unknown.
	Tools []string
	// Servers are the MCP servers, as they stand in the names of their tools; nil means unknown.
	Servers []string
	// Skills are the names of the existing skills; nil means unknown.
	Skills []string
	// Model returns an error if the specification of a model is invalid; nil means unknown.
	Model func(spec string) error
}

// Load reads every NAME.md of a directory, in the order of their names. A file with a problem is
// left out, so that one fault does not keep the other agents from starting. The error joins a
// *Problem for each fault. A directory that does not exist has no definitions and is no error.
func (k Loader) Load(dir string) ([]Definition, error) {
	files, err := fs.Glob(os.DirFS(dir), "*.md")
	if err != nil {
		return nil, fmt.Errorf("agents in %s: %w", dir, err)
	}
	var all []Definition
	var wrong []Problem
	for _, file := range files {
		d, problems := k.Read(filepath.Join(dir, file))
		if i := slices.IndexFunc(all, func(other Definition) bool { return other.Name == d.Name }); i >= 0 && len(problems) == 0 {
			problems = []Problem{{d.File, 1, fmt.Sprintf("another definition is called %s, too: %s", d.Name, all[i].File)}}
		}
		if len(problems) == 0 {
			all = append(all, d)
		}
		wrong = append(wrong, problems...)
	}
	return all, joinProblems(wrong)
}

// Read reads one file. A definition with problems must not be used.
func (k Loader) Read(file string) (Definition, []Problem) {
	text, err := readText(file)
	if err != nil {
		return Definition{}, []Problem{{file, 1, err.Error()}}
	}
	d, problems := k.parse(text, filepath.Base(file))
	for _, some := range [][]Problem{problems, d.Warnings} {
		for i := range some {
			some[i].File = file
		}
	}
	d.File = file
	// The file is recorded in the rules, so that a denial can name the line that caused it.
	d.Permissions, d.Guardrail = d.Permissions.In(file), d.Guardrail.In(file)
	return d, problems
}

// readText returns the content of a regular file of at most maxDefinition bytes.
func readText(file string) ([]byte, error) {
	info, err := os.Stat(file)
	var bad *os.PathError
	switch {
	case errors.As(err, &bad):
		return nil, bad.Err
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxDefinition:
		return nil, fmt.Errorf("not a file of up to %d KiB", maxDefinition>>10)
	}
	return os.ReadFile(file)
}

// joinProblems returns an error that joins the problems; nil if there are none.
func joinProblems(problems []Problem) error {
	errs := make([]error, len(problems))
	for i := range problems {
		errs[i] = &problems[i]
	}
	return errors.Join(errs...)
}
