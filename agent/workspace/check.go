package workspace

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"symbio/security/filename"
	"symbio/security/visible"
)

const (
	// maxPath and maxName are in bytes: the shortest that common systems have, with room for the directory above.
	maxPath, maxName = 1024, 255
	// maxDepth is how many names a path may have.
	maxDepth = 64
	// maxQuoted is how much of another node's text an error has, in bytes.
	maxQuoted = 120
)

// commitID is a full commit, in SHA-1 or SHA-256.
var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Check returns ErrRefused or ErrTooLarge unless a directory can have these files on every system, and be made without
// leaving it: see checkPath for the paths, and checkLink for links.
func (m Manifest) Check(l Limits) error {
	if m.Commit != "" && !commitID.MatchString(m.Commit) {
		return fmt.Errorf("check a workspace's manifest: %w: its commit is none", ErrRefused)
	}
	if err := checkFiles(m.Files, l.withDefaults()); err != nil {
		return fmt.Errorf("check a workspace's manifest: %w", err)
	}
	return nil
}

// Check returns ErrRefused or ErrTooLarge unless the patch is one of base, deletes only files of it, adds none that looks
// like a secret, and makes of it a manifest that passes Manifest.Check. So a change below a link, or a name that
// collides with one of the base, is refused.
func (p Patch) Check(base Manifest, l Limits) error {
	if err := p.check(base); err != nil {
		return fmt.Errorf("check a workspace's patch: %w", err)
	}
	if err := checkFiles(p.over(base), l.withDefaults()); err != nil {
		return fmt.Errorf("check a workspace's patch: %w", err)
	}
	return nil
}

func (p Patch) check(base Manifest) error {
	if p.Base != base.Hash() {
		return fmt.Errorf("%w: it is a patch of other files than were sent", ErrRefused)
	}
	before := byPath(base.Files)
	for i, c := range p.Changes {
		why := ""
		_, had := before[c.Path]
		switch {
		case i > 0 && c.Path <= p.Changes[i-1].Path:
			why = "it is twice there or out of order"
		case c.Kind == Deleted && (!had || c != File{Path: c.Path, Kind: Deleted}):
			why = "it deletes what was not sent"
		case !had && secretName(c.Path) != "":
			why = "it looks like a secret: " + secretName(c.Path)
		}
		if why != "" {
			return refuse(c.Path, why)
		}
	}
	return nil
}

func refuse(path, why string) error {
	return fmt.Errorf("%w: %s: %s", ErrRefused, visible.Escape(fmt.Sprintf("%q", visible.Truncate(path, maxQuoted))), why)
}

func checkFiles(files []File, l Limits) error {
	if len(files) > l.Files {
		return fmt.Errorf("%w: %d files, at most %d are taken", ErrTooLarge, len(files), l.Files)
	}
	var names filename.Set
	total := int64(0)
	for i, f := range files {
		if why := checkFile(f); why != "" {
			return refuse(f.Path, why)
		}
		if i > 0 && f.Path <= files[i-1].Path {
			return refuse(f.Path, "it is twice there or out of order")
		}
		if other := names.Add(f.Path); other != "" {
			return refuse(f.Path, fmt.Sprintf("on some system it is the same as %q, or one is a directory and the other a file", visible.Truncate(other, maxQuoted)))
		}
		// In this order the sum cannot overflow: neither number is over its limit.
		if f.Size > l.FileSize || f.Size > l.Size-total {
			return fmt.Errorf("%w: with %q there are more than %d bytes, or more than %d in one file", ErrTooLarge, visible.Truncate(f.Path, maxQuoted), l.Size, l.FileSize)
		}
		total += f.Size
	}
	for _, f := range files {
		if why := checkLink(files, f); why != "" {
			return refuse(f.Path, why)
		}
	}
	return nil
}

// checkFile returns what is wrong with one file; "" = nothing that can be seen without the others.
func checkFile(f File) string {
	bare := File{Path: f.Path, Kind: f.Kind}
	switch f.Kind {
	case Regular, Executable:
		bare.Size, bare.Hash = max(f.Size, 0), f.Hash
	case Link:
		bare.Link = f.Link
	default:
		return "its kind cannot travel"
	}
	if f != bare {
		return fmt.Sprintf("what it says of a %v cannot be", f.Kind)
	}
	return checkPath(f.Path)
}

// checkPath returns what is wrong with a path; "" = it names the same file below the directory on every system, and none
// of a repository's own.
func checkPath(p string) string {
	switch {
	case p == "" || len(p) > maxPath:
		return fmt.Sprintf("a path has 1 to %d bytes", maxPath)
	case p[0] == '/':
		return "it is absolute"
	case !utf8.ValidString(p):
		return "it is not UTF-8"
	}
	names := strings.Split(p, "/")
	if len(names) > maxDepth {
		return fmt.Sprintf("it is more than %d names deep", maxDepth)
	}
	for _, name := range names {
		if why := filename.Check(name); why != "" {
			return why
		}
		if len(name) > maxName {
			return fmt.Sprintf("a name in it has more than %d bytes", maxName)
		}
		// Windows has short names such as git~1. What macOS takes for .git has characters that cannot be seen, or another
		// form of Unicode.
		if folded := filename.Fold(name); folded == ".git" || strings.HasPrefix(folded, "git~") {
			return "it is git's own"
		}
	}
	return ""
}

// checkLink returns what is wrong with a link; "" = it is none, or names a file or directory of the sorted files that is
// reached through no other link. The target must be written in its shortest form: of a/../b the system goes where a
// leads.
func checkLink(files []File, f File) string {
	if f.Kind != Link {
		return ""
	}
	target := path.Join(path.Dir(f.Path), f.Link)
	kind, isDir := find(files, target)
	switch {
	case f.Link == "" || f.Link != path.Clean(f.Link) || path.IsAbs(f.Link):
		return "its target is not a plain relative path"
	case kind == Link:
		return "its target is a link"
	case isDir && strings.HasPrefix(f.Path, target+"/"):
		return "its target is a directory that it is in"
	case kind == 0 && !isDir:
		return "its target does not travel, or is outside of the directory"
	}
	return ""
}

// find returns the kind of the file at a path, or whether it is a directory of the sorted files.
func find(files []File, p string) (kind Kind, isDir bool) {
	if i, found := slices.BinarySearchFunc(files, File{Path: p}, comparePaths); found {
		return files[i].Kind, false
	}
	i, _ := slices.BinarySearchFunc(files, File{Path: p + "/"}, comparePaths)
	return 0, i < len(files) && strings.HasPrefix(files[i].Path, p+"/")
}
