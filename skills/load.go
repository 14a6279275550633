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

	"symbio/internal/skills/walk"
	"symbio/skills/format"
)

// bundledPrefix begins the paths of skills inside the program. They are not paths on the disk.
const bundledPrefix = "bundled:"

// Skill is a skill as the catalog lists it, without its instructions. It is a value. Callers must
// not write to its maps and slices.
type Skill struct {
	format.Manifest
	// ID is the SHA-256 of the canonical path, so that a file has one id, whichever link led to it.
	ID string `json:"id"`
	// Path is the SKILL.md and Dir its directory: absolute, as found, with links not resolved. For
	// a bundled skill they begin with "bundled:" and are not paths on the disk.
	Path  string `json:"path"`
	Dir   string `json:"dir"`
	Scope Scope  `json:"scope"`
	// HasScripts, HasReferences and HasAssets report which resource directories the skill has.
	HasScripts    bool `json:"has_scripts"`
	HasReferences bool `json:"has_references"`
	HasAssets     bool `json:"has_assets"`
	// ModTime and Size describe the file at the time of the read.
	ModTime time.Time `json:"mtime"`
	Size    int64     `json:"size"`
	// Exposure is set by a scan: the skill's own flags, restricted by the configuration.
	Exposure Exposure `json:"exposure,omitempty"`
	// Superseded is true when the same scope has a newer version of the name. Models do not see the
	// skill. It is activated by its path, or as a dependency on its version.
	Superseded bool `json:"superseded,omitempty"`
	// Stale is true when an edit broke the file. The rest of the Skill is then the last good
	// version. Catalog.Errors has the reason, and the skill cannot be activated until the file is
	// repaired.
	Stale bool `json:"stale,omitempty"`
	// Diagnostics are the warnings and notes of the format.
	Diagnostics []format.Diagnostic `json:"diagnostics,omitempty"`

	// files has the files of a skill in memory or inside the program. It is nil for a skill on the
	// disk.
	files fs.FS
}

// Load reads the front matter of the skill in dir, and not its instructions. The error is a
// *LoadError. It opens nothing outside dir, and does not block on a FIFO.
func Load(dir string, policy format.Policy) (Skill, error) {
	r, err := load(dir, policy, false)
	return r.skill, err
}

// LoadFull reads the whole skill in dir. instructions is the text after the front matter, and hash
// is the SHA-256 of the SKILL.md. Otherwise it is as Load.
func LoadFull(dir string, policy format.Policy) (s Skill, instructions, hash string, err error) {
	r, err := load(dir, policy, true)
	return r.skill, r.body, r.hash, err
}

// loadResult is the result of reading one skill. If diags has an error, the other fields are
// incomplete.
type loadResult struct {
	skill Skill
	// body is the text after the front matter; "" if only the front matter was read.
	body string
	// hash is the SHA-256 of the whole file, in hex; "" if only the front matter was read.
	hash string
	// mark identifies the state of the file; zero when it could not be opened.
	mark walk.Mark
	// diags are all findings about the file.
	diags []format.Diagnostic
}

// err returns a *LoadError if diags has an error, else nil.
func (r loadResult) err() error {
	kind := kindOf(r.diags)
	if kind == nil {
		return nil
	}
	return &LoadError{Path: r.skill.Dir, Diagnostics: r.diags, Err: kind}
}

// read reads a whole skill of the catalog again from where it lies.
func (c Config) read(skill Skill) loadResult {
	var r loadResult
	if skill.files != nil {
		name := path.Base(strings.TrimPrefix(skill.Dir, bundledPrefix))
		if strings.HasPrefix(skill.Dir, inlinePrefix) {
			// An inline skill lies in no directory, so there is no name to compare.
			name = ""
		}
		r = readFiles(skill.files, skill.Dir, name, c.Policy, true)
	} else {
		r, _ = load(skill.Dir, c.Policy, true)
	}
	r.skill.Scope, r.skill.ID = skill.Scope, skill.ID
	return r
}

// hashOf returns the SHA-256 of a text, in hex.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// version identifies one state of a file by its content, time and size. A model is
// shown a text again when the version differs.
func (r loadResult) version() string {
	return r.hash + " " + strconv.FormatInt(r.skill.ModTime.UnixNano(), 10) + " " + strconv.FormatInt(r.skill.Size, 10)
}

// load finds the directory and reads the skill in it; with whole also its text. The error is a
// *LoadError, except if the working directory is unknown.
func load(dir string, policy format.Policy, whole bool) (loadResult, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return loadResult{}, fmt.Errorf("find skill directory %s: %w", dir, err)
	}
	// A directory that cannot be resolved cannot be opened either; readDir reports that.
	canonical, err := filepath.EvalSymlinks(dir)
	if err != nil {
		canonical = dir
	}
	r := readDir(dir, canonical, policy, whole)
	return r, r.err()
}

// readDir reads the skill in dir. canonical is dir without links. The skill's name must equal the
// name in dir, not in canonical. Except at level strict, a file named skill.md is read too, with a
// warning.
func readDir(dir, canonical string, policy format.Policy, whole bool) loadResult {
	policy = policy.In(dir, canonical)
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

// codeOf returns the code of the first error, "" if there is none.
func codeOf(ds []format.Diagnostic) format.Code {
	for _, d := range ds {
		if d.Severity == format.Error {
			return d.Code
		}
	}
	return ""
}

// readNamed reads the file called name in dir. os.Root keeps links from leading out of dir.
func readNamed(dir, canonical, name string, policy format.Policy, whole bool) loadResult {
	r := loadResult{skill: Skill{ID: idOf(canonical), Dir: dir, Path: filepath.Join(dir, name)}}
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
	r.skill.putResources(resourcesIn(root.FS()))
	return r
}

// readPlace is readDir for a directory that a walk has listed. It saves opening an os.Root for a
// regular file, which cannot lead out of the directory.
func readPlace(p walk.Place, policy format.Policy, whole bool) loadResult {
	policy = policy.In(p.Path, p.Canonical)
	file := walk.Join(p.Path, walk.FileName)
	r := loadResult{skill: Skill{ID: idOf(p.Canonical), Path: file, Dir: file[:len(p.Path)]}}
	// Do not even open it: opening some devices has an effect.
	if p.Kind&^fs.ModeSymlink != 0 {
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

// read parses the front matter of f, and with whole the text after it.
func (r *loadResult) read(f fs.File, dirName string, policy format.Policy, whole bool) {
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
	// The front matter is longer than HeadSize, which is rare. Clone: data lies in the pooled
	// buffer.
	if need && err == nil {
		data, more, err = readUpTo(f, slices.Clone(data), format.MaxHead, info.Size())
		m, diags, _ = format.ParseHead(data, more, dirName, policy)
	}
	if err != nil {
		r.fail(format.CodeFileRead, "%s cannot be read: %v", walk.FileName, walk.Reason(err))
		return
	}
	r.setManifest(m, diags)
}

// heads holds buffers for the first block of a file. Nothing keeps a reference to a buffer after
// the parse.
var heads = sync.Pool{New: func() any { return new([format.HeadSize]byte) }}

// readWhole parses all of f and computes its hash. It checks the size again, because the file can
// grow after the stat.
func (r *loadResult) readWhole(f fs.File, dirName string, policy format.Policy) {
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
	r.setManifest(m, diags)
}

// setManifest stores the result of the parser.
func (r *loadResult) setManifest(m format.Manifest, diags []format.Diagnostic) {
	r.skill.Manifest = m
	r.diags = append(r.diags, diags...)
	if !format.Failed(r.diags) {
		r.skill.Diagnostics = r.diags
	}
}

// openFailed turns the error of opening SKILL.md into a diagnostic.
func (r *loadResult) openFailed(err error) {
	switch {
	case escapes(err):
		r.fail(format.CodeEscape, "%s is a link that leads out of the skill's directory", walk.FileName)
	case errors.Is(err, fs.ErrNotExist):
		r.fail(format.CodeNoFile, "No %s found in %s", walk.FileName, r.skill.Dir)
	default:
		r.fail(format.CodeFileRead, "%s cannot be read: %v", walk.FileName, walk.Reason(err))
	}
}

// fail adds an error.
func (r *loadResult) fail(c format.Code, message string, args ...any) {
	r.note(format.Error, c, message, args...)
}

// note adds a diagnostic of severity s.
func (r *loadResult) note(s format.Severity, c format.Code, message string, args ...any) {
	r.diags = append(r.diags, format.Diagnostic{Code: c, Severity: s, Message: fmt.Sprintf(message, args...)})
}

// resourcesIn returns which resource directories the directory of a skill has.
func resourcesIn(files fs.FS) walk.Resources {
	has := func(name string) bool {
		info, err := fs.Stat(files, name)
		return err == nil && info.IsDir()
	}
	return walk.Resources{Scripts: has("scripts"), References: has("references") || has("reference"), Assets: has("assets")}
}

// putResources stores which resource directories a walk has found.
func (s *Skill) putResources(r walk.Resources) {
	s.HasScripts, s.HasReferences, s.HasAssets = r.Scripts, r.References, r.Assets
}

// resources returns what putResources stored, to compare it with the next walk.
func (s *Skill) resources() walk.Resources {
	return walk.Resources{Scripts: s.HasScripts, References: s.HasReferences, Assets: s.HasAssets}
}

// Resource returns a text file of the skill, such as references/checklist.md. ErrResource: the path
// does not lie inside the skill's directory, or the file is not UTF-8 text of at most 1 MiB. It
// reads the disk, so it can block. It follows links only inside the directory.
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
	// The file has grown since the stat.
	case more:
		return fail("it is larger than 1 MiB")
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return fail("it is not text")
	}
	return string(data), nil
}

// open opens a file below the skill's directory without waiting for a FIFO. The caller must call
// closeDir.
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

// readUpTo appends to data from f until data has limit bytes. more reports whether the limit was
// reached, so that the file can have more. size is the expected size of the file. It stops there
// without a read that would only return io.EOF, which saves a system call for each file of a scan.
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

// idOf returns the id of the skill in the directory with that canonical path.
func idOf(dir string) string { return hashOf(filepath.Join(dir, walk.FileName)) }

// escapes reports whether os.Root refused a path. The package has no sentinel for that, so the text
// is compared; a test fails if it changes.
func escapes(err error) bool {
	return strings.Contains(walk.Reason(err).Error(), "escapes from parent")
}

// kindOfFile names the type of a file that is not regular.
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
