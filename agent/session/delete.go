package session

import (
	"context"
	"errors"
	"fmt"
)

// ErrUnfinished is wrapped by the error of DeleteTree about a session that can go on.
var ErrUnfinished = errors.New("its task is unfinished, or its agent is kept")

// DeleteTree deletes a session, and with a session that has no parent the sessions of its sub-agents. The
// error wraps ErrInUse while an agent works in it, and ErrUnfinished, unless force is set, if it
// can go on.
func DeleteTree(ctx context.Context, s Store, i Info, force bool) error {
	switch {
	case i.State == Working:
		return fmt.Errorf("delete session %s: %w on node %s; wait for the end of its task", i.ID, ErrInUse, i.Node)
	case (i.CanGoOn() || i.Keep) && !force:
		return fmt.Errorf("delete session %s: %w", i.ID, ErrUnfinished)
	}
	below, err := s.Sessions(ctx, Filter{Root: i.ID}) // none if it has a parent
	if err != nil {
		return err
	}
	ids := []string{i.ID}
	for _, t := range below {
		if t.ID != i.ID {
			ids = append(ids, t.ID)
		}
	}
	return s.Delete(ctx, ids...)
}
