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
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"symbio/skills/format"
)

// fileName is the only name under which a skill is discovered.
const fileName = "SKILL.md"

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

// LoadFull reads the whole skill in dir: the text after the front matter are its instructions.
func LoadFull(dir string, policy format.Policy) (s Skill, instructions string, err error) {
	r, err := load(dir, policy, true)
	return r.skill, r.body, err
}

// reading is what came of reading one skill. With an error among diags only they count.
type reading struct {
	skill Skill
	body  string
	hash  string // SHA-256 of the whole file
	diags []format.Diagnostic
}

func (r reading) err() error {
	kind := kindOf(r.diags)
	if kind == nil {
		return nil
	}
	return &LoadError{Path: r.skill.Dir, Diagnostics: r.diags, Err: kind}
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
// by which dir was found.
func readDir(dir, canonical string, policy format.Policy, whole bool) reading {
	r := reading{skill: Skill{ID: idOf(canonical), Dir: dir, Path: filepath.Join(dir, fileName)}}
	root, err := os.OpenRoot(dir)
	if err != nil {
		r.fail(format.CodeNoDirectory, "%s is not a directory that can be opened: %v", dir, reason(err))
		return r
	}
	defer root.Close()
	// Without O_NONBLOCK the open of a FIFO waits for a writer.
	f, err := root.OpenFile(fileName, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) && policy.Level != format.Strict {
		const lower = "skill.md"
		if other, err2 := root.OpenFile(lower, os.O_RDONLY|syscall.O_NONBLOCK, 0); err2 == nil {
			f, err = other, nil
			r.skill.Path = filepath.Join(dir, lower)
			r.note(format.Warning, format.CodeFileNameCase, "the file must be named %s, not %s", fileName, lower)
		}
	}
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

// readBundled reads a skill of the program: dir is its directory within files.
func readBundled(files fs.FS, dir string, policy format.Policy, whole bool) reading {
	at := bundledPrefix + dir
	r := reading{skill: Skill{ID: idOf(at), Dir: at, Path: at + "/" + fileName, Scope: ScopeBundled}}
	sub, err := fs.Sub(files, dir)
	if err != nil {
		r.fail(format.CodeNoDirectory, "%s: %v", dir, reason(err))
		return r
	}
	f, err := sub.Open(fileName)
	if err != nil {
		r.openFailed(err)
		return r
	}
	defer f.Close()
	r.read(f, path.Base(dir), policy, whole)
	r.skill.files = sub
	r.skill.setResources(func(name string) bool {
		info, err := fs.Stat(sub, name)
		return err == nil && info.IsDir()
	})
	return r
}

// read takes the front matter of f, and with whole the rest.
func (r *reading) read(f fs.File, dirName string, policy format.Policy, whole bool) {
	info, err := f.Stat()
	switch {
	case err != nil:
		r.fail(format.CodeFileRead, "%s cannot be read: %v", fileName, reason(err))
		return
	case !info.Mode().IsRegular():
		r.fail(format.CodeNotRegular, "%s is not a regular file but %s", fileName, kindOfFile(info.Mode()))
		return
	case info.Size() > format.MaxFile:
		r.fail(format.CodeFileTooLarge, "%s has %d bytes; at most %d are read", fileName, info.Size(), format.MaxFile)
		return
	}
	r.skill.ModTime, r.skill.Size = info.ModTime(), info.Size()
	if whole {
		r.readWhole(f, dirName, policy)
		return
	}
	data, more, err := readUpTo(f, nil, format.HeadSize)
	m, diags, need := format.ParseHead(data, more, dirName, policy)
	if need && err == nil {
		data, more, err = readUpTo(f, data, format.MaxHead)
		m, diags, _ = format.ParseHead(data, more, dirName, policy)
	}
	if err != nil {
		r.fail(format.CodeFileRead, "%s cannot be read: %v", fileName, reason(err))
		return
	}
	r.take(m, diags)
}

func (r *reading) readWhole(f fs.File, dirName string, policy format.Policy) {
	data, more, err := readUpTo(f, nil, format.MaxFile+1)
	switch {
	case err != nil:
		r.fail(format.CodeFileRead, "%s cannot be read: %v", fileName, reason(err))
		return
	case more: // it grew after the stat
		r.fail(format.CodeFileTooLarge, "%s is larger than %d bytes", fileName, format.MaxFile)
		return
	}
	sum := sha256.Sum256(data)
	r.hash = hex.EncodeToString(sum[:])
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
		r.fail(format.CodeEscape, "%s is a link that leads out of the skill's directory", fileName)
	case errors.Is(err, fs.ErrNotExist):
		r.fail(format.CodeNoFile, "No %s found in %s", fileName, r.skill.Dir)
	default:
		r.fail(format.CodeFileRead, "%s cannot be read: %v", fileName, reason(err))
	}
}

func (r *reading) fail(c format.Code, message string, args ...any) {
	r.note(format.Error, c, message, args...)
}

func (r *reading) note(s format.Severity, c format.Code, message string, args ...any) {
	r.diags = append(r.diags, format.Diagnostic{Code: c, Severity: s, Message: fmt.Sprintf(message, args...)})
}

func (s *Skill) setResources(has func(string) bool) {
	s.HasScripts, s.HasAssets = has("scripts"), has("assets")
	s.HasReferences = has("references") || has("reference")
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
		return fail(reason(err))
	}
	defer closeDir()
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return fail(reason(err))
	case !info.Mode().IsRegular():
		return fail("it is " + kindOfFile(info.Mode()))
	}
	data, more, err := readUpTo(f, nil, format.MaxFile+1)
	switch {
	case err != nil:
		return fail(reason(err))
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
func readUpTo(f io.Reader, data []byte, limit int) (_ []byte, more bool, err error) {
	buf := bytes.NewBuffer(data)
	if _, err := io.Copy(buf, io.LimitReader(f, int64(limit-len(data)))); err != nil {
		return buf.Bytes(), false, err
	}
	return buf.Bytes(), buf.Len() >= limit, nil
}

// idOf is the identity of the skill in the directory with that canonical path.
func idOf(dir string) string {
	sum := sha256.Sum256([]byte(filepath.Join(dir, fileName)))
	return hex.EncodeToString(sum[:])
}

// reason is err without the path, which the message names already.
func reason(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// escapes recognises os.Root's refusal, which has no sentinel.
func escapes(err error) bool { return strings.Contains(reason(err).Error(), "escapes from parent") }

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
