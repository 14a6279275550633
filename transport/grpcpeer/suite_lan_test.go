package grpcpeer_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"symbio/actor"
	"symbio/community"
)

// caseLAN is the communities of one case.
type caseLAN struct {
	t       *testing.T
	fixture Fixture
	slack   time.Duration
	running []*place
}

// place is one node of a case: a community and the life it leads.
type place struct {
	*community.Community
	t    *testing.T
	id   community.NodeID
	end  community.Network // to call past the community
	lan  *caseLAN
	stop context.CancelFunc
	done sync.WaitGroup
}

// anybody is the authoriser of cases that are not about authorisation.
func anybody(community.Peer, community.Call) error { return nil }

// up joins the node called name and runs a community on it. tune may change the configuration.
func (l *caseLAN) up(name string, tune ...func(*community.Config)) *place {
	l.t.Helper()
	end := l.fixture.Join(l.t, name)
	cfg := community.Config{Node: end.ID, Name: name, Network: end.Network, Authorize: anybody,
		System: actor.NewSystem(actor.Config{})}
	for _, f := range tune {
		f(&cfg)
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &place{Community: community.New(cfg), t: l.t, id: end.ID, end: end.Network, lan: l, stop: stop}
	p.done.Go(func() {
		if err := p.Run(ctx); err != nil {
			l.t.Errorf("the community of %s ended with %v", name, err)
		}
		if err := cfg.System.Shutdown(context.Background()); err != nil {
			l.t.Errorf("the actors of %s ended with %v", name, err)
		}
	})
	l.running = append(l.running, p)
	return p
}

// leave ends the node in order, and waits until it has ended.
func (p *place) leave() {
	p.stop()
	p.done.Wait()
}

func (l *caseLAN) end() {
	for _, p := range l.running {
		p.stop()
	}
	for _, p := range l.running {
		p.done.Wait()
	}
}

// patience is how long a case, which is in a bubble, waits for what has no bound of its own.
const patience = 20 * time.Second

// sees waits until the place's list of members satisfies want, and returns it.
func (p *place) sees(what string, want func([]community.Member) bool) []community.Member {
	p.t.Helper()
	return p.seesWithin(patience, what, want)
}

// seesWithin is sees with a bound, to which the suite's slack is added.
func (p *place) seesWithin(bound time.Duration, what string, want func([]community.Member) bool) []community.Member {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound+p.lan.slack)
	defer cancel()
	sub := p.Subscribe()
	defer sub.Close()
	for {
		// Each change only says that it is worth looking again.
		if _, err := sub.Next(ctx); err != nil {
			p.t.Fatalf("after %v: %s was not seen: %v; members: %+v", bound, what, err, p.Members())
		}
		if all := p.Members(); want(all) {
			return all
		}
	}
}

// finds waits for the available member of that name.
func (p *place) finds(name string) community.Member {
	p.t.Helper()
	all := p.sees("member "+name, func(all []community.Member) bool { return named(all, name) >= 0 })
	return all[named(all, name)]
}

// node waits for another place's own entry, which is where its capabilities are.
func (p *place) node(other *place) community.Member {
	p.t.Helper()
	id := community.MemberID(other.id)
	p.sees("node "+other.Name(), func([]community.Member) bool { m, ok := p.Member(id); return ok && m.Available })
	m, _ := p.Member(id)
	return m
}

// offers makes a capability at the place, and waits until by sees it.
func (p *place) offers(name string, provide community.Provider, by *place) community.Member {
	p.t.Helper()
	return p.offersAs(community.Capability{Name: name}, provide, by)
}

// offersAs is offers of a capability with all that can be said of it.
func (p *place) offersAs(c community.Capability, provide community.Provider, by *place, opts ...community.OfferOption) community.Member {
	p.t.Helper()
	if err := p.Offer(c, provide, opts...); err != nil {
		p.t.Fatal(err)
	}
	name := c.Name
	by.sees("capability "+name, func([]community.Member) bool { return len(by.WhoProvides(name)) > 0 })
	return by.node(p)
}

func named(all []community.Member, name string) int {
	return slices.IndexFunc(all, func(m community.Member) bool { return m.Name == name && m.Available })
}

// in bounds a call in a bubble that has no deadline of its own to test.
func in(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// within fails the case when more than bound, and the slack, has passed since then.
func (l *caseLAN) within(bound time.Duration, since time.Time, what string) {
	l.t.Helper()
	if took := time.Since(since); took > bound+l.slack {
		l.t.Errorf("%s took %v, want at most %v", what, took.Round(time.Millisecond), bound)
	}
}

// log collects the changes that a place sees from now on.
func (p *place) log() *record { return &record{p.Subscribe()} }

type record struct{ sub *community.Subscription }

// of ends the record and returns the kinds of change that befell a member so far, in order.
func (r *record) of(id community.MemberID) (kinds []community.ChangeKind) {
	defer r.sub.Close()
	now, cancel := context.WithCancel(context.Background())
	cancel() // only what is there already
	for {
		ch, err := r.sub.Next(now)
		if err != nil {
			return kinds
		}
		if ch.Member.ID == id {
			kinds = append(kinds, ch.Kind)
		}
	}
}
