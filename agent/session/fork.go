package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"symbio/agent/budget"
)

// Fork begins a new session with the first exchanges of another one, and returns its description.
// turn is the number of the last exchange that it takes over, counted from 1; 0 = the last one that
// has ended. The error says so if that exchange is missing or has not ended. The new session has no
// parent and no agent. Edits are left out, because they are undone in the session that made them.
func Fork(ctx context.Context, s Store, i Info, turn int) (Info, error) {
	entries, err := s.Entries(ctx, i.ID, 0)
	if err != nil {
		return Info{}, err
	}
	all := Exchanges(entries)
	hasEnded := func(n int) bool {
		return slices.ContainsFunc(all[n-1], func(e Entry) bool { return e.Kind == End })
	}
	last := turn
	if turn == 0 {
		for last = len(all); last > 1 && !hasEnded(last); last-- {
		}
	}
	if last < 1 || last > len(all) || !hasEnded(last) {
		return Info{}, fmt.Errorf("fork session %s: exchange %d of %d has not ended, or does not exist; symbio sessions show %s has the numbers", i.ID, last, len(all), i.ID)
	}
	kept := slices.DeleteFunc(slices.Concat(all[:last]...), func(e Entry) bool { return e.Kind == Edit })
	i.ID, i.Parent, i.Member, i.Requester, i.User, i.Title = NewID(), "", "", "", "", i.Title+" (fork)"
	i.Root, i.Keep, i.Tasks, i.Turns, i.Spent = i.ID, false, 0, 0, budget.Spent{}
	for n, e := range kept {
		kept[n].Copied = true
		i.apply(e)
	}
	i.Created = time.Now().UTC()
	i.Updated = i.Created
	return i, s.Commit([]Write{{Info: i, Entries: kept}})
}
