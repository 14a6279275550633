package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Clean returns the form of an absolute path that patterns are compared with: clean, with slashes, and "" for the root,
// so that a parent and "/" and a name always join to a path.
func Clean(path string) string {
	return strings.TrimSuffix(filepath.ToSlash(filepath.Clean(path)), "/")
}

// Below reports whether path is dir or lies below it, and returns the part after dir; "" if they are the same. Both are
// in the form of Clean. A common beginning is not enough: /ab is not below /a.
func Below(dir, path string) (rel string, ok bool) {
	rest, ok := strings.CutPrefix(path, dir)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

// Location is the place that a path leads to, under its two names, in the form of Clean. The zero Location is a path
// that cannot be used, such as one with a zero byte; no pattern allows it.
type Location struct {
	// Lexical is the path as written, made absolute and clean.
	Lexical string
	// Real is the path with every link followed; "" unless Known.
	Real string
	// Known is false if a link could not be read or links go round in circles. A missing file is
	// Known.
	Known bool
}

// Links follows symbolic links and remembers its results, so that one decision sees one state of the file system and
// reads each name once. The zero value is ready. A Links is for one decision and one goroutine.
type Links struct {
	// names has what was read so far, by path.
	names map[string]link
}

// link is what Lstat and Readlink returned for one name. err is the error of the call that failed.
type link struct {
	target string
	isLink bool
	err    error
}

// read returns what a name is, from memory after the first time. Errors are remembered, too.
func (l *Links) read(name string) link {
	found, ok := l.names[name]
	if ok {
		return found
	}
	info, err := os.Lstat(name)
	found.err = err
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		found.isLink = true
		found.target, found.err = os.Readlink(name)
	}
	if l.names == nil {
		l.names = map[string]link{}
	}
	l.names[name] = found
	return found
}

// Locate returns the Location of a path. A relative path is below dir. The path is cleaned before links are followed, as
// file tools do; a shell does not, see Resolve.
func (l *Links) Locate(path, dir string) Location {
	if path == "" || strings.ContainsRune(path, 0) {
		return Location{}
	}
	if !filepath.IsAbs(path) {
		if !filepath.IsAbs(dir) {
			return Location{}
		}
		path = filepath.Join(dir, path)
	}
	return l.LocateRaw(filepath.Clean(path))
}

// LocateRaw returns the Location of an absolute path without cleaning it first, as the kernel goes there: with a/link/..
// the kernel leaves the directory that the link leads to, not a.
func (l *Links) LocateRaw(path string) Location {
	at := Location{Lexical: Clean(path)}
	if real, err := l.Resolve(path); err == nil {
		at.Real, at.Known = Clean(real), true
	}
	return at
}

// Follow returns dir, in the form of Clean, with its links followed; ok is false when a link cannot be read.
func (l *Links) Follow(dir string) (real string, ok bool) {
	real, err := l.Resolve(filepath.FromSlash(dir + "/"))
	return Clean(real), err == nil
}

// maxLinks is the number of links that Linux follows in one path; beyond it Resolve returns
// ELOOP, too. Without it a link to itself would never end.
const maxLinks = 40

// Resolve follows every link of an absolute path. Unlike filepath.EvalSymlinks it accepts paths that do not exist, such
// as a file to be written or a dangling link: from the first missing name on, the rest is taken as written. It returns an
// error when a name cannot be read for another reason, and for a loop of links.
func (l *Links) Resolve(path string) (string, error) {
	volume := filepath.VolumeName(path)
	done := volume + string(filepath.Separator)
	todo := strings.TrimPrefix(path[len(volume):], string(filepath.Separator))
	for links := 0; todo != ""; {
		var name string
		name, todo, _ = strings.Cut(todo, string(filepath.Separator))
		if name == "" || name == "." {
			continue
		}
		if name == ".." {
			done = filepath.Dir(done)
			continue
		}
		next := done + string(filepath.Separator) + name
		if strings.HasSuffix(done, string(filepath.Separator)) {
			next = done + name
		}
		found := l.read(next)
		if errors.Is(found.err, fs.ErrNotExist) || errors.Is(found.err, syscall.ENOTDIR) {
			// Nothing below a missing name can be a link. Join cleans the rest, which may have .. from a link's target.
			return filepath.Join(next, todo), nil
		}
		if found.err != nil {
			return "", found.err
		}
		if !found.isLink {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		// The target takes the place of the link: it is relative to the link's directory, or starts at the root.
		target := found.target
		if filepath.IsAbs(target) {
			done = filepath.VolumeName(target) + string(filepath.Separator)
			target = strings.TrimPrefix(target[len(filepath.VolumeName(target)):], string(filepath.Separator))
		}
		todo = target + string(filepath.Separator) + todo
	}
	return done, nil
}
