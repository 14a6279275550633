package team

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"symbio/agent/budget"
	"symbio/agent/conversation"
	"symbio/agent/tool"
	"symbio/community"
)

// Child is a sub-agent as its parent has it.
type Child struct {
	Member  community.Member
	Handle  Handle
	Account *budget.Account

	task        *task    // the latest; nil = none; guarded by Team.mu
	undelivered []string // what was said to it too late; guarded by Team.mu
}

// Handle is how a parent has hold of a sub-agent, wherever it lives.
type Handle interface {
	// Stop ends it and all below it, and returns when that is done, or it does not stop in time.
	Stop(ctx context.Context)
	// Gone returns why it is gone; nil = it is not.
	Gone() error
	// Steer says something to it while it works.
	Steer(ctx context.Context, text string) (conversation.Receipt, error)
	// Doing returns what it does now, for people and models; "" = not known.
	Doing() string
}

// Config sets up a Team. All fields have to be set.
type Config struct {
	// Definition is the name of the parent's own, which sub-agents have unless the model names another.
	Definition string
	// Spawn makes a sub-agent, and adds it to the team.
	Spawn func(ctx context.Context, w Wanted) (*Child, error)
	// Send sends a sub-agent its task and waits for its reply.
	Send func(ctx context.Context, to community.MemberID, s community.Signal) (community.Reply, error)
	// OnBehalf returns what those are held to at that moment on whose behalf the parent gives a task to a sub-agent.
	OnBehalf func(to *Child) ([]byte, error)
	// Deadline returns when what is begun now has to end, and the error of what does not.
	Deadline func() (time.Time, error)
	// Done is called when a sub-agent's task has ended.
	Done func(c *Child, text string, err error)
	// PendingSteering returns how much was said to the parent that its model has not been given.
	PendingSteering func() int
}

// Wanted says what a new sub-agent is to be.
type Wanted struct {
	Reason     string
	Definition string // "" = the parent's
	Name       string
	Node       string   // "" = the parent's
	Keep       []string // tools; nil = all of the parent's
	Share      budget.Limits
}

// Team are the sub-agents of one agent.
type Team struct {
	cfg   Config
	alive context.Context // ends with the team
	kill  context.CancelFunc
	tasks sync.WaitGroup // Go is guarded by mu

	mu       sync.Mutex
	closed   bool                        // guarded by mu
	children []*Child                    // in the order in which they were made; guarded by mu
	reserved map[string]*taskReservation // by taskKey; guarded by mu
	changed  chan struct{}               // closed, and replaced, when a child is done with something; guarded by mu
}

// maxGone is how many sub-agents that are gone a parent remembers, for their results.
const maxGone = 64

// New returns a Team without sub-agents.
func New(cfg Config) *Team {
	t := &Team{cfg: cfg, reserved: map[string]*taskReservation{}, changed: make(chan struct{})}
	t.alive, t.kill = context.WithCancel(context.Background())
	return t
}

// OwnTools are the names of the tools that come with replicate_agent. They reach an agent's own sub-agents alone.
func OwnTools() []string { return []string{"message_agent", "wait_agents", "stop_agents"} }

// IsOwnTool reports whether a tool is one of OwnTools.
func IsOwnTool(name string) bool { return slices.Contains(OwnTools(), name) }

// Tools returns replicate_agent and OwnTools.
func (t *Team) Tools() []tool.Tool {
	return []tool.Tool{replicateTool.New(t.replicate), messageTool.New(t.message), waitTool.New(t.wait), stopTool.New(t.stop)}
}

// Close ends all sub-agents and their tasks, and waits for it. Nothing can be added any more.
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

func stopAll(ctx context.Context, children []*Child) {
	var stopping sync.WaitGroup
	for _, c := range children {
		stopping.Go(func() { c.Handle.Stop(ctx) })
	}
	stopping.Wait()
}

// Add adds a new sub-agent; community.ErrStopped when the team is closed.
func (t *Team) Add(c *Child) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return community.ErrStopped
	}
	t.children = append(t.children, c)
	gone := 0
	for _, other := range t.children {
		if other.Handle.Gone() != nil {
			gone++
		}
	}
	t.children = slices.DeleteFunc(t.children, func(c *Child) bool {
		if gone <= maxGone || c.Handle.Gone() == nil {
			return false
		}
		gone--
		return true
	})
	return nil
}

// find returns the sub-agents of these ids or names, or all, the oldest first.
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

// findOne finds a sub-agent by its id, or by a name that only one has. Of those of a name that are gone the latest counts.
// It needs mu.
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
		return nil, fmt.Errorf("you have no sub-agent %q, nor any other; replicate_agent makes them", name)
	}
	return nil, fmt.Errorf("you have no sub-agent %q; yours are %v", name, names)
}

// notify wakes those that wait for a change. It needs mu.
func (t *Team) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// perception returns how a sub-agent takes its tasks.
func (c *Child) perception() string {
	if usual, ok := c.Member.DefaultPerception(); ok {
		return usual
	}
	return c.Member.Accepts[0]
}

// jsonResult returns what a model reads, as JSON.
func jsonResult(v any) tool.Result {
	text, err := json.Marshal(v)
	if err != nil {
		return errorResult(err)
	}
	return tool.Result{Text: string(text)}
}

func errorResult(err error) tool.Result { return tool.Result{Text: err.Error(), IsError: true} }
