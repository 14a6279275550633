package budget

import (
	"context"
	"time"
)

// Places belong to the borrower of a lent agent. Its account has the limit of all agents that live, on
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

// giveBack gives places back to the borrower. The caller must hold mu.
func (l *ledger) giveBack(n int) {
	if l.lent != nil && n > 0 {
		l.ended += n
		l.lent.Ended()
	}
}

// Ended returns how many of the places that the tree of a lent agent took it has given back since the
// lease began: for the borrower, which has them in Loan.EndedElsewhere.
func (a *Account) Ended() int {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.ledger.expire()
	return a.ledger.ended
}

// expire releases the places of nodes that must have noticed by now that they are alone. The caller must
// hold mu.
func (l *ledger) expire() {
	for now := time.Now(); len(l.unknown) > 0 && !now.Before(l.unknown[0].until); l.unknown = l.unknown[1:] {
		gone := l.unknown[0]
		gone.of.parent.adjust(places, -int64(gone.count))
		l.giveBack(gone.count)
	}
}

// roomWithoutUnknown reports whether the account could have a descendant more if no place were unknown. The caller must hold mu.
func (a *Account) roomWithoutUnknown() bool {
	for _, gone := range a.ledger.unknown {
		gone.of.parent.adjust(places, -int64(gone.count))
		defer gone.of.parent.adjust(places, int64(gone.count))
	}
	return a.room() == nil
}

// awaitRoom waits while the account could have a descendant more if agents of nodes that are gone have
// ended. It returns the error of room.
func (a *Account) awaitRoom(ctx context.Context) error {
	for {
		a.ledger.mu.Lock()
		a.ledger.expire()
		err := a.room()
		if err == nil || !a.roomWithoutUnknown() {
			a.ledger.mu.Unlock()
			return err
		}
		wait := time.Until(a.ledger.unknown[0].until)
		a.ledger.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}
