package install

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/security/visible"
	"symbio/internal/skills/share"
	"symbio/internal/skills/walk"
	"symbio/skills/format"
)

const (
	// maxEntries limits the files and directories of a source.
	maxEntries = 20_000
	// maxUnpacked limits the content of a source in memory, in bytes, and of an archive itself.
	maxUnpacked = 64 << 20
	// maxRatio is how many times larger than an archive its content may be, over ratioFrom bytes.
	// Text shrinks to a tenth at best, a bomb to a thousandth.
	maxRatio  = 100
	ratioFrom = 4 << 20
)

var (
	// ErrRefused means that a source as a whole is too large, damaged, or made to do harm.
	ErrRefused = errors.New("the source is refused")
	// ErrNoSkill means that a source does not have a skill.
	ErrNoSkill = errors.New("no such skill in the source")
	// ErrChoice means that a source has several skills and the caller did not say which to take.
	ErrChoice = errors.New("the source has several skills")
)

// unpacker collects the files of an archive in memory and counts what comes out.
type unpacker struct {
	// packed is the size of the archive, total the size of the content so far.
	packed, total int64
	// count counts all entries, directories included.
	count int
	files []entry
}

// entry is a file of a source that was not checked yet. Its data is cut after share.MaxFile+1 bytes.
type entry struct {
	path string
	mode fs.FileMode
	data []byte
}

// add reads one entry. A name that leaves the archive refuses all of it: no honest program writes
// one.
func (u *unpacker) add(name string, mode fs.FileMode, r io.Reader) error {
	clean := strings.TrimPrefix(strings.TrimSuffix(name, "/"), "./")
	switch u.count++; {
	case u.count > maxEntries:
		return fmt.Errorf("%w: it has more than %d entries", ErrRefused, maxEntries)
	case clean == "." || clean == "":
		return nil
	case strings.ContainsRune(name, '\\') || !fs.ValidPath(clean) || len(name) > 1 && name[1] == ':':
		return fmt.Errorf("%w: %q is not a path inside of it", ErrRefused, visible.Truncate(name, 80))
	case mode.IsDir():
		return nil
	}
	data, err := u.read(r)
	u.files = append(u.files, entry{clean, mode, data})
	if err != nil {
		return fmt.Errorf("%w: %q cannot be read: %w", ErrRefused, visible.Truncate(name, 80), err)
	}
	return nil
}

// read returns the content of an entry. Of a file that is too large for a skill, what is beyond
// share.MaxFile+1 bytes is only counted.
func (u *unpacker) read(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, share.MaxFile+1))
	for n := int64(len(data)); err == nil && n > 0; n, err = io.CopyN(io.Discard, r, share.MaxFile) {
		if u.total += n; u.total > maxUnpacked || u.total > ratioFrom && u.total > maxRatio*u.packed {
			return nil, fmt.Errorf("the source unpacks to more than %d MiB, or %d times its size, as bombs do", maxUnpacked>>20, maxRatio)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data, err
}

// zip reads a zip archive.
func (u *unpacker) zip(f io.ReaderAt) error {
	z, err := zip.NewReader(f, u.packed)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	for _, one := range z.File {
		r, err := one.Open()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		if err := errors.Join(u.add(one.Name, one.Mode(), r), r.Close()); err != nil {
			return err
		}
	}
	return nil
}

// tar reads a tar archive.
func (u *unpacker) tar(r io.Reader) error {
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		mode := h.FileInfo().Mode()
		switch h.Typeflag {
		case tar.TypeXGlobalHeader:
			continue // archives of git begin with one; it has no file
		case tar.TypeLink:
			mode |= fs.ModeSymlink // a hard link looks like a file
		}
		if err := u.add(h.Name, mode, t); err != nil {
			return err
		}
	}
}

// archiveEntries returns the files of an archive. Nothing is written to the disk. A single directory
// around all of it, as archives of a repository have, is left out.
func archiveEntries(file string) ([]entry, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxUnpacked {
		return nil, errors.Join(fmt.Errorf("%w: it is not a file of at most %d MiB", ErrRefused, maxUnpacked>>20), err)
	}
	u := unpacker{packed: info.Size()}
	if strings.HasSuffix(file, ".zip") {
		err = u.zip(f)
	} else if plain, gzipErr := gzip.NewReader(f); gzipErr == nil {
		err = u.tar(plain)
	} else {
		err = fmt.Errorf("%w: it is not a folder, a .zip or a .tar.gz: %w", ErrRefused, gzipErr)
	}
	if err != nil {
		return nil, err
	}
	top, _, _ := strings.Cut(append(u.files, entry{})[0].path, "/")
	if !slices.ContainsFunc(u.files, func(e entry) bool { return !strings.HasPrefix(e.path, top+"/") }) {
		for i := range u.files {
			u.files[i].path = u.files[i].path[len(top)+1:]
		}
	}
	return u.files, nil
}

// folderEntries returns the files called SKILL.md of a folder, up to three levels down. No link is
// followed out of it.
func folderEntries(dir string) (files []entry, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, pattern := range []string{"", "*/", "*/*/", "*/*/*/"} {
		found, err := fs.Glob(root.FS(), pattern+walk.FileName)
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			files = append(files, entry{path: file})
		}
	}
	return files, nil
}

// tree is the content of a source below its path, at one moment.
type tree struct {
	// repo is nil outside of git.
	repo *repo
	// skills are the directories that have a SKILL.md; "." is the source itself.
	skills []string
	// pack reads and checks the skill in one of these directories.
	pack func(dir string) (*share.Pack, error)
}

// readTree reads a source. r is its repository, nil outside of git.
func readTree(ctx context.Context, s Source, r *repo) (t tree, err error) {
	var files []entry
	t = tree{repo: r, pack: func(dir string) (*share.Pack, error) { return packOf(files, dir) }}
	info, statErr := os.Stat(s.Location)
	switch {
	case r != nil:
		files, err = r.entries(ctx, s.Path)
	case statErr != nil:
		err = fmt.Errorf("%w (a repository has its whole URL: https://HOST/PATH)", statErr)
	case info.IsDir():
		files, err = folderEntries(s.Location)
		t.pack = func(dir string) (*share.Pack, error) {
			return share.Read(filepath.Join(s.Location, filepath.FromSlash(dir)))
		}
	default:
		files, err = archiveEntries(s.Location)
	}
	if err != nil {
		return t, fmt.Errorf("read %s: %w", s, err)
	}
	t.skills = skillDirs(files, s.Path)
	return t, nil
}

// skillDirs returns the directories in dir that have a SKILL.md; "" is all, "." only the source
// itself. A skill inside of a skill is a part of that.
func skillDirs(files []entry, dir string) (skills []string) {
	var all []string
	for _, f := range files {
		if at, name := path.Split(f.path); name == walk.FileName && (dir == "" || dir == "." && at == "" || strings.HasPrefix(at, dir+"/")) {
			all = append(all, at)
		}
	}
	// With the slash at its end, a directory sorts directly before those inside of it.
	slices.Sort(all)
	outer := "/"
	for _, at := range all {
		if !strings.HasPrefix(at, outer) {
			outer, skills = at, append(skills, path.Clean(at))
		}
	}
	return skills
}

// packOf makes the pack of the skill in dir. Names that begin with a dot are left out, as share.Read
// does. A skill that is the whole source has the name that its SKILL.md says.
func packOf(files []entry, dir string) (*share.Pack, error) {
	name, contents, exec := path.Base(dir), map[string][]byte{}, map[string]bool{}
	for _, f := range files {
		rel, inside := strings.CutPrefix(f.path, strings.TrimPrefix(dir+"/", "./"))
		if !inside || strings.HasPrefix(rel, ".") || strings.Contains(rel, "/.") {
			continue
		}
		if _, twice := contents[rel]; twice || f.mode&^0o777 != 0 {
			return nil, fmt.Errorf("%w: %q is there twice, or is a link, a device, a submodule or a file with special rights: %v", share.ErrKind, visible.Truncate(rel, 80), f.mode)
		}
		contents[rel], exec[rel] = f.data, f.mode&0o111 != 0
		if dir == "." && rel == walk.FileName {
			m, _, _ := format.Parse(bytes.Clone(f.data), "", format.Policy{})
			name = m.Name
		}
	}
	return share.New(name, contents, exec)
}

// choose returns the directories of the named skills, or of all. Without names there must be a
// single one, else the error is ErrChoice and names them. ErrNoSkill: one is not there, or twice.
func (t *tree) choose(names []string, all bool) (dirs []string, err error) {
	known := []string{}
	for _, dir := range t.skills {
		known = append(known, path.Base(dir))
	}
	switch {
	case len(known) == 0:
		return nil, fmt.Errorf("%w: there is no %s", ErrNoSkill, walk.FileName)
	case all || len(known) == 1 && len(names) == 0:
		return t.skills, nil
	case len(names) == 0:
		return nil, fmt.Errorf("%w: there are %d, name some with --skill NAME, or say --all: %s", ErrChoice, len(known), visible.Line(strings.Join(known, " "), 2000))
	}
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 || slices.Contains(known[i+1:], name) {
			return nil, fmt.Errorf("%w: %q is not there, or twice: then name its path%s", ErrNoSkill, visible.Truncate(name, 64), visible.Suggest(name, known))
		}
		dirs = append(dirs, t.skills[i])
	}
	return dirs, nil
}
