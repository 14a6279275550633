package session

import (
	"context"
	"slices"
	"time"
)

// Prune implements Store.Prune with the other methods of a store. size returns the bytes that its
// sessions take.
func Prune(ctx context.Context, s Store, size func(context.Context) (int64, error), before time.Time, maxBytes int64, except []string) (deleted int, err error) {
	all, err := s.Sessions(ctx, Filter{})
	if err != nil {
		return 0, err
	}
	var roots []string // the latest first, as all is
	trees := map[string][]Info{}
	for _, i := range all {
		if trees[i.Root] == nil {
			roots = append(roots, i.Root)
		}
		trees[i.Root] = append(trees[i.Root], i)
	}
	for _, root := range slices.Backward(roots) {
		tree := trees[root]
		if slices.ContainsFunc(tree, func(i Info) bool { return i.isUnfinished() || slices.Contains(except, i.ID) }) {
			continue
		}
		if !tree[0].Updated.Before(before) { // too new for its age: only the size can be a reason
			if bytes, err := size(ctx); err != nil || maxBytes <= 0 || bytes <= maxBytes {
				return deleted, err
			}
		}
		var ids []string
		for _, i := range tree {
			ids = append(ids, i.ID)
		}
		if err := s.Delete(ctx, ids...); err != nil {
			return deleted, err
		}
		deleted += len(ids)
	}
	return deleted, nil
}

// isUnfinished reports whether a session can go on without a new task. A sub-agent goes on with the
// root of its tree only.
func (i Info) isUnfinished() bool {
	return i.Keep || i.State == Working || i.Open && i.Parent == "" && i.State != Lost
}
