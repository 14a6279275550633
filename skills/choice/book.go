// Package choice keeps which skills a person has switched off.
//
// The one idea: a choice is about a name, which holds wherever a skill of that name lies, or about one path.
// It is the user's and for all nodes of that user; no project can carry one.
//
// Guarantees: each choice is a file of its own, written whole or not at all, so that processes may choose at the
// same time. What is listed is bounded. A file that others could have written, or that cannot be read, is an
// error, beside which the others stand.
//
// It only keeps: package skills says what comes of a choice, and what a configuration adds to it.
package choice

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"symbio/security/private"
	"symbio/skills"
)

const (
	most    = 4096     // choices: more than a person makes
	maxFile = 16 << 10 // bytes of one: the longest path and room
	fileEnd = ".json"
)

// ErrFull: there are too many choices.
var ErrFull = errors.New("too many skills are switched off")

// Off says that a skill is switched off.
type Off struct {
	// Skill is a name, or the path of a SKILL.md as the catalog shows it.
	Skill string    `json:"skill"`
	Time  time.Time `json:"time"`
}

// Book is a directory of choices. Its methods may be called by any number of goroutines and processes; they
// read and write the disk.
type Book struct{ dir string }

// NewBook returns the book in a directory, which need not exist yet.
func NewBook(dir string) Book { return Book{dir} }

// Choices are all that a registry has to know of a book's list.
func Choices(all []Off) (c skills.Choices) {
	for _, o := range all {
		c.Disabled = append(c.Disabled, o.Skill)
	}
	return c
}

func (b Book) file(skill string) string {
	sum := sha256.Sum256([]byte(skill))
	return filepath.Join(b.dir, hex.EncodeToString(sum[:])+fileEnd)
}

// Disable switches a skill off. What is off already stays as it is. ErrFull.
func (b Book) Disable(skill string) error {
	if _, err := b.read(b.file(skill)); err == nil {
		return nil
	}
	names, err := b.list()
	if err != nil {
		return fmt.Errorf("switch %s off: %w", skill, err)
	}
	if len(names) >= most {
		return fmt.Errorf("switch %s off: %w: %d; switch some on again with `symbio skills enable`", skill, ErrFull, len(names))
	}
	data, err := json.Marshal(Off{skill, time.Now().UTC().Truncate(time.Second)})
	if err == nil && len(data) > maxFile {
		err = errors.New("its path is too long")
	}
	if err == nil {
		err = private.Replace(b.file(skill), data)
	}
	if err != nil {
		return fmt.Errorf("switch %s off: %w", skill, err)
	}
	return nil
}

// Enable takes a choice back, also one that cannot be read. fs.ErrNotExist: there is none.
func (b Book) Enable(skill string) error { return os.Remove(b.file(skill)) }

// All lists the choices, by skill. Beside an error, which names the files that cannot be read, stand those
// that can.
func (b Book) All() ([]Off, error) {
	names, err := b.list()
	problems := []error{err}
	var all []Off
	for _, name := range names {
		o, err := b.read(filepath.Join(b.dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // switched on meanwhile
		case err != nil:
			problems = append(problems, err)
		default:
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(x, y Off) int { return strings.Compare(x.Skill, y.Skill) })
	return all, errors.Join(problems...)
}

func (b Book) list() (names []string, err error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the skills that are switched off: %w", err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), fileEnd) {
			names = append(names, e.Name())
		}
	}
	if len(names) > most {
		return names[:most], fmt.Errorf("%w in %s: only %d are read", ErrFull, b.dir, most)
	}
	return names, nil
}

func (b Book) read(file string) (o Off, err error) {
	data, err := private.Read(file, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Off{}, err
	}
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err == nil && b.file(o.Skill) != file {
		err = errors.New("it is about another skill")
	}
	if err != nil {
		return Off{}, fmt.Errorf("%s says not which skill is switched off: %w; remove it", file, err)
	}
	return o, nil
}
