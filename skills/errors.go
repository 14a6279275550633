package skills

import (
	"errors"
	"strings"

	"symbio/skills/format"
)

// The errors that callers can tell apart with errors.Is.
var (
	// ErrNoDirectory: the skill's directory does not exist.
	ErrNoDirectory = errors.New("no such skill directory")
	// ErrNoFile: the directory has no SKILL.md.
	ErrNoFile = errors.New("no SKILL.md")
	// ErrUnreadable: a file is there but cannot be read: its permissions, kind, size or a link out
	// of the skill's directory.
	ErrUnreadable = errors.New("unreadable")
	// ErrFormat: the file is not a SKILL.md: it has no front matter, or is not UTF-8.
	ErrFormat = errors.New("not the format of a SKILL.md")
	// ErrYAML: the front matter is not YAML of the accepted form.
	ErrYAML = errors.New("front matter is not valid YAML")
	// ErrInvalid: a field of the front matter is missing or breaks its rule.
	ErrInvalid = errors.New("invalid front matter")
	// ErrNotFound: the catalog has no skill with that name.
	ErrNotFound = errors.New("no such skill")
	// ErrAmbiguous: several skills have that name; choose one by its path.
	ErrAmbiguous = errors.New("ambiguous skill name")
	// ErrUserOnly: the skill's flags or the configuration do not let a model activate it.
	ErrUserOnly = errors.New("the skill is for people to start, not for a model")
	// ErrModelOnly: the skill's flags do not let a person activate it.
	ErrModelOnly = errors.New("only models may activate the skill, not people")
	// ErrDisabled: the skill is switched off by configuration.
	ErrDisabled = errors.New("the skill is switched off")
	// ErrTooMany: the agent has Config.MaxActive active skills.
	ErrTooMany = errors.New("too many active skills")
	// ErrAlreadyExists: a skill with that path is registered.
	ErrAlreadyExists = errors.New("skill already exists")
	// ErrNotActive: the agent has not activated that skill.
	ErrNotActive = errors.New("skill is not active")
	// ErrUntrusted: the skill comes from another node, or is to be activated without a person, and no
	// person has trusted it.
	ErrUntrusted = errors.New("no person has trusted this skill")
	// ErrChanged: the SKILL.md is no longer the one that a person was shown.
	ErrChanged = errors.New("the SKILL.md has changed")
	// ErrResource: a resource path is not one of the skill's own readable text files.
	ErrResource = errors.New("not a readable file of the skill")
)

// LoadError is the reason why one skill could not be loaded. It wraps one of this package's
// sentinels.
type LoadError struct {
	Path        string // of the directory
	Diagnostics []format.Diagnostic
	Err         error
}

// Error returns a message that names every issue.
func (e *LoadError) Error() string {
	if errors.Is(e.Err, ErrNoFile) {
		return "No SKILL.md found in " + e.Path
	}
	invalid := errors.Is(e.Err, ErrInvalid)
	var texts []string
	for _, d := range e.Diagnostics {
		switch {
		case d.Severity != format.Error:
		case invalid:
			texts = append(texts, "\n  - "+d.Field+": "+d.Message)
		default:
			texts = append(texts, d.Message)
		}
	}
	if invalid {
		return "Failed to load skill from " + e.Path + ": Invalid skill frontmatter:" + strings.Join(texts, "")
	}
	return "Failed to load skill from " + e.Path + ": " + strings.Join(texts, "; ")
}

// Unwrap returns the sentinel.
func (e *LoadError) Unwrap() error { return e.Err }

// kindOf returns the sentinel for the first error in ds, nil if ds has no error.
func kindOf(ds []format.Diagnostic) error {
	switch codeOf(ds) {
	case "":
		return nil
	case format.CodeNoDirectory:
		return ErrNoDirectory
	case format.CodeNoFile:
		return ErrNoFile
	case format.CodeNotRegular, format.CodeEscape, format.CodeFileRead, format.CodeFileTooLarge:
		return ErrUnreadable
	case format.CodeEncoding, format.CodeNoFrontMatter, format.CodeUnterminated, format.CodeEmpty, format.CodeFrontTooLarge:
		return ErrFormat
	case format.CodeYAML, format.CodeYAMLFeature, format.CodeDuplicateKey, format.CodeKeyType, format.CodeNotMapping:
		return ErrYAML
	}
	return ErrInvalid
}
