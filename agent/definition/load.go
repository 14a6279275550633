package definition

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Problem is something that is wrong with a definition, and where.
type Problem struct {
	File   string `json:"-"`    // "" when the text is of no file
	Line   int    `json:"line"` // of the text, from 1
	Reason string `json:"message"`
}

// Error is FILE:LINE: REASON.
func (p *Problem) Error() string {
	if p.File == "" {
		return fmt.Sprintf("line %d: %s", p.Line, p.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Reason)
}

// Problems returns the problems that an error of this package joins; none of another error.
func Problems(err error) (all []*Problem) {
	if p, ok := err.(*Problem); ok { // not what it wraps: that is joined
		return []*Problem{p}
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			all = append(all, Problems(one)...)
		}
	}
	return all
}

// Loader says which names a definition may use. A nil field accepts every name. The zero Loader checks presets and rules
// alone.
type Loader struct {
	// Tools are the names of tools, beside those of MCP servers; nil = not known.
	Tools []string
	// Servers are the names of MCP servers as they stand in the names of their tools; nil = not known.
	Servers []string
	// Skills are the names of skills; nil = not known.
	Skills []string
	// Model returns an error that says what is wrong with the specification of one model; nil = not known.
	Model func(spec string) error
}

// Load reads every NAME.md of a directory, in the order of their names. It leaves out each file that has a Problem; the
// error joins a *Problem for each thing that is wrong.
func (k Loader) Load(dir string) ([]Definition, error) {
	files, err := fs.Glob(os.DirFS(dir), "*.md")
	if err != nil {
		return nil, fmt.Errorf("agents in %s: %w", dir, err)
	}
	var all []Definition
	var wrong []Problem
	for _, file := range files {
		d, problems := k.Read(filepath.Join(dir, file))
		if len(problems) == 0 {
			all = append(all, d)
		}
		wrong = append(wrong, problems...)
	}
	return all, joinProblems(wrong)
}

// Read reads one file, which has to be called as the definition in it. A definition with problems must not be used.
func (k Loader) Read(file string) (Definition, []Problem) {
	text, err := readText(file)
	if err != nil {
		return Definition{}, []Problem{{file, 1, err.Error()}}
	}
	d, problems := k.parse(text, filepath.Base(file))
	for i := range problems {
		problems[i].File = file
	}
	d.File = file
	d.Permissions, d.Guardrail = d.Permissions.In(file), d.Guardrail.In(file)
	return d, problems
}

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

func joinProblems(problems []Problem) error {
	errs := make([]error, len(problems))
	for i := range problems {
		errs[i] = &problems[i]
	}
	return errors.Join(errs...)
}
