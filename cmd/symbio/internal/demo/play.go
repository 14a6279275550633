package demo

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"symbio/cmd/symbio/internal/node"
)

// play is what both nodes did so far, counted.
type play struct {
	show      func(node.Event)
	questions chan question // approvals that wait; one that nobody takes in time is denied by its node

	mu        sync.Mutex
	meet      chan struct{}     // closed when a knows b; guarded by mu until then
	ready     chan struct{}     // closed when a knows that b renders reports and lends agents; guarded by mu until then
	members   map[string]string // the node of each, "" = not known; guarded by mu
	spawned   map[string]string // sub-agents, by the node that has them made; guarded by mu
	nodes     map[string]bool   // guarded by mu
	provided  map[string]bool   // what a knows that b provides; guarded by mu
	remote    int               // guarded by mu
	denied    int               // guarded by mu
	mcp       int               // guarded by mu
	approvals Approvals         // guarded by mu
	steered   int               // guarded by mu
	skills    learning          // guarded by mu
}

func newPlay(show func(node.Event)) *play {
	return &play{
		show: show, questions: make(chan question, maxQuestions), meet: make(chan struct{}), ready: make(chan struct{}), members: map[string]string{},
		spawned: map[string]string{}, provided: map[string]bool{}, nodes: map[string]bool{}, skills: newLearning(),
	}
}

// maxQuestions is as many as may wait at a node.
const maxQuestions = 256

// wait waits for meet or ready.
func wait(ctx context.Context, what <-chan struct{}, limit time.Duration) bool {
	select {
	case <-what:
		return true
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return false
}

// see counts an event and shows it.
func (p *play) see(e node.Event) {
	var f seen
	known := json.Unmarshal(e.Data, &f) == nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[e.Node] = true
	p.skills.see(e)
	switch e.Type {
	case "joined", "updated":
		p.member(e, f)
	case "spawned":
		p.spawned[f.Member] = e.Node
	case "served":
		p.remote++
		if f.Capability == renderCapability && f.Error == "" {
			p.mcp++
		}
	case "decision":
		if known && !f.Approved && f.Kind == "" { // of calls of other nodes "refused" says so, too
			p.denied++
		}
	case "refused":
		p.denied++
	case "steered":
		if f.Outcome == "delivered" {
			p.steered++
		}
	}
	p.show(e)
	p.approve(e, f)
}

// seen is what the counted events have in their data.
type seen struct {
	Member, Capability, Error, Outcome, Kind string
	Local, Approved, Allow                   bool
	Provides                                 []string
}

// approve counts approvals, and puts those that wait to the person.
func (p *play) approve(e node.Event, f seen) {
	switch e.Type {
	case "approval":
		p.approvals.Asked++
		var q question
		if json.Unmarshal(e.Data, &q) != nil {
			return
		}
		select {
		case p.questions <- q:
		default:
		}
	case "answered":
		if f.Allow {
			p.approvals.Allowed++
		} else {
			p.approvals.Denied++
		}
	}
}

// member notes who lives where, and what a knows of b.
func (p *play) member(e node.Event, f seen) {
	switch {
	case f.Local:
		p.members[e.Agent] = e.Node
		return
	case p.members[e.Agent] == "":
		p.members[e.Agent] = ""
	}
	if e.Node != "a" || len(f.Provides) == 0 {
		return
	}
	for _, name := range f.Provides {
		p.provided[name] = true
	}
	closeOnce(p.meet)
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
func (p *play) note(who, text string) {
	data, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		data = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(node.Event{Time: time.Now().UTC(), Type: "note", Node: who, Data: data})
}

func (p *play) result() Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	lent := 0
	for id, by := range p.spawned {
		if home := p.members[id]; home != "" && home != by {
			lent++
		}
	}
	return Result{
		Type: "result", Members: len(p.members), Nodes: len(p.nodes), Subagents: len(p.spawned),
		RemoteCalls: p.remote, Denied: p.denied, Skills: p.skills.so(), Lent: lent, MCPCalls: p.mcp, Approvals: p.approvals, Steered: p.steered,
	}
}
