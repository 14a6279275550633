package demo

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"symbio/agent/event"
)

// observer counts the events of both nodes and shows them.
type observer struct {
	show  func(event.Event)
	met   chan struct{} // closed when a knows b
	ready chan struct{} // closed when a knows that b renders reports and lends agents

	mu       sync.Mutex
	counts   Result            // guarded by mu
	members  map[string]string // the node of each, "" = not known; guarded by mu
	spawned  map[string]string // sub-agents, by the node that has them made; guarded by mu
	nodes    map[string]bool   // guarded by mu
	provided map[string]bool   // the capabilities that a knows of b; guarded by mu
	skills   skillCalls        // guarded by mu
}

func newObserver(show func(event.Event)) *observer {
	return &observer{
		show: show, met: make(chan struct{}), ready: make(chan struct{}), counts: Result{Type: "result", Skills: Skills{Catalog: []string{}}},
		members: map[string]string{}, spawned: map[string]string{}, provided: map[string]bool{}, nodes: map[string]bool{},
		skills: skillCalls{granted: map[string]bool{}, asked: map[string]bool{}, lifted: map[string]bool{}},
	}
}

// wait waits for met or ready.
func wait(ctx context.Context, what <-chan struct{}, limit time.Duration) bool {
	select {
	case <-what:
		return true
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return false
}

// observe counts an event and shows it.
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
	case "joined", "updated":
		p.member(e, d)
	case "spawned":
		p.spawned[d.Member] = e.Node
	case "served":
		c.RemoteCalls++
		if d.Capability == renderCapability && d.Error == "" {
			c.MCPCalls++
		}
	case "decision":
		if !d.Approved && d.Kind == "" { // of calls of other nodes "refused" says so, too
			c.Denied++
		}
	case "refused":
		c.Denied++
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

// member notes who lives where, and what a knows of b. The caller holds mu.
func (p *observer) member(e event.Event, d event.Fields) {
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
	if p.provided[renderCapability] && p.provided[lendCapability] {
		closeOnce(p.ready)
	}
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// note shows something that the nodes themselves do not say.
func (p *observer) note(who, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(event.Event{Time: time.Now().UTC(), Type: "note", Node: who, Data: json.RawMessage(encode(object{"text": text}))})
}

func (p *observer) result() Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.counts
	for id, by := range p.spawned {
		if home := p.members[id]; home != "" && home != by {
			r.Lent++
		}
	}
	r.Members, r.Nodes, r.Subagents = len(p.members), len(p.nodes), len(p.spawned)
	return r
}

// skillCalls follows calls that skills grant. A call is known by its agent and tool.
type skillCalls struct {
	granted map[string]bool // a skill grants it now
	asked   map[string]bool // it was to be asked about
	lifted  map[string]bool // it was to be asked about, and a grant allowed it
}

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
