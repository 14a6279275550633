package event

// Tree recognises the events of an agent and of its descendants. It learns descendants from the events that
// name their parent, and is for one goroutine.
type Tree struct {
	// members has the ids. Agents that ended stay in it, because their last events may still come.
	members map[string]bool
}

// NewTree returns the tree of an agent.
func NewTree(agent string) *Tree { return &Tree{map[string]bool{agent: true}} }

// Has reports whether an event belongs to the tree, and adds its agent if the parent is in the
// tree. Gaps belong to every tree: the reader must learn that events are missing.
func (t *Tree) Has(e Event) bool {
	if t.members[e.Parent] {
		t.members[e.Agent] = true
	}
	return e.Type == TypeGap || t.members[e.Agent]
}
