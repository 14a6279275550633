package workspace

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"symbio/agent/content"
)

// maxText is how long a text may be that is compared or merged by lines, in bytes.
const maxText = 1 << 20

// merge sets what becomes of a file that has changed here and in the patch: both changes if both are of text and of different lines,
// else it sets Conflict.
func (p *planner) merge(s *Step, base File) error {
	ours, theirs := s.Before, s.After
	switch {
	case ours.Kind == Deleted:
		s.Conflict = "it was deleted here, and changed in the patch"
	case theirs.Kind == Deleted:
		s.Conflict = "it was changed here, and deleted in the patch"
	case base.Kind == Deleted:
		s.Conflict = "it is new here and in the patch, with different contents"
	case !base.Kind.hasContent() || !ours.Kind.hasContent() || !theirs.Kind.hasContent():
		s.Conflict = "it was changed here and in the patch, and is or was a link"
	}
	if s.Conflict != "" {
		return nil
	}
	store := p.plan.store
	textBase, errBase := p.read(base, func() (*os.File, error) { return store.Open(base.Hash) })
	textOurs, errOurs := p.read(ours, func() (*os.File, error) { return openRegular(p.root, ours.Path) })
	textTheirs, errTheirs := p.read(theirs, func() (*os.File, error) { return store.Open(theirs.Hash) })
	err := errors.Join(errBase, errOurs, errTheirs)
	switch {
	case errors.Is(err, errLarge):
		s.Conflict = "it was changed here and in the patch, and is too long to merge"
		return nil
	case errors.Is(errBase, fs.ErrNotExist):
		p.plan.Missing = append(p.plan.Missing, base.Hash)
		s.Conflict = "it was changed here and in the patch, and what was sent is no more kept: it cannot be merged"
		return nil
	case err != nil:
		return err
	}
	merged, ok := mergeText(textBase, textOurs, textTheirs)
	if !ok {
		s.Conflict = "the same lines were changed here and in the patch, or it is no text"
		return nil
	}
	s.After = File{Path: s.Path, Kind: theirs.Kind, Size: int64(len(merged)), Hash: content.Sum(merged)}
	if ours.Kind != base.Kind {
		s.After.Kind = ours.Kind
	}
	return store.PutAs(s.After.Hash, bytes.NewReader(merged), s.After.Size)
}

// mergeText makes the changes from base to ours and to theirs both, if they are of lines that are neither the same nor next to each other.
// That is as strict as git; a change that both made counts once.
func mergeText(base, ours, theirs []byte) ([]byte, bool) {
	for _, text := range [][]byte{base, ours, theirs} {
		if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
			return nil, false
		}
	}
	x, y := udiff.Lines(string(base), string(ours)), udiff.Lines(string(base), string(theirs))
	if touch(x, y) {
		return nil, false
	}
	both, ok := udiff.Merge(x, y)
	if !ok {
		return nil, false
	}
	merged, err := udiff.ApplyBytes(base, both)
	return merged, err == nil
}

// touch reports whether two sorted lists of edits have different ones of the same place.
func touch(x, y []udiff.Edit) bool {
	for len(x) > 0 && len(y) > 0 {
		switch {
		case x[0] == y[0]:
			x, y = x[1:], y[1:]
		case x[0].End < y[0].Start:
			x = x[1:]
		case y[0].End < x[0].Start:
			y = y[1:]
		default:
			return true
		}
	}
	return false
}
