package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"symbio/community"
)

// Community is what a Cluster needs; *community.Community is one.
type Community interface {
	Members() []community.Member
	Capability(node community.NodeID, name string) (community.Capability, bool)
	Send(ctx context.Context, to community.MemberID, s community.Signal) (community.Reply, error)
	Invoke(ctx context.Context, on community.MemberID, capability string, s community.Signal) (community.Reply, error)
}

// Cluster places the work of Agent and Capability on the members of a community. Put it around
// steps by With: steps that share it know the same busy nodes. It is safe for concurrent
// use.
type Cluster struct {
	community Community

	mu   sync.Mutex
	busy map[community.MemberID]*load // guarded by mu
	turn uint64                       // guarded by mu
}

// load is what a member was given by this cluster.
type load struct {
	running int
	turn    uint64 // when it was given work last
}

// NewCluster returns a Cluster of a community.
func NewCluster(c Community) *Cluster {
	return &Cluster{community: c, busy: map[community.MemberID]*load{}}
}

// errNoCluster says what to do.
var errNoCluster = errors.New("there is no cluster in the context: put the step in step.With(step.NewCluster(community), …)")

// job is work for one of several members.
type job struct {
	// fits says whether a member could do it if it can be reached.
	fits func(community.Member) bool
	// again says whether doing it twice at that member does no harm.
	again func(community.Member) bool
	do    func(context.Context, community.Member) (community.Reply, error)
}

// place has a job done by the least loaded of those that fit, and by the next one when that one did
// not begin it, or may be asked again.
func (c *Cluster) place(ctx context.Context, j job) (community.Reply, error) {
	tried := map[community.MemberID]bool{}
	var last error
	for {
		m, err := c.acquire(j.fits, tried)
		if err != nil {
			return community.Reply{}, cmp.Or(last, err)
		}
		tried[m.ID] = true
		repeatable := j.again(m) // asked now: of a node that is gone nothing is known
		reply, err := j.do(ctx, m)
		c.release(m.ID)
		if err == nil || ctx.Err() != nil || !community.NotBegun(err) && !(repeatable && errors.Is(err, community.ErrUnavailable)) {
			return reply, err
		}
		last = err
	}
}

// acquire picks the member that has least to do for this cluster, of several the one that was given
// work longest ago.
func (c *Cluster) acquire(fits func(community.Member) bool, tried map[community.MemberID]bool) (community.Member, error) {
	members := c.community.Members()
	c.mu.Lock()
	defer c.mu.Unlock()
	why := fmt.Errorf("no member does it: %w", community.ErrNotFound)
	fitting := slices.DeleteFunc(slices.Clone(members), func(m community.Member) bool {
		if tried[m.ID] || !fits(m) {
			return true
		}
		if !m.Available {
			why = fmt.Errorf("who does it is away: %w", community.ErrUnavailable)
		}
		return !m.Available
	})
	if len(fitting) == 0 {
		return community.Member{}, why
	}
	m := slices.MinFunc(fitting, func(a, b community.Member) int {
		x, y := c.loadOf(a.ID), c.loadOf(b.ID)
		return cmp.Or(cmp.Compare(x.running, y.running), cmp.Compare(x.turn, y.turn))
	})
	l := c.loadOf(m.ID)
	c.busy[m.ID] = &l
	c.turn++
	l.running, l.turn = l.running+1, c.turn
	c.forget(members)
	return m, nil
}

// loadOf is called with mu held.
func (c *Cluster) loadOf(id community.MemberID) load {
	if l := c.busy[id]; l != nil {
		return *l
	}
	return load{}
}

// forget drops those that are gone and owe nothing, so that busy is no longer than the list of
// members. It is called with mu held.
func (c *Cluster) forget(members []community.Member) {
	if len(c.busy) <= len(members) {
		return
	}
	for id, l := range c.busy {
		if l.running == 0 && !slices.ContainsFunc(members, func(m community.Member) bool { return m.ID == id }) {
			delete(c.busy, id)
		}
	}
}

func (c *Cluster) release(id community.MemberID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.busy[id]; l != nil {
		l.running--
	}
}
