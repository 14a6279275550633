package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	symbiov1 "symbio/proto/symbio/v1"
)

const (
	// maxRemoved is how many ids of removed agents and nodes a table remembers. A reader that missed
	// more gets everything again.
	maxRemoved = 1024
	// maxEvents is how many events a table has: what a reader may miss between two reads of a busy
	// community.
	maxEvents = 512
)

// table has nodes, agents and recent events, each with the version of its last change. A reader
// keeps a cursor only, and gets what changed after it: the table knows no readers, and what a
// slow one missed takes no memory. It is safe for concurrent use.
//
// The messages in a table are never changed: put replaces them.
type table struct {
	mu          sync.Mutex
	incarnation string           // changes with each open; "" = closed; guarded by mu
	version     uint64           // of the last change; guarded by mu
	floor       uint64           // removals up to it are forgotten; guarded by mu
	entries     map[key]entry    // guarded by mu
	removed     int              // entries that are removals; guarded by mu
	agents      map[string]int   // agents by their node; guarded by mu
	events      []versionedEvent // at most maxEvents, the oldest first; guarded by mu
	changed     chan struct{}    // closed and replaced at each change; guarded by mu
}

// key names an entry: the id of an agent, or of a node.
type key struct {
	agent bool
	id    string
}

// entry is a node or an agent as it is now. Without either the entry was removed.
type entry struct {
	version uint64
	node    *symbiov1.FleetNode
	agent   *symbiov1.FleetAgent
}

func (e entry) isRemoval() bool { return e.node == nil && e.agent == nil }

// equal reports whether two entries have the same content.
func (e entry) equal(o entry) bool {
	return proto.Equal(e.node, o.node) && proto.Equal(e.agent, o.agent)
}

type versionedEvent struct {
	version uint64
	event   *symbiov1.Event
}

// cursor is how far a reader has read. The zero cursor is the beginning.
type cursor struct {
	incarnation string
	version     uint64
}

func newTable() *table { return &table{changed: make(chan struct{})} }

// open empties the table and opens it with the given content.
func (t *table) open(fill func(*table)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reset()
	t.incarnation = rand.Text()
	fill(t)
	t.signal()
}

// close empties the table; reads wait until it is open again.
func (t *table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reset()
}

// reset empties the table. The caller must hold mu.
func (t *table) reset() {
	t.incarnation, t.version, t.floor, t.removed, t.events = "", 0, 0, 0, nil
	t.entries, t.agents = map[key]entry{}, map[string]int{}
}

// update changes the table in f, which uses put, remove and addEvent, in one step for readers. It
// does nothing if the table is closed.
func (t *table) update(f func(*table)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.incarnation == "" {
		return
	}
	before := t.version
	if f(t); t.version != before {
		t.signal()
	}
}

// signal wakes the readers. The caller must hold mu.
func (t *table) signal() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// put sets an entry; nothing changes if it has that content already. The caller must hold mu.
func (t *table) put(k key, e entry) {
	was, ok := t.entries[k]
	if ok && e.equal(was) || !ok && e.isRemoval() {
		return
	}
	if ok && was.isRemoval() {
		t.removed--
	}
	if was.agent != nil {
		t.agents[was.agent.GetNode()]--
	}
	if e.agent != nil {
		t.agents[e.agent.GetNode()]++
	}
	t.version++
	e.version = t.version
	t.entries[k] = e
	if e.isRemoval() {
		t.removed++
		t.forget()
	}
}

func (t *table) putNode(n *symbiov1.FleetNode)   { t.put(key{id: n.GetId()}, entry{node: n}) }
func (t *table) putAgent(a *symbiov1.FleetAgent) { t.put(key{true, a.GetId()}, entry{agent: a}) }
func (t *table) removeNode(id string)            { t.put(key{id: id}, entry{}) }
func (t *table) removeAgent(id string)           { t.put(key{true, id}, entry{}) }

// agent returns the agent with an id; nil if there is none. The caller must hold mu.
func (t *table) agent(id string) *symbiov1.FleetAgent { return t.entries[key{true, id}].agent }

// removeAgents removes the agents of a node but those that are kept. The caller must hold mu.
func (t *table) removeAgents(node string, kept map[string]bool) {
	if t.agents[node] == 0 {
		return
	}
	for k, e := range maps.Clone(t.entries) {
		if e.agent.GetNode() == node && !kept[k.id] {
			t.removeAgent(k.id)
		}
	}
}

// forget drops the older half of the removals if there are too many. The caller must hold mu.
func (t *table) forget() {
	if t.removed <= maxRemoved {
		return
	}
	var versions []uint64
	for _, e := range t.entries {
		if e.isRemoval() {
			versions = append(versions, e.version)
		}
	}
	slices.Sort(versions)
	t.floor = versions[len(versions)/2]
	maps.DeleteFunc(t.entries, func(_ key, e entry) bool { return e.isRemoval() && e.version <= t.floor })
	t.removed = len(versions) - len(versions)/2 - 1
}

// addEvent adds an event. The caller must hold mu.
func (t *table) addEvent(e *symbiov1.Event) {
	if len(t.events) == maxEvents {
		t.events = slices.Delete(t.events, 0, maxEvents/4) // a quarter at a time, so that few are moved
	}
	t.version++
	t.events = append(t.events, versionedEvent{t.version, e})
}

// since returns the changes after a cursor, the oldest first, and the cursor after them. It stops at
// the entry with which they exceed limit in bytes. Whole in the part says that the cursor was of no
// use, and the change begins from nothing; More that there are further changes.
func (t *table) since(c cursor, limit int) (*symbiov1.FleetPart, cursor) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &symbiov1.FleetPart{Change: &symbiov1.FleetChange{}}
	if p.Whole = c.incarnation != t.incarnation || c.version < t.floor && c.version > 0; p.Whole {
		c.version = 0
	}
	changes := t.after(c.version)
	c = cursor{t.incarnation, t.version}
	for _, change := range changes {
		limit -= change.addTo(p.Change)
		if c.version = change.version; limit <= 0 {
			break
		}
	}
	p.More = len(changes) > 0 && c.version < changes[len(changes)-1].version
	if !p.More {
		c.version = t.version
	}
	p.Incarnation, p.Version = c.incarnation, c.version
	return p, c
}

// change is one change of a table; exactly one of key and event is set.
type change struct {
	version uint64
	key     key
	entry   entry
	event   *symbiov1.Event
}

// after returns the changes after a version in their order. After 0, which means all, there are no
// removals. The caller must hold mu.
func (t *table) after(version uint64) (all []change) {
	for k, e := range t.entries {
		if e.version > version && (version > 0 || !e.isRemoval()) {
			all = append(all, change{version: e.version, key: k, entry: e})
		}
	}
	first, _ := slices.BinarySearchFunc(t.events, version+1, func(e versionedEvent, v uint64) int { return cmp.Compare(e.version, v) })
	for _, e := range t.events[first:] {
		all = append(all, change{version: e.version, event: e.event})
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.version, b.version) })
	return all
}

// addTo adds a change to a message and returns its size in bytes.
func (c change) addTo(m *symbiov1.FleetChange) int {
	switch {
	case c.event != nil:
		m.Events = append(m.Events, c.event)
		return proto.Size(c.event)
	case c.entry.node != nil:
		m.Nodes = append(m.Nodes, c.entry.node)
		return proto.Size(c.entry.node)
	case c.entry.agent != nil:
		m.Agents = append(m.Agents, c.entry.agent)
		return proto.Size(c.entry.agent)
	case c.key.agent:
		m.RemovedAgents = append(m.RemovedAgents, c.key.id)
	default:
		m.RemovedNodes = append(m.RemovedNodes, c.key.id)
	}
	return len(c.key.id)
}

// wait returns when the table has changes after the cursor, or with the cause of ctx when that ends.
func (t *table) wait(ctx context.Context, c cursor) error {
	for {
		t.mu.Lock()
		ready, changed := t.incarnation != "" && (t.incarnation != c.incarnation || t.version > c.version), t.changed
		t.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
