package workspace

import (
	"context"
	"errors"

	"symbio/agent/content"
)

// Make writes the files of a checked manifest into dir, which must exist and be empty. If the manifest is of a
// repository and git is installed, dir becomes one with a single commit.
func Make(ctx context.Context, m Manifest, store *content.Store, dir string) error {
	return errors.ErrUnsupported
}

// Diff returns what has changed in dir since base, puts the contents that changed into store, and says which changes
// do not travel.
func Diff(ctx context.Context, base Manifest, dir string, store *content.Store, l Limits) (Patch, []Omission, error) {
	return Patch{}, nil, errors.ErrUnsupported
}
