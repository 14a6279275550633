package workspace

import (
	"context"
	"fmt"
	"os"
	"slices"

	"symbio/agent/content"
)

// Diff returns what has changed in dir since base, and puts the contents that changed into store; the caller pins
// Patch.Contents. New files that .gitignore files exclude do not count, those of base always do. Changes that do not travel,
// as for Take, are named; a file of base with such a change is in the patch neither changed nor deleted. No git is run:
// whoever worked in dir may have written its configuration.
func Diff(ctx context.Context, base Manifest, dir string, store *content.Store, l Limits) (Patch, []Omission, error) {
	p, omitted, err := diff(ctx, base, dir, store, l)
	if err != nil {
		return Patch{}, nil, fmt.Errorf("find what changed in the workspace %s: %w", dir, err)
	}
	return p, omitted, nil
}

func diff(ctx context.Context, base Manifest, dir string, store *content.Store, l Limits) (Patch, []Omission, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Patch{}, nil, err
	}
	defer root.Close()
	s := newScanner(root, Options{Limits: l})
	// Those of base come first: of names that collide it is the new one that does not travel.
	for _, f := range base.Files {
		s.add(f.Path)
	}
	paths, err := walk(ctx, root)
	for _, path := range paths {
		s.add(path)
	}
	var now []File
	if err == nil {
		now, err = s.finish(ctx)
	}
	p := Patch{Base: base.Hash(), Changes: changes(base.Files, now, s.omitted)}
	for _, c := range p.Changes {
		if err == nil && c.Kind.hasContent() {
			err = put(root, c, store)
		}
	}
	return p, s.omissions(), err
}

// changes compares two lists of files. Files that are in omitted have not changed. But a link that is there leads to nothing
// that travels any more, and could not be made: it counts as deleted.
func changes(before, now []File, omitted map[string]string) (all []File) {
	had, has := byPath(before), byPath(now)
	for _, f := range now {
		if f != had[f.Path] {
			all = append(all, f)
		}
	}
	for _, f := range before {
		if _, ok := has[f.Path]; !ok && (omitted[f.Path] == "" || f.Kind == Link) {
			all = append(all, File{Path: f.Path, Kind: Deleted})
		}
	}
	slices.SortFunc(all, comparePaths)
	return all
}

func put(root *os.Root, f File, store *content.Store) error {
	file, err := openRegular(root, f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := store.PutAs(f.Hash, file, f.Size); err != nil {
		return fmt.Errorf("%s: %w: %w", f.Path, ErrChanged, err)
	}
	return nil
}
