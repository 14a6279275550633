package share

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/skills/walk"
	"symbio/skills/format"
)

// The limits of a shared skill. MaxFile is the limit for reading a resource (skills.Resource),
// MaxSkill the bound for preloading, and MaxFiles the bound of a list of files.
const (
	MaxFile = format.MaxFile
	// MaxSkill limits all files of a skill together.
	MaxSkill = 8 << 20
	// MaxFiles limits the number of files.
	MaxFiles = 200

	// maxManifest is in bytes: MaxFiles lines, each with a path of at most maxPath bytes and 80
	// more.
	maxManifest = 64 << 10
)

// The errors that callers can tell apart. All but ErrNotShared and ErrNotStored mean that the skill
// was refused.
var (
	// ErrManifest: the text is not a manifest in its one form.
	ErrManifest = errors.New("not the manifest of a skill")
	// ErrPath: a path does not mean the same file on every system.
	ErrPath = errors.New("a path that is not carried")
	// ErrTooLarge: a file, the skill, or the number of its files is over the limit.
	ErrTooLarge = errors.New("the skill is too large")
	// ErrKind: something in the skill is a link, a device, or anything else but a file or a
	// directory.
	ErrKind = errors.New("neither a file nor a directory")
	// ErrHash: the content is not what the hash says.
	ErrHash = errors.New("the content does not have that hash")
	// ErrSlow: the other node answers in too small pieces, or not at all.
	ErrSlow = errors.New("the other node answers too slowly")
	// ErrSkill: its SKILL.md cannot be used.
	ErrSkill = errors.New("not a usable skill")
	// ErrNotShared: this node does not share a skill of that name, or no longer with that hash.
	ErrNotShared = errors.New("not shared here")
	// ErrNotStored: no skill of that hash is stored.
	ErrNotStored = errors.New("no such skill is stored")
	// ErrFull: too many skills are stored.
	ErrFull = errors.New("too many skills are stored")
)

// File is one file of a skill.
type File struct {
	// Path is relative to the skill's directory, with slashes on every system.
	Path string `json:"path"`
	// Exec reports whether the file may be executed by its owner, group or others.
	Exec bool `json:"exec,omitempty"`
	// Size is in bytes, from 0 to MaxFile.
	Size int64 `json:"size"`
	// SHA256 is in lower-case hexadecimal.
	SHA256 string `json:"sha256"`
}

// Manifest lists the files of a skill. Its hash identifies the skill.
type Manifest struct {
	// Name is also the name of the skill's directory.
	Name string
	// Files are sorted by path, without duplicates, and include SKILL.md.
	Files []File
}

// manifestHead begins a manifest. The number is the version of the form: a change of the form
// changes all hashes.
const manifestHead = "symbio-skill 1 "

// Encode returns the manifest as text. The form is unique, because the hash is computed from it: a
// line with the name, then one line per file, ordered by path, with x or -, the size, the SHA-256
// and the path. A path may have spaces, so it is the last. It has no line breaks (checkName).
func (m Manifest) Encode() []byte {
	var b bytes.Buffer
	b.WriteString(manifestHead + m.Name + "\n")
	for _, f := range m.Files {
		mode := "-"
		if f.Exec {
			mode = "x"
		}
		fmt.Fprintf(&b, "%s %d %s %s\n", mode, f.Size, f.SHA256, f.Path)
	}
	return b.Bytes()
}

// Hash returns the SHA-256 of the manifest in hex. It identifies the skill and all its content.
func (m Manifest) Hash() string {
	sum := sha256.Sum256(m.Encode())
	return hex.EncodeToString(sum[:])
}

// Bytes returns the size of all files together.
func (m Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

var (
	// skillName is the syntax of names of the specification, without the limit of 64 characters.
	skillName = lazyregexp.New(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	// hexHash is a SHA-256 in the only spelling that is accepted, because hashes are compared as
	// text.
	hexHash = lazyregexp.New(`^[0-9a-f]{64}$`)
)

// ValidHash reports whether a text has the form of a hash: 64 lower-case hex digits.
func ValidHash(s string) bool { return hexHash().MatchString(s) }

// DecodeManifest reads what Encode wrote, and nothing else. Errors: ErrManifest, ErrPath,
// ErrTooLarge.
func DecodeManifest(data []byte) (Manifest, error) {
	if len(data) > maxManifest {
		return Manifest{}, fmt.Errorf("%w: its manifest has more than %d KiB", ErrTooLarge, maxManifest>>10)
	}
	// bad returns ErrManifest with the line of the manifest, from 1.
	bad := func(line int, why string) (Manifest, error) {
		return Manifest{}, fmt.Errorf("%w: line %d: %s", ErrManifest, line, why)
	}
	text, ok := strings.CutSuffix(string(data), "\n")
	lines := strings.Split(text, "\n")
	name, headed := strings.CutPrefix(lines[0], manifestHead)
	if !ok || !headed {
		return bad(1, "it does not begin or end as a manifest does")
	}
	m := Manifest{Name: name}
	for i, line := range lines[1:] {
		if i >= MaxFiles {
			return Manifest{}, fmt.Errorf("%w: it has more than %d files", ErrTooLarge, MaxFiles)
		}
		parts := strings.SplitN(line, " ", 4)
		if len(parts) != 4 || parts[0] != "x" && parts[0] != "-" {
			return bad(i+2, "it is not MODE SIZE SHA256 PATH")
		}
		size, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			return bad(i+2, "its size is no number")
		}
		m.Files = append(m.Files, File{Path: parts[3], Exec: parts[0] == "x", Size: size, SHA256: parts[2]})
	}
	if err := m.Check(); err != nil {
		return Manifest{}, err
	}
	// This refuses what the steps above accept, such as a size of 007 or +7: two texts of one
	// manifest would have two hashes.
	if !bytes.Equal(m.Encode(), data) {
		return bad(1, "it is not in its one form")
	}
	return m, nil
}

// Check returns the first rule that the manifest breaks: ErrManifest, ErrPath or ErrTooLarge. It
// runs before any content is fetched, and for the skills of this node before they are sent. It
// checks the limits, the names, and that no two paths are one file.
func (m Manifest) Check() error {
	if len(m.Name) > 64 || !skillName().MatchString(m.Name) || checkName(m.Name) != "" {
		return fmt.Errorf("%w: %q cannot be the name of a skill", ErrManifest, clip(m.Name))
	}
	if len(m.Files) > MaxFiles {
		return fmt.Errorf("%w: it has more than %d files", ErrTooLarge, MaxFiles)
	}
	var total int64
	has := false
	for i, f := range m.Files {
		if err := checkPath(f.Path); err != nil {
			return err
		}
		switch {
		case i > 0 && m.Files[i-1].Path >= f.Path:
			return fmt.Errorf("%w: %q is twice there or out of order", ErrManifest, clip(f.Path))
		case !ValidHash(f.SHA256):
			return fmt.Errorf("%w: %q has no SHA-256", ErrManifest, clip(f.Path))
		case f.Size < 0:
			return fmt.Errorf("%w: %q has a size below zero", ErrManifest, clip(f.Path))
		case f.Size > MaxFile:
			return fmt.Errorf("%w: %q has %d bytes; at most %d KiB are carried", ErrTooLarge, clip(f.Path), f.Size, MaxFile>>10)
		}
		// Each size is at most MaxFile, so the sum cannot overflow before this check.
		if total += f.Size; total > MaxSkill {
			return fmt.Errorf("%w: its files have more than %d MiB", ErrTooLarge, MaxSkill>>20)
		}
		has = has || f.Path == walk.FileName
	}
	if !has {
		return fmt.Errorf("%w: it has no %s", ErrManifest, walk.FileName)
	}
	return checkTogether(m.Files)
}
