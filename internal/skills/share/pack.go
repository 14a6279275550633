package share

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"symbio/internal/skills/walk"
	"symbio/skills/format"
)

// Pack is a skill in transport form: the manifest, and the contents of all files one after the
// other, in the order of the manifest. It is constant after Read or newPack, and safe for
// concurrent reads.
type Pack struct {
	Manifest
	// content is at most MaxSkill bytes; its length is Manifest.Bytes.
	content []byte
}

// Read reads the skill in dir. It leaves out names that begin with a dot, which are editors' and
// version control's. Anything else that cannot be shared is an error with the path: ErrPath,
// ErrTooLarge, ErrKind, ErrSkill. It opens nothing outside dir, also if dir changes meanwhile
// (os.Root).
func Read(dir string) (*Pack, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read the skill in %s: %w", dir, err)
	}
	defer root.Close()
	// The directory's name must be the name of the skill; validate checks that.
	p := &Pack{Manifest: Manifest{Name: filepath.Base(dir)}}
	contents := map[string][]byte{}
	err = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == ".":
			return nil
		case e.Name()[0] == '.' && e.IsDir():
			return fs.SkipDir
		case e.Name()[0] == '.':
			return nil
		case e.IsDir():
			return checkPath(path)
		case !e.Type().IsRegular():
			return fmt.Errorf("%w: %q", ErrKind, clip(path))
		case len(p.Files) >= MaxFiles:
			return fmt.Errorf("%w: it has more than %d files", ErrTooLarge, MaxFiles)
		}
		f, data, err := ReadFile(root, path)
		if err != nil {
			return err
		}
		p.Files = append(p.Files, f)
		contents[path] = data
		if p.Bytes() > MaxSkill {
			return fmt.Errorf("%w: its files have more than %d MiB", ErrTooLarge, MaxSkill>>20)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the skill in %s: %w", dir, err)
	}
	if err := p.assemble(contents); err != nil {
		return nil, fmt.Errorf("read the skill in %s: %w", dir, err)
	}
	return p, p.validate()
}

// New returns the pack of a skill whose files come from elsewhere than a directory, such as an
// archive. contents has the bytes by path; executable says which of the files can be executed. It
// checks what Read checks. Errors: ErrManifest, ErrPath, ErrTooLarge, ErrSkill.
func New(name string, contents map[string][]byte, executable map[string]bool) (*Pack, error) {
	p := &Pack{Manifest: Manifest{Name: name}}
	for path, data := range contents {
		p.Files = append(p.Files, File{Path: path, Exec: executable[path], Size: int64(len(data)), SHA256: sum(data)})
	}
	if err := p.assemble(contents); err != nil {
		return nil, err
	}
	return p, p.validate()
}

// assemble sorts the files of the manifest, joins their contents and checks the manifest. A walk
// visits a directory where its name sorts, which is not the order of whole paths: "a.md" sorts
// before "a/b".
func (p *Pack) assemble(contents map[string][]byte) error {
	slices.SortStableFunc(p.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range p.Files {
		p.content = append(p.content, contents[f.Path]...)
	}
	return p.Check()
}

// ReadFile reads one file of a skill and computes its hash. It checks the kind after opening,
// because the file may have been replaced since a walk saw it. ErrKind: it is not a regular file, or
// it runs with the rights of its owner or group. ErrTooLarge: it is over MaxFile.
func ReadFile(root *os.Root, path string) (File, []byte, error) {
	// O_NONBLOCK: opening must not wait if the file has become a FIFO.
	f, err := root.OpenFile(filepath.FromSlash(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return File{}, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return File{}, nil, err
	}
	if !info.Mode().IsRegular() {
		return File{}, nil, fmt.Errorf("%w: %q", ErrKind, clip(path))
	}
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return File{}, nil, fmt.Errorf("%w: %q runs with the rights of its owner or group", ErrKind, clip(path))
	}
	// One byte more than allowed shows that the file is too large, also while it grows.
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return File{}, nil, err
	}
	if len(data) > MaxFile {
		return File{}, nil, fmt.Errorf("%w: %q has more than %d KiB", ErrTooLarge, clip(path), MaxFile>>10)
	}
	return File{Path: path, Exec: info.Mode()&0o111 != 0, Size: int64(len(data)), SHA256: sum(data)}, data, nil
}

// newPack checks that content belongs to the manifest, and returns both as a Pack. The manifest
// must have passed check. Errors: ErrHash, ErrSkill.
func newPack(m Manifest, content []byte) (*Pack, error) {
	p := &Pack{m, content}
	if m.Bytes() != int64(len(content)) {
		return nil, fmt.Errorf("%w: it has %d bytes, not %d", ErrHash, len(content), m.Bytes())
	}
	for f, data := range p.All {
		if sum(data) != f.SHA256 {
			return nil, fmt.Errorf("%w: %q", ErrHash, clip(f.Path))
		}
	}
	return p, p.validate()
}

// All yields each file with its content, in the order of the manifest. The content aliases the pack
// and must not be changed; its capacity is limited, so that append copies it.
func (p *Pack) All(yield func(File, []byte) bool) {
	rest := p.content
	for _, f := range p.Files {
		data := rest[:f.Size:f.Size]
		rest = rest[f.Size:]
		if !yield(f, data) {
			return
		}
	}
}

// validate returns ErrSkill if a registry would refuse the SKILL.md, with the reasons. Such a skill
// is neither sent nor stored, because no node could use it.
func (p *Pack) validate() error {
	m, diags := p.Parse()
	if format.Failed(diags) || m.Name != p.Name {
		var texts []string
		for _, d := range diags {
			if d.Severity == format.Error {
				texts = append(texts, clip(d.Message))
			}
		}
		return fmt.Errorf("%w: %s: %s", ErrSkill, p.Name, strings.Join(texts, "; "))
	}
	return nil
}

// Parse reads the SKILL.md at the default level. Without a SKILL.md it returns an empty manifest,
// which New and Read refuse by its name.
func (p *Pack) Parse() (format.Manifest, []format.Diagnostic) {
	for f, data := range p.All {
		// The parser gets a copy: the pack must stay as it was hashed.
		if f.Path == walk.FileName {
			m, _, diags := format.Parse(bytes.Clone(data), p.Name, format.Policy{})
			return m, diags
		}
	}
	return format.Manifest{}, nil
}

// Description returns the description in the SKILL.md. It parses the file at each call.
func (p *Pack) Description() string {
	m, _ := p.Parse()
	return m.Description
}

// Write creates the skill's directory, called Name, below root. perm limits the permissions: 0o500
// makes a skill that must stay as it was checked, 0o755 one that its user may edit. Each file is
// synced to disk. After an error a part of it may exist, which the caller deletes.
func (p *Pack) Write(root *os.Root, perm fs.FileMode) error {
	// made are the directories to protect at the end; a protected one could not get its files.
	made := []string{p.Name}
	if err := root.Mkdir(p.Name, 0o700); err != nil {
		return err
	}
	for f, data := range p.All {
		path := filepath.Join(p.Name, filepath.FromSlash(f.Path))
		if dir := filepath.Dir(path); !slices.Contains(made, dir) {
			if err := root.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			for ; dir != p.Name && !slices.Contains(made, dir); dir = filepath.Dir(dir) {
				made = append(made, dir)
			}
		}
		mode := fs.FileMode(0o666)
		if f.Exec {
			mode = 0o777
		}
		// O_EXCL: two paths of the manifest that are one file on this system are an error.
		out, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode&perm)
		if err != nil {
			return err
		}
		_, err = out.Write(data)
		if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
			return err
		}
	}
	for _, dir := range made {
		if err := root.Chmod(dir, 0o777&perm); err != nil {
			return err
		}
	}
	return nil
}

// sum returns the SHA-256 of data in hex.
func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
