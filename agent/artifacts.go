package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/tool/peer"
)

// Artifacts says where a Factory keeps what is too large for a model, and pictures.
type Artifacts struct {
	// Store keeps them. Default: what is too large is cut, and the rest of it is lost.
	Store *content.Store
	// Give lets another node fetch one of this node, Fetch gets one of another node into Store.
	// Required with Store.
	Give  func(to community.NodeID, h content.Hash)
	Fetch func(ctx context.Context, from community.NodeID, h content.Hash) error
}

const (
	// maxArtifacts is how many artifacts a tree of agents can read, and maxNamed how many one
	// message can give it: a node could name any number.
	maxArtifacts, maxNamed = 4096, 64
	// maxAnswer is the longest answer of a sub-agent that its parent gets as text, in bytes, and
	// answerShown how much of a longer one. Both are below what team shows of an answer.
	maxAnswer, answerShown = 56 << 10, 48 << 10
)

// artifacts are those that a tree of agents may read: those that its calls made, and those that it
// was given with a request or a reply. That another session has one does not matter. It is safe for
// concurrent use.
type artifacts struct {
	cfg Artifacts
	// record is the session of the root: it names the artifacts, so that they are kept with it.
	record *record

	mu sync.Mutex
	// known has the node from which each is to be fetched; "" = it is here. Guarded by mu.
	known map[content.Hash]community.NodeID
	// unpin is called when the tree ends; guarded by mu.
	unpin []func()
}

// newArtifacts returns nil, for which start and end do nothing, if none are kept.
func newArtifacts(cfg Artifacts, r *record) *artifacts {
	if cfg.Store == nil {
		return nil
	}
	return &artifacts{cfg: cfg, record: r, known: map[content.Hash]community.NodeID{}}
}

// start takes up what earlier lives of the root were given. It is called at each start of the root, and
// end at each end.
func (a *artifacts) start(past []session.Entry) {
	for _, e := range past {
		if e.Kind == session.Artifact && a != nil {
			if h, err := content.ParseHash(e.Artifact.Hash); err == nil {
				a.note(h, community.NodeID(e.Artifact.Node))
			}
		}
	}
}

func (a *artifacts) end() {
	if a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, unpin := range a.unpin {
			unpin()
		}
		a.unpin = nil
		clear(a.known)
	}
}

// note lets the tree read an artifact, and reports whether that is new.
func (a *artifacts) note(h content.Hash, from community.NodeID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.known[h]
	if ok && (at == "" || from != "") || !ok && len(a.known) >= maxArtifacts {
		return false
	}
	a.known[h] = from
	a.unpin = append(a.unpin, a.cfg.Store.Pin([]content.Hash{h}))
	return true
}

// add is note with an entry in the session.
func (a *artifacts) add(h content.Hash, name string, from community.NodeID) {
	if a.note(h, from) {
		a.record.add(session.Entry{Kind: session.Artifact, Artifact: &session.ArtifactRef{Hash: h.String(), Name: name, Node: string(from)}})
	}
}

// keep stores what a call made, and returns a line by which models know it. See tool.SetConfig.Keep.
func (a *artifacts) keep(name string, data []byte) string {
	h := content.Sum(data)
	a.add(h, name, "") // first, so that it is pinned
	if err := a.cfg.Store.PutAs(h, bytes.NewReader(data), int64(len(data))); err != nil {
		return fmt.Sprintf("[%s, %d bytes, is not kept as an artifact: %v.]", name, len(data), err)
	}
	return fmt.Sprintf("[%s: %d bytes, %s, %s%v. Read it with that as file_path.]", name, len(data), http.DetectContentType(data), tool.ArtifactPrefix, h)
}

// open opens an artifact that the tree was given. It fetches it from the node that has it, also if
// another session has it here already: what a node only names must not be read.
func (a *artifacts) open(ctx context.Context, hash string) (io.ReadSeekCloser, error) {
	h, err := content.ParseHash(hash)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	from, ok := a.known[h]
	a.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("artifact %v was not given to you; those that you were given stand in your results and messages", h)
	}
	if from != "" {
		if err := a.cfg.Fetch(ctx, from, h); err != nil {
			return nil, fmt.Errorf("artifact %v of node %s: %w", h, from, err)
		}
		a.add(h, "", "")
	}
	return a.cfg.Store.Open(h)
}

// pass lets the receiver of data read the artifacts that it names and the sender may read. Of the two
// trees, one is nil if it is at another node.
func pass(ctx context.Context, data []byte, from, to *artifacts, node community.NodeID) {
	if from == to {
		return
	}
	for _, hash := range tool.ArtifactsNamed(data, maxNamed) {
		h, _ := content.ParseHash(hash) // it is one, by ArtifactsNamed
		if from == nil {
			to.add(h, "", node)
		} else if f, err := from.open(ctx, h.String()); err == nil { // else it only looks like one, or is gone
			f.Close()
			if to == nil {
				from.cfg.Give(node, h)
			} else {
				to.add(h, "", "")
			}
		}
	}
}

// exchange is the community of an agent. It passes the artifacts that its signals and their replies
// name.
type exchange struct {
	*lending.Borrower
	factory *Factory
	tree    *artifacts
}

func (e exchange) Send(ctx context.Context, to community.MemberID, s community.Signal) (community.Reply, error) {
	return e.passing(ctx, to, s, func() (community.Reply, error) { return e.Borrower.Send(ctx, to, s) })
}

func (e exchange) InvokeStream(ctx context.Context, on community.MemberID, capability string, s community.Signal, heard func(community.Update)) (community.Reply, error) {
	return e.passing(ctx, on, s, func() (community.Reply, error) { return e.Borrower.InvokeStream(ctx, on, capability, s, heard) })
}

func (e exchange) passing(ctx context.Context, with community.MemberID, s community.Signal, call func() (community.Reply, error)) (community.Reply, error) {
	m, _ := e.Member(with)
	other := (*artifacts)(nil)
	if i := e.factory.instances.byAddress(peer.Address(m)); i != nil {
		other = i.artifacts
	}
	pass(ctx, s.Data, e.tree, other, m.Node)
	reply, err := call()
	pass(ctx, reply.Data, other, e.tree, m.Node)
	return reply, err
}

// answer returns the answer to a task as its caller gets it. Of a long one of a sub-agent or a lent agent
// that is a part, and the artifact that has the whole. Another node may fetch the artifacts that it names.
func (a *Agent) answer(ctx context.Context, text string, s community.Signal) string {
	i := a.instance
	if len(text) > maxAnswer && len(s.Requester) > 0 && (i.parent != nil || i.permissions.borrower() != nil) && i.artifacts != nil {
		text = tool.Shorten(text, answerShown) + "\n" + i.artifacts.keep("the whole answer of "+i.self.Name, []byte(text))
	}
	if to := callingNode(s); to != "" {
		pass(ctx, []byte(text), i.artifacts, nil, community.NodeID(to))
	}
	return text
}
