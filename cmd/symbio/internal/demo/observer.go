package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"symbio/agent/event"
)

// observer counts the events of both nodes and shows them. Its methods may be called by several
// goroutines: each node has one that reads its events.
type observer struct {
	// show is called with mu held, so that it gets one event at a time.
	show func(event.Event)
	// met is closed when node a knows node b.
	met chan struct{}
	// ready is closed when node a knows that b renders reports and lends agents.
	ready chan struct{}

	// lentWorks is closed when the sub-agent on node b has answered once.
	lentWorks chan struct{}

	// mu guards the fields below.
	mu sync.Mutex
	// counts is the result so far.
	counts Result
	// members has the node of each member, "" while it is not known.
	members map[string]string
	// spawned has for each sub-agent the node on which its parent lives.
	spawned map[string]string
	// parts has for each sub-agent that has not failed what it surveys.
	parts map[string]string
	// nodes are the nodes that reported anything.
	nodes map[string]bool
	// provided are the capabilities of b that a knows.
	provided map[string]bool
	// skills follows what skills allow.
	skills skillCalls
}

func newObserver(show func(event.Event)) *observer {
	return &observer{
		show: show, met: make(chan struct{}), ready: make(chan struct{}), lentWorks: make(chan struct{}), counts: Result{Type: "result", Skills: Skills{Catalog: []string{}}},
		members: map[string]string{}, spawned: map[string]string{}, parts: map[string]string{}, provided: map[string]bool{}, nodes: map[string]bool{},
		skills: skillCalls{granted: map[string]bool{}, asked: map[string]bool{}, lifted: map[string]bool{}},
	}
}

// wait blocks until the channel is closed and returns true; false after limit or the end of ctx.
func wait(ctx context.Context, what <-chan struct{}, limit time.Duration) bool {
	select {
	case <-what:
		return true
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return false
}

// observe counts an event and shows it. It is safe for concurrent use.
func (p *observer) observe(e event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[e.Node] = true
	if d, err := e.Fields(); err == nil {
		p.count(e, d)
		p.skills.count(&p.counts.Skills, e, d)
	}
	p.show(e)
}

// count counts an event. The caller holds mu.
func (p *observer) count(e event.Event, d event.Fields) {
	c := &p.counts
	switch e.Type {
	case "joined", "updated", "became available":
		p.memberEvent(e, d)
	case "spawned":
		p.spawned[d.Member], p.parts[d.Member] = e.Node, strings.TrimPrefix(d.Text, "survey ")
	case "failed":
		delete(p.parts, e.Agent)
	case "served":
		c.RemoteCalls++
		if d.Capability == renderCapability && d.Error == "" {
			c.MCPCalls++
		}
	case "decision":
		// A refused call of another node has an event "refused" as well, which is counted below.
		if !d.Approved && d.Kind == "" {
			c.Denied++
		}
	case "refused":
		c.Denied++
	case "turn":
		if e.Node == "b" {
			closeOnce(p.lentWorks)
		}
	case "session":
		c.Interrupted++
	case "steered":
		if d.Outcome == "delivered" {
			c.Steered++
		}
	case "approval":
		c.Approvals.Asked++
	case "answered":
		if d.Allow {
			c.Approvals.Allowed++
		} else {
			c.Approvals.Denied++
		}
	}
}

// memberEvent records where a member lives, and what a knows of b. The caller holds mu.
func (p *observer) memberEvent(e event.Event, d event.Fields) {
	switch {
	case d.Local:
		p.members[e.Agent] = e.Node
		return
	case p.members[e.Agent] == "":
		p.members[e.Agent] = ""
	}
	if e.Node != "a" || len(d.Provides) == 0 {
		return
	}
	for _, name := range d.Provides {
		p.provided[name] = true
	}
	closeOnce(p.met)
	if p.offersAll() {
		closeOnce(p.ready)
	}
}

// offersAll reports whether a knows that b renders reports and lends agents. The caller holds mu.
func (p *observer) offersAll() bool {
	return p.provided[renderCapability] && p.provided[lendCapability]
}

// isBack is offersAll for callers that do not hold mu.
func (p *observer) isBack() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.offersAll()
}

// killed forgets what node b offered.
func (p *observer) killed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.provided)
}

// closeOnce closes a channel that may be closed already. The caller holds mu; without it two
// goroutines could both find it open.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// note shows a remark of the tour itself as an event of the node.
func (p *observer) note(who, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(event.Event{Time: time.Now().UTC(), Type: "note", Node: who, Data: json.RawMessage(encode(object{"text": text}))})
}

// result returns the counts. A sub-agent counts as lent when its node is not its parent's.
func (p *observer) result() Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.counts
	for id, by := range p.spawned {
		if home := p.members[id]; home != "" && home != by {
			r.Lent++
		}
	}
	r.Parts = map[string][]string{"a": {}, "b": {}}
	for id, part := range p.parts {
		home := cmp.Or(p.members[id], p.spawned[id])
		r.Parts[home] = append(r.Parts[home], part)
		slices.Sort(r.Parts[home])
	}
	r.Members, r.Nodes, r.Subagents = len(p.members), len(p.nodes), len(p.spawned)
	return r
}

// skillCalls follows the calls that skills allow, to tell whether a skill changed the verdict. The
// keys are "AGENT TOOL".
type skillCalls struct {
	// granted: a skill allows it now.
	granted map[string]bool
	// asked: it needed approval before.
	asked map[string]bool
	// lifted: it needed approval before, and a skill allowed it later.
	lifted map[string]bool
}

// count adds an event to the counts. The order of the cases of a decision matters: a call that
// needs approval after a skill allowed it is counted as asked again, not as new.
func (s *skillCalls) count(c *Skills, e event.Event, d event.Fields) {
	switch e.Type {
	case "catalog":
		for name := range strings.SplitSeq(d.Text, ", ") {
			if !slices.Contains(c.Catalog, name) {
				c.Catalog = append(c.Catalog, name)
			}
		}
	case "skill_activated":
		c.Activations++
	case "skill_granted", "skill_deactivated":
		for _, rule := range d.Rules {
			tool, _, _ := strings.Cut(rule, "(")
			s.granted[e.Agent+" "+tool] = e.Type == "skill_granted"
		}
		if e.Type == "skill_deactivated" && d.Why == "given back" {
			c.GivenBack++
		}
	case "decision":
		switch call := e.Agent + " " + d.Tool; {
		case d.Verdict == "ask" && s.lifted[call] && !s.granted[call]:
			c.AskedAgain++
		case d.Verdict == "ask":
			s.asked[call] = true
		case d.Verdict == "allow" && strings.HasPrefix(d.Source, "skill:") && s.asked[call]:
			s.lifted[call] = true
			c.Lifted++
		case d.Verdict == "deny" && s.granted[call] && d.Source == "config":
			c.StillDenied++
		}
	}
}
