package tasks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/placement"
	"symbio/internal/agent/team"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// RemoteOrder says how an agent of another node works for a person of this one.
type RemoteOrder struct {
	Name string // of the member; "" = the definition's
	// Ask asks the person; nil = as the node does for agents without a terminal.
	Ask func(context.Context, agent.ApprovalRequest) tool.Answer
	// Events is called with what the agent does, in its order; nil = nothing is told. It may block until ended ends.
	Events func(ended context.Context, e event.Event)
	// Waiting is called when all places are taken, with the number of tasks that wait before it. It must not block.
	Waiting func(before int)
	// Search is how long the nodes may take to be found; 0 = the node knows them by now.
	Search time.Duration
}

// Remote is an agent that another node lends to this one. The caller must call Close. Send, Patch and Apply are for one
// goroutine at a time, the others for any.
type Remote struct {
	*lending.BorrowedAgent
	Place placement.Place // the node, and why that one

	member   atomic.Pointer[community.Member] // for its events, which may come before Borrow returns
	borrower *lending.Borrower
	loan     *budget.Loan
	release  func()
	ended    context.Context    // ends when its events are not read any more
	end      context.CancelFunc // of ended
	idle     chan struct{}      // gets a value when its task has ended there; has the capacity 1

	dir   string // the directory of the files that it was given; "" = none
	files *team.Workspace
	shown string // the patch that Patch returned last
}

// eventsTimeout is how long the last events of a task may take after its answer, which comes by another call.
const eventsTimeout = 2 * time.Second

// Borrow has one of the nodes that r.On names spawn an agent of a definition of its own, under the rules of both nodes, and with
// the files of the directory r.Bring. It waits for a free place. The error is community.ErrNotFound if there is no such node or
// label, placement.ErrNone if no such node lends the agent to this one.
func (t *Tasks) Borrow(ctx context.Context, r *symbiov1.RunRequest, o RemoteOrder) (_ *Remote, err error) {
	who, err := t.personOf(&symbiov1.RunTaskRequest{Allow: r.GetAllow()})
	if err != nil {
		return nil, err
	}
	if o.Ask != nil {
		who.next = o.Ask
	}
	m := &Remote{dir: r.GetBring(), idle: make(chan struct{}, 1)}
	m.ended, m.end = context.WithCancel(context.WithoutCancel(ctx))
	// A definition of the same name that this node may have is another one.
	if m.borrower, err = t.borrower(who, definition.Definition{}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.Close(ctx)
		}
	}()
	order := lending.Order{Definition: r.GetAgent(), Name: o.Name, Reason: "a task that a person gives to this node"}
	if order.Definition == "" {
		order.Definition = definition.General().Name
	}
	if o.Events != nil {
		order.Events = func(e event.Event) { m.event(o.Events, e) }
		who.denied = func(d *symbiov1.Denial) {
			o.Events(m.ended, event.Event{Time: time.Now().UTC(), Type: event.TypeDecision, Node: t.cfg.Self.Name, Agent: string(m.Member().ID), Name: d.GetAgent(),
				Why: d.GetWhy(), Part: event.Decision{Tool: d.GetTool(), Args: d.GetArgs(), Verdict: permission.Ask.String(), Unasked: true, Missing: d.GetAllow()}})
		}
	}
	want, err := t.find(ctx, m.borrower, r.GetOn(), order.Definition, o.Search)
	if err != nil {
		return nil, err
	}
	want.Waiting = o.Waiting
	limits := LimitsOf(t.cfg.Agents.Limits, r.GetBudget()).WithDefaults()
	m.release, err = t.cfg.Chooser.Start(ctx, want, func(at placement.Place) (err error) {
		if m.Place = at; m.dir != "" {
			w := &team.Workspaces{Server: t.cfg.Workspaces}
			if order.Workspace, m.files, err = w.Send(ctx, m.dir, m.denied(who), at.Node, m.borrower.CallWorkspace(at.Node)); err != nil {
				return err
			}
		}
		var member community.Member
		m.BorrowedAgent, m.loan, member, err = borrow(ctx, m.borrower, at.Node, limits, order)
		m.member.Store(&member)
		return err
	})
	if errors.Is(err, placement.ErrNone) {
		err = cmp.Or(t.denial(ctx, m.borrower, want), err)
	}
	return m, err
}

// borrow borrows an agent of a node with limits, in which it has no place of its own.
func borrow(ctx context.Context, b *lending.Borrower, node community.Member, limits budget.Limits,
	o lending.Order) (*lending.BorrowedAgent, *budget.Loan, community.Member, error) {
	whole := limits
	whole.Agents, whole.Depth = limits.Agents+1, limits.Depth+1
	loan, err := budget.New(whole).OpenLoan(ctx, limits)
	if err != nil {
		return nil, nil, community.Member{}, err
	}
	lent, m, err := b.Borrow(ctx, node, loan, o)
	return lent, loan, m, err
}

// denied returns which of the files do not go along: those that the rules of this node deny to read, as the person named the
// directory.
func (m *Remote) denied(who *person) func(path string) bool {
	chain := permission.Chain{{Policy: who.policy()}}
	return func(path string) bool {
		read := permission.Call{Tool: "Read", Args: map[string]any{"file_path": filepath.Join(m.dir, path)}, Dir: m.dir}
		return chain.Judge(read).Action == permission.Deny
	}
}

// Member is the agent; the zero Member until Borrow has it.
func (m *Remote) Member() community.Member {
	if is := m.member.Load(); is != nil {
		return *is
	}
	return community.Member{}
}

// event passes an event on, and notes the end of a task.
func (m *Remote) event(pass func(context.Context, event.Event), e event.Event) {
	pass(m.ended, e)
	if e.Agent == string(m.Member().ID) && (e.Type == event.TypeDone || e.Type == event.TypeFailed) {
		select {
		case m.idle <- struct{}{}:
		default: // an earlier end was not read
		}
	}
}

// Send gives the agent a task and waits for the answer, and for the events that belong to it. The errors are the same as of
// community.Community.Send; community.ErrUnavailable if the node is lost, and the agent with it.
func (m *Remote) Send(ctx context.Context, task string) (reply community.Reply, err error) {
	select {
	case <-m.idle:
	default:
	}
	s := community.Signal{Perception: m.Member().Accepts[0]}
	if s.Data, err = json.Marshal(task); err == nil {
		s.OnBehalf, err = m.borrower.Owner().Constraints(ctx)
	}
	if err != nil {
		return reply, err
	}
	if reply, err = m.borrower.Send(ctx, m.Member().ID, s); community.NotBegun(err) {
		return reply, err
	}
	if why := m.Gone(); why != nil {
		return reply, fmt.Errorf("the agent on node %s is gone: %w", m.Place.Node.Name, why)
	}
	timer := time.NewTimer(eventsTimeout)
	defer timer.Stop()
	select {
	case <-m.idle:
	case <-timer.C:
	}
	return reply, err
}

// Spent returns what the agent has used.
func (m *Remote) Spent() budget.Spent { return m.loan.Account.Total() }

// Omission names the files that did not go along; "" = all did, or none should.
func (m *Remote) Omission() string { return m.files.Omission() }

// Patch returns what the agent has changed in the files that it was given, compared with the directory as it is now; nil if there
// is nothing new to apply. With apply the changes are made in the directory, all or nothing, if they are those that Patch has
// returned last; else the patch says in Why why they are not. The error is one of the transfer, or says that the agent is gone.
func (m *Remote) Patch(ctx context.Context, apply bool) (*event.Event, error) {
	if m.dir == "" {
		return nil, nil
	}
	client := m.files.Server.Client(m.files.Call, func(community.Progress) {})
	plan, left, err := m.files.Plan(ctx, client, m.Member().ID, m.dir)
	if err != nil {
		return nil, fmt.Errorf("the changes of %s on node %s were not fetched: %w", m.Member().Name, m.Place.Node.Name, err)
	}
	p := team.Patch(plan)
	p.Dir, p.Left = m.dir, left
	if len(p.Files) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(p)
	e := &event.Event{Type: event.TypePatch, Name: m.Member().Name}
	switch {
	case err != nil:
		return nil, err
	case apply && string(text) != m.shown:
		e.Why = "the files have changed since they were compared: nothing was applied"
	case apply:
		if err := plan.Apply(ctx, false); err != nil {
			e.Why = err.Error()
		} else {
			p.Applied = true
		}
	case len(plan.Conflicts()) > 0:
		e.Why = "files were changed here and there, so that nothing can be applied"
	}
	m.shown, e.Part = string(text), p
	return e, nil
}

// Close ends the agent, and waits until its node has reported that, or cannot any more.
func (m *Remote) Close(ctx context.Context) {
	m.end()
	m.borrower.Close(context.WithoutCancel(ctx))
	if m.release != nil {
		m.release() // now that the place is free
	}
}

// remotes are the agents of other nodes that work for no conversation. It is safe for concurrent use.
type remotes struct {
	mu     sync.Mutex
	agents map[community.MemberID]*Remote // guarded by mu
}

// Keep keeps an agent of another node until it has ended, Terminate is called for it, or Run ends.
func (t *Tasks) Keep(m *Remote) {
	t.kept.mu.Lock()
	defer t.kept.mu.Unlock()
	if t.kept.agents == nil {
		t.kept.agents = map[community.MemberID]*Remote{}
	}
	t.kept.agents[m.Member().ID] = m
	m.OnEnd(func() {
		t.kept.mu.Lock()
		delete(t.kept.agents, m.Member().ID)
		t.kept.mu.Unlock()
		m.Close(context.Background())
	})
}

// EndKept ends an agent that is kept, and returns whether it is one.
func (t *Tasks) EndKept(ctx context.Context, id community.MemberID) bool {
	t.kept.mu.Lock()
	m := t.kept.agents[id]
	t.kept.mu.Unlock()
	if m != nil {
		m.Close(ctx)
	}
	return m != nil
}

// Run ends the agents that are kept when ctx ends.
func (t *Tasks) Run(ctx context.Context) error {
	<-ctx.Done()
	t.kept.mu.Lock()
	all := slices.Collect(maps.Values(t.kept.agents))
	t.kept.mu.Unlock()
	var ending sync.WaitGroup
	for _, m := range all {
		ending.Go(func() { m.Close(ctx) })
	}
	ending.Wait()
	return nil
}
