package workspace

import (
	"context"
	"errors"

	"symbio/agent/content"
)

// Action is what a plan does to a file.
type Action string

// The actions. Same leaves the file as it is, because it is already what the patch makes of it.
const (
	Add    Action = "add"
	Change Action = "change"
	Merge  Action = "merge"
	Delete Action = "delete"
	Same   Action = "same"
)

// Step is what a plan does to one path.
type Step struct {
	Path   string
	Action Action
	// Before is the file on the disk, After what it becomes; a kind of Deleted means that there is none. The content of After is in
	// the store.
	Before, After File
	// Diff is the change as a unified diff, for people; "" if the content is no text or too long.
	Diff string
	// Conflict says why the step cannot be taken; "" = it can.
	Conflict string
}

// Plan is what a patch does to a directory.
type Plan struct {
	// Steps are sorted by path.
	Steps []Step
	// Missing are contents of the base that the store does not have. Their files are conflicts; with them in the store
	// (the lender has them), a new plan can merge them.
	Missing []content.Hash
}

// Plan compares the patch with the files on the disk, three-way by file. It changes nothing but the store, which gets
// merged contents. The patch must have been checked against base, and its contents must be in store.
func (p Patch) Plan(ctx context.Context, base Manifest, dir string, store *content.Store) (*Plan, error) {
	return nil, errors.ErrUnsupported
}

// Conflicts are the steps that cannot be taken.
func (p *Plan) Conflicts() (all []Step) { return nil }

// Apply does what the plan says, all or nothing. With conflicts it does nothing, unless partial is true: then it takes
// the other steps. A file that is not what it was when the plan was made is ErrChanged.
func (p *Plan) Apply(ctx context.Context, partial bool) error { return errors.ErrUnsupported }
