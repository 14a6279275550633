package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"symbio/community"
	"symbio/internal/actor/backoff"
)

// Strategy says which of the nodes that fit gets a task.
type Strategy string

// The strategies. The zero Strategy is the configured one.
const (
	// LocalFirst is this node until its places are taken, then the least busy one of the others.
	LocalFirst Strategy = "local-first"
	// Local is this node only.
	Local Strategy = "local"
	// LeastBusy is the node with the smallest part of its places taken, LocalFirst among equals.
	LeastBusy Strategy = "least-busy"
	// Spread is the node that has the fewest tasks of this Chooser.
	Spread Strategy = "spread"
)

// Strategies returns the names of the strategies.
func Strategies() []string {
	return []string{string(LocalFirst), string(Local), string(LeastBusy), string(Spread)}
}

// ErrNone is wrapped by the error of a task that no node fits.
var ErrNone = errors.New("no node fits")

// Request describes a task that needs a place.
type Request struct {
	// Definition is the agent's; a node that does not lend it does not get the task.
	Definition string
	// Where are the labels that the node must have.
	Where []community.Label
	// Strategy replaces the Chooser's; "" = it does not.
	Strategy Strategy
	// NotHere is why the task cannot run on this node; "" = it can.
	NotHere string
	// Allowed returns why the task may not go to another node; nil = it may go to all. It must not
	// block.
	Allowed func(community.Member) error
	// Waiting is called when the task begins to wait, and when fewer tasks are before it. It must not
	// block. nil: the task does not wait but runs here, even if all places are taken, or gets
	// community.ErrBusy if it cannot.
	Waiting func(before int)
}

// Place is where a task runs.
type Place struct {
	// Node is the member that stands for the other node; the zero Member is this node.
	Node community.Member
	// Reason says why this node, for people.
	Reason string
}

// Load is what a node says of how busy it is.
type Load struct {
	// Running is how many agents run there. Lent is how many of these are lent, Free how many more it
	// would lend to the node that asks.
	Running int `json:"running"`
	Lent    int `json:"lent"`
	Free    int `json:"free"`
	// Waiting is how many tasks of its own wait in its queue.
	Waiting int `json:"waiting,omitempty"`
	// Memory is what is available, in bytes; 0 = not known.
	Memory int64 `json:"memory,omitempty"`
}

// maxCount bounds the numbers of another node's Load.
const maxCount = 1 << 16

// Checked returns the load of another node with numbers that can be used: none is negative, or so
// large that a sum could overflow.
func (l Load) Checked() Load {
	count := func(n int) int { return min(max(n, 0), maxCount) }
	return Load{count(l.Running), count(l.Lent), count(l.Free), count(l.Waiting), min(max(l.Memory, 0), 1<<60)}
}

// Config sets up a Chooser. Self is required.
type Config struct {
	// Self is this node with its labels.
	Self community.Member
	// Strategy is for tasks without one. Default: LocalFirst.
	Strategy Strategy
	// Local is how many tasks run here at the same time. Default 8, as many as a node lends: each has
	// a model.
	Local int
	// Queue is how many tasks wait at most. Default 256.
	Queue int
	// Lenders returns the nodes that lend a definition, "" = any, and can be reached now. Default: none.
	Lenders func(definition string) []community.Member
	// Load asks a node for its load. It must return when ctx ends.
	Load func(ctx context.Context, node community.Member) (Load, error)
	// Draining reports whether this node takes no new work: then a task goes to another node that fits, if there is one.
	// Default: it does not.
	Draining func() bool
}

const (
	// askTimeout is how long a node may take to say its load. One that takes longer is too slow for
	// work, too.
	askTimeout = time.Second
	// maxAge is how old a load may be for a choice. So a burst of tasks asks once, and counts the tasks that it
	// has placed since.
	maxAge = 300 * time.Millisecond
	// firstPause and maxPause bound the time after which a waiting task looks again: places that
	// other borrowers free are not told.
	firstPause, maxPause = 250 * time.Millisecond, 5 * time.Second
)

// Chooser gives tasks their places. It is safe for concurrent use, and has no goroutines of its own.
type Chooser struct {
	cfg Config
	// choosing is held while places are given, also while nodes are asked for their load, at most
	// askTimeout.
	choosing chan struct{} // a lock that a task which ends does not wait for

	// mu guards the fields below. It is taken after choosing, and nothing blocks under it.
	mu sync.Mutex
	// tickets are the tasks that want a place or are being started, the oldest first.
	tickets []*ticket
	// held are the places that tasks have, by node; "" is this one.
	held map[community.MemberID]int
	// nodes is what is known of the other nodes.
	nodes map[community.MemberID]*nodeState
	// changed is closed and replaced when a place is free or the queue has moved.
	changed chan struct{}
	// failures is how often in a row the first waiting task looked for a place in vain.
	failures int
}

// nodeState is what is known of another node.
type nodeState struct {
	load     Load
	asked    time.Time // when load was known; zero = it has to be asked again
	err      error     // of the latest attempt to ask
	starting int       // places given whose start has not returned: load may not have them yet
}

// ticket is a task that wants a place. Chooser.mu guards its fields but request.
type ticket struct {
	request Request
	waiting bool       // it is in the queue; it stays so until it was started
	placed  bool       // it has a place
	told    int        // what Waiting was called with last
	got     chan grant // has the capacity 1
}

// grant is what a ticket gets.
type grant struct {
	place Place
	err   error
}

// New returns a Chooser.
func New(cfg Config) *Chooser {
	cfg.Strategy, cfg.Local, cfg.Queue = cmp.Or(cfg.Strategy, LocalFirst), cmp.Or(cfg.Local, 8), cmp.Or(cfg.Queue, 256)
	return &Chooser{cfg: cfg, choosing: make(chan struct{}, 1), held: map[community.MemberID]int{},
		nodes: map[community.MemberID]*nodeState{}, changed: make(chan struct{})}
}

// Start waits for a place for a task and calls start, which starts an agent there. If another node
// refuses (community.NotBegun) or cannot be reached, the task gets the next place, so start must not
// give the agent its task yet. release must be called when the place is free again; it may be called
// more than once. The error is community.ErrBusy if the queue is full, ErrNone if no node fits, the
// cause of ctx, or the error of start.
func (c *Chooser) Start(ctx context.Context, r Request, start func(Place) error) (release func(), err error) {
	t := &ticket{request: r, told: -1, got: make(chan grant, 1)}
	c.mu.Lock()
	c.tickets = append(c.tickets, t)
	c.mu.Unlock()
	defer c.leave(t)
	for {
		p, err := c.acquire(ctx, t)
		if err != nil {
			return nil, err
		}
		err = start(p)
		c.started(t, p, err)
		switch {
		case err == nil:
			return sync.OnceFunc(func() { c.release(p) }), nil
		case p.Node.ID == "" || !community.NotBegun(err) && !errors.Is(err, community.ErrUnavailable) || ctx.Err() != nil:
			return nil, err
		}
	}
}

// acquire waits until the ticket has a place. A new ticket looks for one, and the first one in the
// queue does for all.
func (c *Chooser) acquire(ctx context.Context, t *ticket) (Place, error) {
	for first := true; ; first = false {
		c.mu.Lock()
		changed, before := c.changed, c.before(t) // read before the attempt, so that no change is missed
		c.mu.Unlock()
		if first || before == 0 {
			c.dispatch(ctx)
		}
		pause, err := c.queue(t)
		if err != nil {
			return Place{}, err
		}
		again := time.NewTimer(pause)
		select {
		case g := <-t.got:
			again.Stop()
			return g.place, g.err
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return Place{}, context.Cause(ctx)
		}
		again.Stop()
	}
}

// before returns how many tasks in the queue are before a ticket. The caller must hold mu.
func (c *Chooser) before(t *ticket) (n int) {
	for _, other := range c.tickets {
		if other == t {
			break
		}
		if other.waiting && !other.placed {
			n++
		}
	}
	return n
}

// waiting returns how many tasks are in the queue. The caller must hold mu.
func (c *Chooser) waiting() (n int) {
	for _, t := range c.tickets {
		if t.waiting {
			n++
		}
	}
	return n
}

// Waiting returns how many tasks wait for a place, or are being started after they did.
func (c *Chooser) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting()
}

// queue puts a ticket without a place into the queue, and says after what time it should look again.
func (c *Chooser) queue(t *ticket) (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.placed {
		return 0, nil
	}
	waiting := c.waiting()
	if !t.waiting && (t.request.Waiting == nil || waiting >= c.cfg.Queue) {
		return 0, community.Explain(community.ErrBusy, fmt.Sprintf("all places are taken, and %d tasks wait already", waiting))
	}
	t.waiting = true
	before := c.before(t)
	if t.told != before {
		t.told = before
		t.request.Waiting(before)
	}
	if before > 0 {
		return time.Hour, nil // changed wakes it
	}
	c.failures++
	return backoff.Jitter(backoff.Delay(c.failures, firstPause, maxPause), 4), nil
}

// dispatch gives places to all tickets for which there is one, the oldest first.
func (c *Chooser) dispatch(ctx context.Context) {
	select {
	case c.choosing <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-c.choosing }()
	c.mu.Lock()
	tickets := slices.DeleteFunc(slices.Clone(c.tickets), func(t *ticket) bool { return t.placed })
	c.mu.Unlock()
	lenders := map[string][]community.Member{}
	for _, t := range tickets {
		nodes, asked := lenders[t.request.Definition]
		if !asked && c.cfg.Lenders != nil {
			nodes = c.cfg.Lenders(t.request.Definition)
			lenders[t.request.Definition] = nodes
		}
		if g, ok := c.choose(ctx, t, nodes); ok {
			c.give(t, g)
		}
	}
}

// give gives a ticket its place, or an error.
func (c *Chooser) give(t *ticket, g grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.tickets, t) {
		return // it has left meanwhile
	}
	t.placed = true
	if g.err == nil {
		c.held[g.place.Node.ID]++
		if n := c.nodes[g.place.Node.ID]; n != nil {
			n.starting++
		}
		c.failures = 0
	}
	t.got <- g
}

// started notes that start has returned. A node that refused has no free place until it is asked
// again.
func (c *Chooser) started(t *ticket, p Place, err error) {
	if err != nil {
		c.release(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.placed = err == nil
	if n := c.nodes[p.Node.ID]; n != nil {
		n.starting--
		if n.load.Free, n.load.Lent = n.load.Free-1, n.load.Lent+1; err != nil {
			n.load, n.asked = Load{}, time.Now()
		}
	}
}

// release makes a place free and wakes the queue.
func (c *Chooser) release(p Place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[p.Node.ID]--
	if n := c.nodes[p.Node.ID]; n != nil {
		n.asked = time.Time{} // it has a place more now
	}
	c.failures = 0
	c.notify()
}

// leave removes a ticket. A place that it got and did not take is free again.
func (c *Chooser) leave(t *ticket) {
	c.mu.Lock()
	c.tickets = slices.DeleteFunc(c.tickets, func(other *ticket) bool { return other == t })
	c.notify()
	c.mu.Unlock()
	select {
	case g := <-t.got:
		if g.err == nil {
			c.started(t, g.place, context.Canceled)
		}
	default:
	}
}

// notify wakes the tickets that wait. The caller must hold mu.
func (c *Chooser) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}
