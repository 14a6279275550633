package lending

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"symbio/agent/budget"
	"symbio/community"
	"symbio/internal/security/visible"
)

// leasePlaces are the places of the borrower of a lease. It is a budget.Places.
type leasePlaces struct{ lease *Lease }

// Take asks the borrower for a place, one after the other. The error wraps budget.ErrExceeded if it has
// none, or community.ErrUnavailable if it does not answer within spawnTimeout.
func (p leasePlaces) Take(ctx context.Context) error {
	select {
	case p.lease.link.taking <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.lease.link.taking }()
	id := rand.Text()
	a, err := p.lease.link.await(ctx, update{Place: id}, id, spawnTimeout)
	switch {
	case err != nil:
		return fmt.Errorf("%w: no place for a sub-agent: %w", community.ErrUnavailable, err)
	case !a.Allow:
		return fmt.Errorf("%w: %s", budget.ErrExceeded, strings.TrimPrefix(a.Why, budget.ErrExceeded.Error()+": "))
	}
	return nil
}

// Ended has the borrower told.
func (p leasePlaces) Ended() { p.lease.SpentChanged() }

// place answers the lender's request for a place in the background; ctx ends with the lease. The error
// says that the lender asks for more than one at a time.
func (b *BorrowedAgent) place(ctx context.Context, id string) error {
	waiting, cancel := context.WithCancel(ctx)
	_, twice := b.requests.open.LoadOrStore(id, cancel)
	if twice || b.id() == "" || !b.requests.places.TryGo(func() error {
		defer cancel()
		defer b.requests.open.Delete(id)
		err := b.loan.OpenElsewhere(waiting)
		a := answer{Member: b.id(), Question: id, Allow: err == nil}
		if err != nil {
			a.Why = visible.Truncate(err.Error(), maxReason)
		} else {
			b.borrower.Owner().Spent(budget.Spent{Agents: 1})
		}
		// If it is not known whether the lender has the answer, the place stays taken until the lease ends.
		if _, told := b.ask(ctx, request{Answer: &a}); err == nil && community.NotBegun(told) {
			b.loan.UndoElsewhere()
		}
		return nil
	}) {
		cancel()
		return errors.New("it asks for too many places")
	}
	return nil
}
