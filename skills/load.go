package skills

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"symbio/skills/format"
	"symbio/skills/walk"
)

// bundledPrefix marks the paths of skills that lie inside the program.
const bundledPrefix = "bundled:"

// Skill is a skill as the catalog holds it, without its instructions. It is a value; its maps and
// slices are not written to.
type Skill struct {
	format.Manifest
	// ID is the SHA-256 of the canonical path: the same file has the same id, whatever led to it.
	ID string `json:"id"`
	// Path is the SKILL.md, Dir its directory: absolute, as found, links not resolved. Those of a
	// bundled skill begin with "bundled:" and are no paths on the disk.
	Path  string `json:"path"`
	Dir   string `json:"dir"`
	Scope Scope  `json:"scope"`
	// HasScripts, HasReferences and HasAssets say which directories of resources it has.
	HasScripts    bool `json:"has_scripts"`
	HasReferences bool `json:"has_references"`
	HasAssets     bool `json:"has_assets"`
	// ModTime and Size are the file's when it was read.
	ModTime time.Time `json:"mtime"`
	Size    int64     `json:"size"`
	// Exposure says who may take it: what its flags and the configuration's choices come to. A scan sets it.
	Exposure Exposure `json:"exposure,omitempty"`
	// Stale: an edit broke the file. This is the last version that was in order; Catalog.Errors says what
	// is wrong, and the skill cannot be activated until it is mended.
	Stale bool `json:"stale,omitempty"`
	// Diagnostics are what was found without being an Error.
	Diagnostics []format.Diagnostic `json:"diagnostics,omitempty"`

	files fs.FS // where a bundled skill's files are; nil on the disk
}

// Load reads the front matter of the skill in dir, and not its instructions. The error is a
// *LoadError. It opens nothing outside dir, and does not block on a FIFO.
func Load(dir string, policy format.Policy) (Skill, error) {
	r, err := load(dir, policy, false)
	return r.skill, err
}

// LoadFull reads the whole skill in dir: the text after the front matter are its instructions, and hash is the SHA-256 of
// the SKILL.md of which both come. Otherwise as Load.
func LoadFull(dir string, policy format.Policy) (s Skill, instructions, hash string, err error) {
	r, err := load(dir, policy, true)
	return r.skill, r.body, r.hash, err
}

// reading is what came of reading one skill. With an error among diags only they count.
type reading struct {
	skill Skill
	body  string
	hash  string    // SHA-256 of the whole file
	mark  walk.Mark // of the file; zero when it could not be opened
	diags []format.Diagnostic
}

func (r reading) err() error {
	kind := kindOf(r.diags)
	if kind == nil {
		return nil
	}
	return &LoadError{Path: r.skill.Dir, Diagnostics: r.diags, Err: kind}
}

// read reads a skill of the catalog whole.
func (c Config) read(skill Skill) reading {
	var r reading
	if skill.files != nil {
		name := path.Base(strings.TrimPrefix(skill.Dir, bundledPrefix))
		if strings.HasPrefix(skill.Dir, inlinePrefix) {
			name = "" // it lies in no directory
		}
		r = readFiles(skill.files, skill.Dir, name, c.Policy, true)
	} else {
		r, _ = load(skill.Dir, c.Policy, true)
	}
	r.skill.Scope, r.skill.ID = skill.Scope, skill.ID
	if c.IncludeFrontMatter && r.err() == nil {
		if whole, err := r.skill.Resource(path.Base(filepath.ToSlash(r.skill.Path))); err == nil && hashOf(whole) == r.hash {
			r.body = whole
		}
	}
	return r
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// version tells one state of a file from another: its content, and what a system knows of it (skills.md
// C22).
func (r reading) version() string {
	return r.hash + " " + strconv.FormatInt(r.skill.ModTime.UnixNano(), 10) + " " + strconv.FormatInt(r.skill.Size, 10)
}

func load(dir string, policy format.Policy, whole bool) (reading, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return reading{}, fmt.Errorf("find skill directory %s: %w", dir, err)
	}
	canonical, err := filepath.EvalSymlinks(dir)
	if err != nil {
		canonical = dir
	}
	r := readDir(dir, canonical, policy, whole)
	return r, r.err()
}

// readDir reads the skill in dir, which links lead to canonical. The name is held against the name
// by which dir was found. Outside strict skill.md will do.
func readDir(dir, canonical string, policy format.Policy, whole bool) reading {
	r := readNamed(dir, canonical, walk.FileName, policy, whole)
	if policy.Level == format.Strict || codeOf(r.diags) != format.CodeNoFile {
		return r
	}
	const lower = "skill.md"
	other := readNamed(dir, canonical, lower, policy, whole)
	if codeOf(other.diags) == format.CodeNoFile || other.mark == (walk.Mark{}) {
		return r
	}
	other.diags = append([]format.Diagnostic{{Code: format.CodeFileNameCase, Severity: format.Warning,
		Message: fmt.Sprintf("the file must be named %s, not %s", walk.FileName, lower)}}, other.diags...)
	if !format.Failed(other.diags) {
		other.skill.Diagnostics = other.diags
	}
	return other
}

// codeOf is the first error's.
func codeOf(ds []format.Diagnostic) format.Code {
	for _, d := range ds {
		if d.Severity == format.Error {
			return d.Code
		}
	}
	return ""
}

// readNamed reads the file of that name in dir. No link leads it out of dir.
func readNamed(dir, canonical, name string, policy format.Policy, whole bool) reading {
	r := reading{skill: Skill{ID: idOf(canonical), Dir: dir, Path: filepath.Join(dir, name)}}
	root, err := os.OpenRoot(dir)
	if err != nil {
		r.fail(format.CodeNoDirectory, "%s is not a directory that can be opened: %v", dir, walk.Reason(err))
		return r
	}
	defer root.Close()
	// Without O_NONBLOCK the open of a FIFO waits for a writer.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		r.openFailed(err)
		return r
	}
	defer f.Close()
	r.read(f, filepath.Base(dir), policy, whole)
	r.skill.setResources(func(name string) bool {
		info, err := root.Stat(name)
		return err == nil && info.IsDir()
	})
	return r
}

// readPlace is readDir for a directory that a walk has listed. A file that is no link cannot lead out of
// it, and is opened without further ado.
func readPlace(p walk.Place, policy format.Policy, whole bool) reading {
	file := walk.Join(p.Path, walk.FileName)
	r := reading{skill: Skill{ID: idOf(p.Canonical), Path: file, Dir: file[:len(p.Path)]}}
	if p.Kind&^fs.ModeSymlink != 0 { // not even opened: that alone makes some devices do something
		r.fail(format.CodeNotRegular, "%s is not a regular file but %s", walk.FileName, kindOfFile(p.Kind))
	} else if f, err := walk.OpenPlain(p.Path, walk.FileName); err == nil {
		r.read(f, filepath.Base(p.Path), policy, whole)
		f.Close()
	} else {
		r = readNamed(p.Path, p.Canonical, walk.FileName, policy, whole)
	}
	r.skill.putResources(p.Has)
	if r.mark == (walk.Mark{}) {
		r.mark, _ = walk.MarkOf(file)
	}
	return r
}

// read takes the front matter of f, and with whole the rest.
func (r *reading) read(f fs.File, dirName string, policy format.Policy, whole bool) {
	info, err := f.Stat()
	if err != nil {
		r.fail(format.CodeFileRead, "%s cannot be read: %v", walk.FileName, walk.Reason(err))
		return
	}
	r.mark = walk.MarkOfInfo(info)
	switch {
	case !info.Mode().IsRegular():
		r.fail(format.CodeNotRegular, "%s is not a regular file but %s", walk.FileName, kindOfFile(info.Mode()))
		return
	case info.Size() > format.MaxFile:
		r.fail(format.CodeFileTooLarge, "%s has %d bytes; at most %d are read", walk.FileName, info.Size(), format.MaxFile)
		return
	}
	r.skill.ModTime, r.skill.Size = info.ModTime(), info.Size()
	if whole {
		r.readWhole(f, dirName, policy)
		return
	}
	head := heads.Get().(*[format.HeadSize]byte)
	defer heads.Put(head)
	data, more, err := readUpTo(f, head[:0], format.HeadSize, info.Size())
	m, diags, need := format.ParseHead(data, more, dirName, policy)
	if need && err == nil {
		data, more, err = readUpTo(f, slices.Clone(data), format.MaxHead, info.Size())
		m, diags, _ = format.ParseHead(data, more, dirName, policy)
	}
	if err != nil {
		r.fail(format.CodeFileRead, "%s cannot be read: %v", walk.FileName, walk.Reason(err))
		return
	}
	r.take(m, diags)
}

// heads are buffers for the first block of a file; nothing that is read keeps them.
var heads = sync.Pool{New: func() any { return new([format.HeadSize]byte) }}

func (r *reading) readWhole(f fs.File, dirName string, policy format.Policy) {
	data, more, err := readUpTo(f, nil, format.MaxFile+1, r.mark.Size())
	switch {
	case err != nil:
		r.fail(format.CodeFileRead, "%s cannot be read: %v", walk.FileName, walk.Reason(err))
		return
	case more: // it grew after the stat
		r.fail(format.CodeFileTooLarge, "%s is larger than %d bytes", walk.FileName, format.MaxFile)
		return
	}
	r.hash = hashOf(string(data))
	m, body, diags := format.Parse(data, dirName, policy)
	r.body = body
	r.take(m, diags)
}

func (r *reading) take(m format.Manifest, diags []format.Diagnostic) {
	r.skill.Manifest = m
	r.diags = append(r.diags, diags...)
	if !format.Failed(r.diags) {
		r.skill.Diagnostics = r.diags
	}
}

func (r *reading) openFailed(err error) {
	switch {
	case escapes(err):
		r.fail(format.CodeEscape, "%s is a link that leads out of the skill's directory", walk.FileName)
	case errors.Is(err, fs.ErrNotExist):
		r.fail(format.CodeNoFile, "No %s found in %s", walk.FileName, r.skill.Dir)
	default:
		r.fail(format.CodeFileRead, "%s cannot be read: %v", walk.FileName, walk.Reason(err))
	}
}

func (r *reading) fail(c format.Code, message string, args ...any) {
	r.note(format.Error, c, message, args...)
}

func (r *reading) note(s format.Severity, c format.Code, message string, args ...any) {
	r.diags = append(r.diags, format.Diagnostic{Code: c, Severity: s, Message: fmt.Sprintf(message, args...)})
}

func (s *Skill) setResources(has func(string) bool) {
	s.putResources(walk.Resources{Scripts: has("scripts"), References: has("references") || has("reference"), Assets: has("assets")})
}

func (s *Skill) putResources(r walk.Resources) {
	s.HasScripts, s.HasReferences, s.HasAssets = r.Scripts, r.References, r.Assets
}

func (s *Skill) resources() walk.Resources {
	return walk.Resources{Scripts: s.HasScripts, References: s.HasReferences, Assets: s.HasAssets}
}

// Resource reads a text file that belongs to the skill, such as references/checklist.md. ErrResource:
// the path is not inside the skill's directory, or names no UTF-8 text file of at most 1 MiB. The
// disk is read, so it may block; links are followed only within the directory.
func (s Skill) Resource(rel string) (string, error) {
	fail := func(why any) (string, error) {
		return "", fmt.Errorf("read %q of skill %s: %w: %v", rel, s.Name, ErrResource, why)
	}
	slashed := filepath.ToSlash(rel)
	if !filepath.IsLocal(rel) || !fs.ValidPath(path.Clean(slashed)) || strings.Contains(slashed, "..") || strings.ContainsRune(rel, 0) {
		return fail("the path must lead down from the skill's directory")
	}
	f, closeDir, err := s.open(path.Clean(slashed))
	if err != nil {
		return fail(walk.Reason(err))
	}
	defer closeDir()
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return fail(walk.Reason(err))
	case !info.Mode().IsRegular():
		return fail("it is " + kindOfFile(info.Mode()))
	}
	data, more, err := readUpTo(f, nil, format.MaxFile+1, info.Size())
	switch {
	case err != nil:
		return fail(walk.Reason(err))
	case more:
		return fail("it is larger than 1 MiB")
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return fail("it is not text")
	}
	return string(data), nil
}

func (s Skill) open(rel string) (f fs.File, closeDir func() error, err error) {
	if s.files != nil {
		f, err = s.files.Open(rel)
		return f, func() error { return nil }, err
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, nil, err
	}
	f, err = root.OpenFile(filepath.FromSlash(rel), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		root.Close()
		return nil, nil, err
	}
	return f, root.Close, nil
}

// readUpTo reads on from f until data has limit bytes; more says that it has, and the file may go on.
// Where a regular file has the size that it is said to have, its end is not looked for.
func readUpTo(f io.Reader, data []byte, limit int, size int64) (_ []byte, more bool, err error) {
	data = slices.Grow(data, max(0, min(limit, max(int(size), format.HeadSize))-len(data)))
	for len(data) < limit {
		if len(data) == cap(data) {
			data = slices.Grow(data, min(len(data), limit-len(data)))
		}
		n, err := f.Read(data[len(data):min(cap(data), limit)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, false, nil
		case err != nil:
			return data, false, err
		case int64(len(data)) == size:
			return data, len(data) >= limit, nil
		}
	}
	return data, true, nil
}

// idOf is the identity of the skill in the directory with that canonical path.
func idOf(dir string) string {
	return hashOf(filepath.Join(dir, walk.FileName))
}

// escapes recognises os.Root's refusal, which has no sentinel.
func escapes(err error) bool {
	return strings.Contains(walk.Reason(err).Error(), "escapes from parent")
}

func kindOfFile(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}
