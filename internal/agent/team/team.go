package team

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"symbio/agent/budget"
	"symbio/agent/conversation"
	"symbio/agent/tool"
	"symbio/agent/tool/replicate"
	"symbio/community"
)

// Child is a sub-agent in its parent's team, or a task that waits for a place and has only a name.
type Child struct {
	Member community.Member
	Handle Handle
	// Account is nil while the task waits.
	Account *budget.Account
	// Workspace is the copy of the parent's files in which it works; nil = it has none.
	Workspace *Workspace
	// Omitted says which of the parent's skills it does not have; "" = it has all that it should.
	Omitted string
	// Release gives back the place of a sub-agent on this node when its task is done; nil = it has
	// none, or its place ends with its lease.
	Release func()

	// successor is the sub-agent that does the task now: it was started later, or in the place of one
	// that was lost; nil = none; guarded by Team.mu.
	successor *Child
	// collected is set when the parent has the work in Workspace; guarded by Team.mu.
	collected bool
	// queued is set if the task had to wait when launch returned; guarded by Team.mu.
	queued bool
	// task is the latest task; nil = none yet; guarded by Team.mu.
	task *task
	// undelivered are steering texts that came too late for the model; guarded by Team.mu.
	undelivered []string
}

// Handle controls a sub-agent, on this node or on another one. Its methods are safe for concurrent
// use.
type Handle interface {
	// Stop stops the sub-agent and its descendants. It returns when that is done, or when they did
	// not stop in time.
	Stop(ctx context.Context)
	// Gone returns why the sub-agent has ended; nil while it runs.
	Gone() error
	// Steer delivers a text to it while it works, and blocks until the delivery is known.
	Steer(ctx context.Context, text string) (conversation.Receipt, error)
	// Activity returns its present activity, for people and models; "" = not known.
	Activity() string
}

// Config sets up a Team. All fields have to be set.
type Config struct {
	// Definition is the name of the parent's definition, which sub-agents have unless the model
	// names another.
	Definition string
	// NextName returns the name of a sub-agent for which the model chose none.
	NextName func() string
	// Spawn starts a sub-agent and adds it to the team. It waits until there is a place for it.
	Spawn func(ctx context.Context, w SpawnRequest) (*Child, error)
	// Nodes returns the nodes with these labels that can have a sub-agent of a definition.
	Nodes func(definition string, where []string) ([]community.MemberID, error)
	// Repeat reports whether a failed task is to be started anew, because its sub-agent is lost with
	// its node. times is how often that was done.
	Repeat func(c *Child, w SpawnRequest, times int) bool
	// Send sends a sub-agent its task and waits for its reply.
	Send func(ctx context.Context, to community.MemberID, s community.Signal) (community.Reply, error)
	// Fix returns a context for a task that the model gives now and that may begin later: in it, the
	// parent acts for its present requesters.
	Fix func(context.Context) context.Context
	// OnBehalf returns the encoded constraints that a task for that sub-agent carries
	// (Signal.OnBehalf).
	OnBehalf func(ctx context.Context, to *Child) ([]byte, error)
	// Deadline returns when background work that starts now must end, and the error with which its
	// context ends then.
	Deadline func() (time.Time, error)
	// Done is called when a sub-agent's task has ended.
	Done func(c *Child, text string, err error)
	// PendingSteering returns how many steering texts wait for the parent's model.
	PendingSteering func() int
}

// SpawnRequest describes a new sub-agent.
type SpawnRequest struct {
	// Reason says why the sub-agent is needed, in the words of the model.
	Reason string
	// Definition is the name of its definition; "" = the parent's.
	Definition string
	Name       string
	// Node is the name or id of the node to run on; "" = one with the labels Where is chosen.
	Node  string
	Where []string
	// Waiting is called when the sub-agent has to wait for a place, with the number of tasks before
	// it. It must not block. nil: it has no task and does not wait.
	Waiting func(before int)
	// Keep are the tools that it may use; nil = all of the parent's.
	Keep  []string
	Share budget.Limits
	// Workspace gives it a copy of the parent's files to work in.
	Workspace bool
}

// Team is the sub-agents of one agent. It is safe for concurrent use.
type Team struct {
	cfg func() Config
	// alive ends with the team; kill ends it.
	alive context.Context
	kill  context.CancelFunc
	// tasks are the goroutines of tasks and deliveries. Go is called with mu held, and never after
	// closed is set.
	tasks sync.WaitGroup

	mu sync.Mutex
	// closed is set by Close; guarded by mu.
	closed bool
	// children are in the order of their spawns; guarded by mu.
	children []*Child
	// reserved has the tasks in progress, by taskKey; guarded by mu.
	reserved map[string]*taskReservation
	// changed is closed and replaced when a task ends or a steering text comes back; guarded by mu.
	changed chan struct{}
}

const (
	// maxGone is how many ended sub-agents a team keeps whose results were read.
	maxGone = 64
	// maxUnread is how many results may wait for the model before it can give more tasks.
	maxUnread = 256
)

// New returns a Team without sub-agents. cfg is called when something of it is needed, since most agents spawn none.
func New(cfg func() Config) *Team {
	t := &Team{cfg: cfg, reserved: map[string]*taskReservation{}, changed: make(chan struct{})}
	t.alive, t.kill = context.WithCancel(context.Background())
	return t
}

// OwnTools returns the names of the tools that come with replicate_agent. They only reach the
// agent's own sub-agents.
func OwnTools() []string {
	return []string{"message_agent", "wait_agents", "stop_agents", "collect_work"}
}

// IsOwnTool reports whether a tool is one of OwnTools.
func IsOwnTool(name string) bool { return slices.Contains(OwnTools(), name) }

// HasTool reports whether an agent has a tool by the names that listed knows: with replicate_agent it has OwnTools, too.
func HasTool(name string, listed func(name string) bool) bool {
	return listed(name) || IsOwnTool(name) && listed(replicate.Name)
}

// Tools returns replicate_agent and OwnTools.
func (t *Team) Tools() []tool.Tool {
	return []tool.Tool{replicateTool.New(t.replicate), messageTool.New(t.message), waitTool.New(t.wait), stopTool.New(t.stop), collectTool.New(t.collect)}
}

// Close stops all sub-agents and their tasks and waits until they have ended. Add fails after that.
func (t *Team) Close(ctx context.Context) {
	t.mu.Lock()
	t.closed = true
	children := slices.Clone(t.children)
	t.mu.Unlock()
	t.kill()
	stopAll(ctx, children)
	t.tasks.Wait()
}

// IsClosed reports whether Close was called.
func (t *Team) IsClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// latest returns the sub-agent that does the task of c now.
func (t *Team) latest(c *Child) *Child {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c.successor != nil {
		c = c.successor
	}
	return c
}

// stopAll stops sub-agents concurrently: one whose node does not answer must not delay the others.
func stopAll(ctx context.Context, children []*Child) {
	var stopping sync.WaitGroup
	for _, c := range children {
		stopping.Go(func() { c.Handle.Stop(ctx) })
	}
	stopping.Wait()
}

// Add adds a new sub-agent, and forgets the oldest ended ones beyond maxGone, but none whose result
// was not read. The error is
// community.ErrStopped if the team is closed.
func (t *Team) Add(c *Child) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return community.ErrStopped
	}
	t.children = append(t.children, c)
	forgettable := func(c *Child) bool { return (c.task == nil || c.task.reported) && c.Handle.Gone() != nil }
	gone := 0
	for _, other := range t.children {
		if forgettable(other) {
			gone++
		}
	}
	t.children = slices.DeleteFunc(t.children, func(c *Child) bool {
		if gone <= maxGone || !forgettable(c) {
			return false
		}
		gone--
		return true
	})
	return nil
}

// find returns the sub-agents with these ids or names, without duplicates. Without names it returns
// all, oldest first.
func (t *Team) find(names []string) ([]*Child, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(names) == 0 {
		return slices.Clone(t.children), nil
	}
	var some []*Child
	for _, name := range names {
		c, err := t.findOne(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(some, c) {
			some = append(some, c)
		}
	}
	return some, nil
}

// findOne finds a sub-agent by its id, or by a name that only one running sub-agent has. If all
// with the name have ended, it returns the latest. The caller must hold mu.
func (t *Team) findOne(name string) (found *Child, err error) {
	var names []string
	several := 0
	for _, c := range t.children {
		switch {
		case string(c.Member.ID) == name:
			return c, nil
		case c.Member.Name != name:
		case c.Handle.Gone() == nil:
			found, several = c, several+1
		case several == 0:
			found = c
		}
		names = append(names, c.Member.Name)
	}
	switch {
	case several > 1:
		return nil, fmt.Errorf("%d of your sub-agents are called %q: name one by its agent_id", several, name)
	case found != nil:
		return found, nil
	case len(names) == 0:
		return nil, fmt.Errorf("you have no sub-agents, so none is %q; replicate_agent spawns them", name)
	}
	return nil, fmt.Errorf("you have no sub-agent %q; yours are %v", name, names)
}

// notify wakes the calls of await. The caller must hold mu.
func (t *Team) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// perception returns the perception with which a sub-agent receives tasks.
func (c *Child) perception() string {
	if usual, ok := c.Member.DefaultPerception(); ok {
		return usual
	}
	return c.Member.Accepts[0]
}

// errorResult returns err as a result for the model, which can correct its call.
func errorResult(err error) tool.Result { return tool.Result{Text: err.Error(), IsError: true} }
