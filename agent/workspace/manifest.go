package workspace

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"symbio/agent/content"
)

var (
	// ErrRefused means that a manifest or patch has what no honest node sends. The error names the path and says why.
	ErrRefused = errors.New("it is refused")
	// ErrTooLarge means that a limit is exceeded. The error says which one, by what, and what to do.
	ErrTooLarge = content.ErrTooLarge
	// ErrChanged means that a file is not what it was when it was read first. The caller may begin anew.
	ErrChanged = errors.New("it has changed meanwhile")
)

// Kind is what a path is. Zero is no kind: it is refused.
type Kind uint8

// The kinds. Other mode bits than the executable one do not travel.
const (
	Regular Kind = iota + 1
	Executable
	Link
	// Deleted is only in patches: the file of the base is gone.
	Deleted
)

func (k Kind) String() string {
	return [...]string{"unknown", "file", "executable file", "link", "deleted"}[min(k, Deleted+1)%(Deleted+1)]
}

// hasContent reports whether a file of this kind has a size and a hash.
func (k Kind) hasContent() bool { return k == Regular || k == Executable }

// File is one path of a manifest or patch. It is comparable: equal Files are the same file.
type File struct {
	// Path is relative to the top, with slashes.
	Path string
	Kind Kind
	// Size and Hash are those of the content; zero for links and deletions.
	Size int64
	Hash content.Hash
	// Link is the target of a link, relative to the directory of Path. It names a file or directory of the same manifest.
	Link string
}

// Manifest are the files of a directory, sorted by path.
type Manifest struct {
	// Commit is the commit that the files are based on, for people; "" = not a git repository.
	Commit string
	Files  []File
}

// Hash names the manifest: it is that of its encoding.
func (m Manifest) Hash() content.Hash { return content.Sum(m.Encode()) }

// Contents are the hashes of all contents, sorted, each once.
func (m Manifest) Contents() []content.Hash { return contents(m.Files) }

// Patch is what has changed since the manifest that Base names, sorted by path.
type Patch struct {
	Base content.Hash
	// Changes are files as they are now: new, changed, or Deleted.
	Changes []File
}

// Contents are the hashes of all contents that the patch needs, sorted, each once.
func (p Patch) Contents() []content.Hash { return contents(p.Changes) }

// over returns the files of base with the changes made.
func (p Patch) over(base Manifest) []File {
	all := byPath(base.Files)
	for _, c := range p.Changes {
		if all[c.Path] = c; c.Kind == Deleted {
			delete(all, c.Path)
		}
	}
	return slices.SortedFunc(maps.Values(all), comparePaths)
}

// Limits bound a workspace. Zero is the default.
type Limits struct {
	// Files is how many files there may be. Default 20,000.
	Files int
	// Size is that of all contents, FileSize that of each, in bytes. Default 1 GiB and 256 MiB.
	Size, FileSize int64
}

func (l Limits) withDefaults() Limits {
	return Limits{cmp.Or(l.Files, 20_000), cmp.Or(l.Size, 1<<30), cmp.Or(l.FileSize, 256<<20)}
}

func byPath(files []File) map[string]File {
	all := make(map[string]File, len(files))
	for _, f := range files {
		all[f.Path] = f
	}
	return all
}

func comparePaths(a, b File) int { return strings.Compare(a.Path, b.Path) }

func contents(files []File) (all []content.Hash) {
	for _, f := range files {
		if f.Kind.hasContent() {
			all = append(all, f.Hash)
		}
	}
	slices.SortFunc(all, func(a, b content.Hash) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(all)
}
