package workspace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"symbio/internal/agent/content"
)

var (
	// ErrRefused means that a manifest or patch has what no honest node sends. The error names the path and says why.
	ErrRefused = errors.New("the files of a workspace are refused")
	// ErrTooLarge means that a limit is exceeded. The error says which one, by what, and what to do.
	ErrTooLarge = content.ErrTooLarge
	// ErrChanged means that a file has changed since it was read first. The caller may begin anew.
	ErrChanged = errors.New("it has changed meanwhile")
)

// Kind is what a path is. "" is no kind: it is refused.
type Kind string

// The kinds. Other mode bits than the executable one do not travel. Deleted is only in patches: the file of the base is gone.
const Regular, Executable, Link, Deleted Kind = "file", "executable", "link", "deleted"

// hasContent reports whether a file of this kind has a size and a hash.
func (k Kind) hasContent() bool { return k == Regular || k == Executable }

// File is one path of a manifest or patch. It is comparable: equal Files are the same file.
type File struct {
	// Path is relative to the top, with slashes.
	Path string `json:"p"`
	Kind Kind   `json:"k"`
	// Size and Hash describe the content; zero for links and deletions.
	Size int64        `json:"s,omitzero"`
	Hash content.Hash `json:"h,omitzero"`
	// Link is the target of a link, relative to the directory of Path. It names a file or directory of the same manifest.
	Link string `json:"l,omitzero"`
}

// Manifest are the files of a directory, sorted by path.
type Manifest struct {
	// Commit is the commit that the files are based on, for people; "" = not a git repository.
	Commit string `json:"commit"`
	Files  []File `json:"-"`
}

// Patch is what has changed since the manifest that Base names, sorted by path.
type Patch struct {
	Base content.Hash `json:"base"`
	// Changes are files as they are now: new, changed, or Deleted.
	Changes []File `json:"-"`
}

// Limits bound a workspace. Zero is the default.
type Limits struct {
	// Files is how many files there may be. Default 20,000.
	Files int
	// Size bounds all contents, FileSize each of them, in bytes. Default 1 GiB and 256 MiB.
	Size, FileSize int64
}

func (l Limits) withDefaults() Limits {
	return Limits{cmp.Or(l.Files, 20_000), cmp.Or(l.Size, 1<<30), cmp.Or(l.FileSize, 256<<20)}
}

// Hash names the manifest: it is the hash of its encoding.
func (m Manifest) Hash() content.Hash { return content.Sum(m.Encode()) }

// Contents are the hashes of all contents, each once.
func (m Manifest) Contents() []content.Hash { return contents(m.Files) }

// Contents are the hashes of all contents that the patch needs, each once.
func (p Patch) Contents() []content.Hash { return contents(p.Changes) }

func contents(files []File) (all []content.Hash) {
	seen := map[content.Hash]bool{{}: true} // what has no content
	for _, f := range files {
		if !seen[f.Hash] {
			all = append(all, f.Hash)
		}
		seen[f.Hash] = true
	}
	return all
}

// Encode returns the manifest as lines of JSON: itself, and one for each file. Equal manifests have equal encodings.
func (m Manifest) Encode() []byte { return encode(m, m.Files) }

// Encode returns the patch as lines of JSON, as Manifest.Encode.
func (p Patch) Encode() []byte { return encode(p, p.Changes) }

func encode(head any, files []File) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	_ = e.Encode(head) // neither the buffer nor these types make an error
	for _, f := range files {
		_ = e.Encode(f)
	}
	return b.Bytes()
}

// DecodeManifest returns the manifest that another node has encoded, checked against the limits of this one. The error is
// ErrRefused or ErrTooLarge; with it the manifest must not be used. No more files are read than the limit.
func DecodeManifest(data []byte, l Limits) (m Manifest, err error) {
	if err = decode(data, &m, &m.Files, l.withDefaults().Files); err == nil {
		err = m.Check(l)
	}
	return m, err
}

// DecodePatch returns the patch that another node has encoded, checked against the base that this node has sent and the
// limits of this node, as Patch.Check and DecodeManifest.
func DecodePatch(data []byte, base Manifest, l Limits) (p Patch, err error) {
	// A patch may delete all files, and add as many as may be.
	if err = decode(data, &p, &p.Changes, len(base.Files)+l.withDefaults().Files); err == nil {
		err = p.Check(base, l)
	}
	return p, err
}

// decode reads data into a Manifest or Patch and its files. There is one encoding of each, so that its hash names it, and
// nothing is in it that this version would not see.
func decode(data []byte, head interface{ Encode() []byte }, files *[]File, limit int) error {
	d := json.NewDecoder(bytes.NewReader(data))
	err := d.Decode(head)
	for err == nil && d.More() && len(*files) <= limit {
		var f File
		err = d.Decode(&f)
		*files = append(*files, f)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: its form is wrong: %w", ErrRefused, err)
	case len(*files) > limit:
		return fmt.Errorf("%w: more than %d files", ErrTooLarge, limit)
	case !bytes.Equal(data, head.Encode()):
		return fmt.Errorf("%w: its form is wrong, or of another version of symbio", ErrRefused)
	}
	return nil
}

func byPath(files []File) map[string]File {
	all := make(map[string]File, len(files))
	for _, f := range files {
		all[f.Path] = f
	}
	return all
}

func comparePaths(a, b File) int { return strings.Compare(a.Path, b.Path) }
