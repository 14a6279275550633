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
	show func(node.Event)

	mu        sync.Mutex
	meet      chan struct{}   // closed when a knows who renders reports; guarded by mu until then
	members   map[string]bool // guarded by mu
	nodes     map[string]bool // guarded by mu
	subagents int             // guarded by mu
	remote    int             // guarded by mu
	denied    int             // guarded by mu
	skills    learning        // guarded by mu
}

func newPlay(show func(node.Event)) *play {
	return &play{show: show, meet: make(chan struct{}), members: map[string]bool{}, nodes: map[string]bool{}, skills: newLearning()}
}

// met waits until a knows who renders reports.
func (p *play) met(ctx context.Context, limit time.Duration) bool {
	select {
	case <-p.meet:
		return true
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return false
}

// see counts an event and shows it.
func (p *play) see(e node.Event) {
	var f struct {
		Local    bool
		Provides []string
		Approved bool
		Kind     string
	}
	known := json.Unmarshal(e.Data, &f) == nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[e.Node] = true
	p.skills.see(e)
	switch e.Type {
	case "joined":
		p.members[e.Agent] = true
		if known && e.Node == "a" && !f.Local {
			p.meetOn(f.Provides)
		}
	case "spawned":
		p.subagents++
	case "served":
		p.remote++
	case "decision":
		if known && !f.Approved && f.Kind == "" { // of calls of other nodes "refused" says so, too
			p.denied++
		}
	case "refused":
		p.denied++
	}
	p.show(e)
}

func (p *play) meetOn(provides []string) {
	for _, name := range provides {
		if name != "report.render" {
			continue
		}
		select {
		case <-p.meet:
		default:
			close(p.meet)
		}
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
	return Result{
		Type: "result", Members: len(p.members), Nodes: len(p.nodes), Subagents: p.subagents,
		RemoteCalls: p.remote, Denied: p.denied, Skills: p.skills.so(),
	}
}
