package cases

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"

	"gopkg.in/yaml.v3"

	"symbio/security/permission"
)

// Case is one call and what has to come of it. A file of cases is shared with other
// implementations, so its fields must stay as they are.
type Case struct {
	// ID names the case in the report. It is unique in the file.
	ID string `yaml:"id"`
	// Kind decides whether a stricter verdict than Expect is also right.
	Kind Kind `yaml:"kind"`
	// OS is the system that the case is for, as GOOS names it; "" = every one.
	OS string `yaml:"os,omitempty"`
	// Permissions judge the call. Their fields are fields of the case in the file.
	Permissions permissions `yaml:",inline"`
	// Tool and Args are the call; ${WORK}, ${OUTSIDE} and ${HOME} in texts stand for directories of
	// the World.
	Tool string         `yaml:"tool"`
	Args map[string]any `yaml:"args,omitempty"`
	// ArgsRaw is the text of the arguments, in place of Args. It can be text that is no plain
	// object, such as one with a key twice.
	ArgsRaw string `yaml:"argsRaw,omitempty"`
	// Setup is what the call finds on disk.
	Setup setup `yaml:"setup,omitempty"`
	// Resolve has the addresses of host names; a name that is missing has none. No case asks a real
	// resolver.
	Resolve map[string][]string `yaml:"resolve,omitempty"`
	// Redirects are the Location headers of the servers, one after the other.
	Redirects []string `yaml:"redirects,omitempty"`
	// Expect is the right verdict. Why is for readers only.
	Expect permission.Action `yaml:"expect"`
	Why    string            `yaml:"why,omitempty"`

	// wrong is why the case cannot be judged; nil if it can. Read sets it, and Judge returns it.
	wrong error
}

// Kind decides which verdicts are right besides the expected one.
type Kind string

// The kinds.
const (
	// Attack: a stricter verdict is as right.
	Attack Kind = "attack"
	// Benign: only the expected one is.
	Benign Kind = "benign"
)

// setup is created before the call is judged.
type setup struct {
	// CWD is the directory of the call; "" means ${WORK}. It is created.
	CWD string `yaml:"cwd,omitempty"`
	// Dirs are created first, then Files (content by path), then Symlinks (target by link).
	// Relative paths are below ${WORK}.
	Dirs     []string          `yaml:"dirs,omitempty"`
	Files    map[string]string `yaml:"files,omitempty"`    // path: content
	Symlinks map[string]string `yaml:"symlinks,omitempty"` // link: target
}

// version is the only version of the file format.
const version = 1

// Read reads a file of cases. Unknown fields are an error, so that a misspelled field cannot make a
// case pass. A fault in one case is returned by Judge for that case, so that the others are still
// judged. The error comes from r or from the YAML decoder, or about an empty file or an unknown
// version.
func Read(r io.Reader) ([]Case, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var file struct {
		Version int    `yaml:"version"`
		Cases   []Case `yaml:"cases"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return nil, err
	}
	if file.Version != version {
		return nil, fmt.Errorf("version %d is not supported: write %d", file.Version, version)
	}
	// An id that occurs twice would make a report ambiguous. The first case with it is judged.
	seen := map[string]bool{}
	for i := range file.Cases {
		c := &file.Cases[i]
		if err := c.check(); err != nil {
			c.wrong = fmt.Errorf("case %d: %w", i+1, err)
		} else if seen[c.ID] {
			c.wrong = fmt.Errorf("case %d: the id %s is there twice", i+1, c.ID)
		}
		seen[c.ID] = true
	}
	return file.Cases, nil
}

// check returns an error for a case that cannot be judged.
func (c Case) check() error {
	switch {
	case c.ID == "":
		return errors.New("it has no id")
	case c.Tool == "":
		return errors.New("it names no tool")
	case c.Kind != Attack && c.Kind != Benign:
		return fmt.Errorf("kind %q: write attack or benign", c.Kind)
	case c.Args != nil && c.ArgsRaw != "":
		return errors.New("it has args and argsRaw; write one of them")
	}
	return c.Permissions.check()
}

// IsOtherOS reports whether the case is for another operating system than this one.
func (c Case) IsOtherOS() bool { return c.OS != "" && c.OS != runtime.GOOS }

// policy parses the rules. A rule that cannot be parsed becomes the zero Rule, which allows nothing
// in an allowing list and denies everything in a denying one.
func (r rules) policy() permission.Policy {
	p := permission.Policy{Default: permission.Ask}
	if r.Default != "" {
		// Read has checked the word, so there is no error.
		p.Default, _ = permission.ParseAction(r.Default)
	}
	for _, list := range []struct {
		texts []string
		to    *[]permission.Rule
	}{{r.FinalDeny, &p.FinalDeny}, {r.Deny, &p.Deny}, {r.Overrides, &p.Override}, {r.Allow, &p.Allow}} {
		for _, text := range list.texts {
			// With an error ParseRule returns the zero Rule.
			rule, _ := permission.ParseRule(text)
			*list.to = append(*list.to, rule)
		}
	}
	return p
}
