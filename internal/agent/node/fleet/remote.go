package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"symbio/community"
	"symbio/internal/actor/backoff"
	"symbio/internal/agent/node/approvals"
	"symbio/internal/security/permission/authorize"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// View is the capability with which people at other nodes see this one: its agents, what they do and
// spend, and what happens. Its input is a viewRequest, its reply a symbiov1.FleetPart as protobuf. A
// rule of authorize must name it with its prefix, except for the same user's nodes.
const View = authorize.FleetPrefix + "view"

const (
	// maxWait is how long a call of View waits for a change, callTimeout how long its caller waits for
	// the answer.
	maxWait     = 20 * time.Second
	callTimeout = 30 * time.Second
	// pollInterval is the least time between two polls of a node. Changes meanwhile come together.
	pollInterval = 400 * time.Millisecond
	// maxFailures is how many polls in a row may fail before the agents of a node are not shown any
	// more.
	maxFailures = 3
	// firstRetry and maxRetry bound the pause after a poll that failed.
	firstRetry = time.Second
	maxRetry   = 30 * time.Second
	// maxViewCalls is how many calls of View are served at a time: one for each watching node.
	maxViewCalls = 64
	// maxAgents is how many agents of one node are shown, those beyond are left out. It is how
	// many one node can have.
	maxAgents = 10_000
	// maxPartEvents is how many events of one answer are shown.
	maxPartEvents = maxEvents
)

// viewRequest is the input of View: how far the caller has read, and how large the reply may be.
type viewRequest struct {
	Incarnation string `json:"incarnation,omitempty"`
	Since       uint64 `json:"since,omitempty"`
	MaxBytes    int    `json:"max_bytes,omitempty"`
}

// limit returns about how many bytes of changes fit into a message of max bytes. The rest is for the
// last entry, which may exceed it.
func (r viewRequest) limit(max int) int {
	if r.MaxBytes > 0 && r.MaxBytes < max {
		max = r.MaxBytes
	}
	return max * 3 / 4
}

// Offer offers View to other nodes.
func (f *Fleet) Offer() error {
	view := community.Capability{Name: View, Description: "What the agents of this node do and spend, as it changes. For people at other nodes: `symbio top`.", Idempotent: true,
		Input: json.RawMessage(`{"type":["object","null"],"properties":{"incarnation":{"type":"string","maxLength":64},"since":{"type":"integer","minimum":0},"max_bytes":{"type":"integer","minimum":1}}}`)}
	return f.cfg.Community.Offer(view, approvals.RequirePerson(f.serveView, "the view of the community is for people, not for agents"), community.WithConcurrency(maxViewCalls))
}

// serveView answers View. It waits for a change for at most three quarters of the time that the call
// has.
func (f *Fleet) serveView(ctx context.Context, s community.Signal) (community.Reply, error) {
	var r viewRequest
	if err := json.Unmarshal(s.Data, &r); err != nil {
		return community.Reply{}, fmt.Errorf("%w: %w", community.ErrInvalid, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.ended, func() { cancel(community.ErrStopped) })()
	wait := maxWait
	if at, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(at)*3/4)
	}
	p, err := f.own.read(ctx, cursor{r.Incarnation, r.Since}, wait, r.limit(f.cfg.MaxMessage))
	if err != nil {
		return community.Reply{}, err
	}
	data, err := proto.Marshal(p)
	return community.Reply{Data: data, ContentType: "application/x-protobuf"}, err
}

// poll asks a node for its part, again and again, until ctx ends.
func (f *Fleet) poll(ctx context.Context, id community.NodeID) {
	at := cursor{}
	for failures := 0; ; {
		began := time.Now()
		p, err := f.fetch(ctx, id, at)
		if ctx.Err() != nil {
			return
		}
		pause := pollInterval - time.Since(began)
		if err != nil {
			failures++
			pause = backoff.Jitter(backoff.Delay(failures, firstRetry, maxRetry), 4)
			if at == (cursor{}) || failures >= maxFailures || errors.Is(err, community.ErrDenied) {
				at = cursor{}
				f.withhold(id, f.adviceFor(err))
			}
		} else {
			failures, at = 0, cursor{p.GetIncarnation(), p.GetVersion()}
			f.apply(ctx, id, p)
			if p.GetMore() {
				pause = 0
			}
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// fetch returns what changed in the part of a node, also of this one.
func (f *Fleet) fetch(ctx context.Context, id community.NodeID, at cursor) (*symbiov1.FleetPart, error) {
	if id == f.cfg.Node {
		return f.own.read(ctx, at, maxWait, maxChange)
	}
	data, err := json.Marshal(viewRequest{at.incarnation, at.version, f.cfg.MaxMessage})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := f.cfg.Community.Invoke(ctx, community.MemberID(id), View, community.Signal{Data: data, ContentType: "application/json"})
	if err != nil {
		return nil, err
	}
	var p symbiov1.FleetPart
	if err := proto.Unmarshal(reply.Data, &p); err != nil {
		return nil, fmt.Errorf("cannot decode its reply: %w", err)
	}
	if p.GetMore() && p.GetVersion() <= at.version && !p.GetWhole() {
		return nil, errors.New("its reply has nothing new and says that there is more")
	}
	return &p, nil
}

// apply takes up the answer of a node. Answers of other nodes are made fit to be shown; agents that
// are not theirs, or too many, are left out.
func (f *Fleet) apply(ctx context.Context, id community.NodeID, p *symbiov1.FleetPart) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.nodes[id]
	if m == nil || ctx.Err() != nil { // it is not polled any more
		return
	}
	m.answered, m.withheld = true, ""
	c := p.GetChange()
	for _, n := range c.GetNodes() {
		if n.GetId() == string(id) {
			m.part = cleanNode(n)
		}
	}
	f.view.update(func(t *table) {
		if p.GetWhole() {
			keeps := map[string]bool{}
			for _, a := range c.GetAgents() {
				keeps[a.GetId()] = true
			}
			t.removeAgents(string(id), keeps)
		}
		for _, gone := range c.GetRemovedAgents() {
			if t.agent(gone).GetNode() == string(id) {
				t.removeAgent(gone)
			}
		}
		f.putAgents(t, id, m, c.GetAgents())
		f.addEvents(t, id, m, c.GetEvents())
	})
	f.show(id, m)
	f.checkSettled()
}

// putAgents sets the agents of a node that are its own.
func (f *Fleet) putAgents(t *table, id community.NodeID, m *member, all []*symbiov1.FleetAgent) {
	for _, a := range all {
		if id != f.cfg.Node {
			if !memberID().MatchString(a.GetId()) || !f.owns(t, id, a.GetId()) {
				continue
			}
			if t.agent(a.GetId()).GetNode() != string(id) && t.agents[string(id)] >= maxAgents {
				continue
			}
			cleanAgent(a, id, m.status.GetName())
		}
		t.putAgent(a)
	}
}

// owns reports whether an agent can be of a node: the community knows it there, or knows it nowhere
// yet and no other node has named it.
func (f *Fleet) owns(t *table, node community.NodeID, agent string) bool {
	if m, ok := f.cfg.Community.Member(community.MemberID(agent)); ok {
		return m.Node == node
	}
	of := t.agent(agent)
	return of == nil || of.GetNode() == string(node)
}

// addEvents adds the latest events of a node.
func (f *Fleet) addEvents(t *table, id community.NodeID, m *member, all []*symbiov1.Event) {
	for _, e := range all[max(0, len(all)-maxPartEvents):] {
		if id != f.cfg.Node {
			e = cleanEvent(e, m.status.GetName())
		}
		if e != nil {
			t.addEvent(e)
		}
	}
}

// withhold shows a node without its agents, and why.
func (f *Fleet) withhold(id community.NodeID, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.nodes[id]
	if m == nil {
		return
	}
	m.answered, m.withheld, m.part = true, why, nil
	f.view.update(func(t *table) { t.removeAgents(string(id), nil) })
	f.show(id, m)
	f.checkSettled()
}

// adviceFor returns why a node does not show its agents, and what to do about it.
func (f *Fleet) adviceFor(err error) string {
	switch {
	case errors.Is(err, community.ErrDenied):
		if why := community.Explanation(err); why != "" {
			return visible.Line(why, maxText)
		}
		return fmt.Sprintf("it does not let this node see its agents; add to its configuration: authorize: [{from: %q, invoke: [%q]}]", f.cfg.Node, View)
	case errors.Is(err, community.ErrNotProvided), errors.Is(err, community.ErrNotFound):
		return "its version of symbio cannot show its agents; update symbio on that node"
	}
	return visible.Line(err.Error(), maxText)
}
