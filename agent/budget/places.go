package budget

import (
	"context"
	"errors"
	"time"

	"symbio/community"
)

// Places are those of the borrower of a lent agent. Its account has the limit of all agents that live, on
// whatever node.
type Places interface {
	// Take blocks until the borrower has given a place for one more descendant of the lent agent. The
	// error says why it has not.
	Take(ctx context.Context) error
	// Ended is called when places are given back; Account.Ended has their number. It must not block.
	Ended()
}

// unknownEnds are places of agents on a node that is gone. The agents may live until it notices.
type unknownEnds struct {
	until time.Time
	of    *Account // that had them
	count int
}

// take takes a place of the borrower, if the tree is lent.
func (l *ledger) take(ctx context.Context) error {
	if l.lent == nil {
		return nil
	}
	return l.lent.Take(ctx)
}

// giveBack gives places back to the borrower.
func (l *ledger) giveBack(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBackLocked(n)
}

// giveBackLocked is giveBack; the caller must hold mu.
func (l *ledger) giveBackLocked(n int) {
	if l.lent != nil && n > 0 {
		l.ended += n
		l.lent.Ended()
	}
}

// Ended returns how many of the places that the tree of a lent agent took it has given back since the
// lease began: for the borrower, which has them in EndedElsewhere.
func (a *Account) Ended() int {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.ledger.expire()
	return a.ledger.ended
}

// OpenElsewhere opens an account for a descendant of the agent of a remote account, on its node or
// beyond. It takes a place and counts for the rate of spawns; everything else is a part of the share of
// the remote account. Errors as for Open.
func (a *Account) OpenElsewhere(ctx context.Context) error {
	one, err := a.Open(ctx, Limits{}, Limits{}, false)
	if err != nil {
		return err
	}
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if a.closed {
		a.ledger.giveBackLocked(one.close())
		return community.ErrStopped
	}
	a.elsewhere = append(a.elsewhere, one)
	return nil
}

// UndoElsewhere releases the place of an OpenElsewhere of which the other node does not know.
func (a *Account) UndoElsewhere() {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.closeElsewhere(1)
}

// EndedElsewhere releases places of OpenElsewhere. total is how many descendants have ended since the
// remote account was opened, as the other node says; it counts as no less than before.
func (a *Account) EndedElsewhere(total int) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if more := total - a.saidEnded; more > 0 {
		a.saidEnded = total
		a.closeElsewhere(more)
	}
}

// closeElsewhere closes up to n accounts of descendants elsewhere. The caller must hold mu.
func (a *Account) closeElsewhere(n int) {
	n = min(n, len(a.elsewhere))
	for _, one := range a.elsewhere[:n] {
		a.ledger.giveBackLocked(one.close())
	}
	a.elsewhere = a.elsewhere[n:]
}

// CloseUnknown is Close for a remote account whose agents may still live: until their node must have
// noticed that it is alone, their places are not free.
func (a *Account) CloseUnknown() {
	l := a.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.closed || a.parent == nil {
		return
	}
	n := a.close()
	a.parent.adjust(places, int64(n))
	l.unknown = append(l.unknown, unknownEnds{time.Now().Add(lentGrace), a, n})
}

// expire releases the places of nodes that must have noticed by now that they are alone. The caller must
// hold mu.
func (l *ledger) expire() {
	for now := time.Now(); len(l.unknown) > 0 && !now.Before(l.unknown[0].until); l.unknown = l.unknown[1:] {
		gone := l.unknown[0]
		gone.of.parent.adjust(places, -int64(gone.count))
		l.giveBackLocked(gone.count)
	}
}

// awaitRoom waits while the account could have a descendant more if agents of nodes that are gone have
// ended. It returns the error of room.
func (a *Account) awaitRoom(ctx context.Context) error {
	for {
		a.ledger.mu.Lock()
		a.ledger.expire()
		err, wait := a.room(), time.Duration(0)
		if _, _, left := a.binding(places); left < 1 && len(a.ledger.unknown) > 0 {
			wait = time.Until(a.ledger.unknown[0].until)
		}
		a.ledger.mu.Unlock()
		if wait == 0 || !errors.Is(err, ErrExceeded) {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}
