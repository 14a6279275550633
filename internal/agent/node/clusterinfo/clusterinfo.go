// Package clusterinfo describes a cluster as this machine knows it: its nodes,
// the holders of its authority, and the validity of a node's certificate. The
// names of the fields in JSON are a contract with scripts.
//
// It merges two sources: the records of the authority name every node that it
// has admitted, and a running node knows which nodes are connected.
package clusterinfo

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	statedir "symbio/internal/agent/node/state"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// States of a node in addition to those that a running node reports.
const (
	Unknown = "unknown" // no node runs here that would know
	Removed = "removed"

	connected = "connected"
)

// Status is a cluster as one node of this machine knows it.
type Status struct {
	Cluster string `json:"cluster"`
	Tag     string `json:"tag"`
	// Authority reports whether this machine holds the authority of the cluster.
	Authority bool `json:"authority"`
	// Locked reports that the authority is locked: the node, or without one the disk, has no key.
	Locked  bool      `json:"locked,omitempty"`
	Node    string    `json:"node"`
	ID      string    `json:"id"`
	Expires time.Time `json:"expires"`
	// Days are the whole days until Expires, rounded down; negative = it has ended.
	Days int `json:"cert_days"`
	// Overdue says what to do about a certificate that was to be renewed before
	// now; "" = none was.
	Overdue string `json:"overdue,omitempty"`
	Removed int    `json:"removed"`
	// Tokens is the number of tokens that a node could still join with; 0 without the authority.
	Tokens int `json:"tokens"`
	// Refused is why no other node talks to this one, and what helps; "" = they
	// do, or it does not run.
	Refused string `json:"refused,omitempty"`
	// Holders are the nodes on whose machines the authority is known to be.
	Holders []Holder `json:"holders"`
	// Rotation is the replacement of the authority; nil = there is none, or it is over for long.
	Rotation *Rotation `json:"rotation,omitempty"`
	// Nodes are the nodes of the cluster, and Problems what is wrong with it; both are never nil.
	Nodes    []NodeHealth `json:"nodes"`
	Problems []Problem    `json:"problems"`
}

// Holder is a node that holds the authority.
type Holder struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"` // as of a Node
}

// Node is a node of a cluster.
type Node struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
	// Labels are those of its certificate.
	Labels  map[string]string `json:"labels,omitempty"`
	State   string            `json:"state"` // as a running node has it, Removed or Unknown
	Joined  time.Time         `json:"joined,omitzero"`
	Expires time.Time         `json:"expires,omitzero"`
	// Authority says that its machine holds the cluster's authority.
	Authority bool `json:"authority,omitempty"`
}

// NodeOf converts a record of the authority.
func NodeOf(r identity.Record, state string) Node {
	return Node{ID: string(r.ID), Name: r.Name, Role: r.Role, Labels: r.Labels.Map(), State: state, Joined: r.Joined, Expires: r.Expires, Authority: r.IsHolder()}
}

// Look returns what the node with this name knows of its cluster, or
// statedir.ErrNoCluster if it is in none. It works without a running node; then
// holders that only connections reveal are missing. grace is how long after its end a certificate is still renewed.
func Look(ctx context.Context, state statedir.Dir, name string, grace time.Duration) (Status, error) {
	if err := state.Node(name).InCluster(); err != nil {
		return Status{}, err
	}
	id, err := state.Node(name).Identity()
	if err != nil {
		return Status{}, err
	}
	s := Status{
		Cluster: id.Authority(), Tag: id.Tag(), Authority: id.Cluster() != nil, Node: name, ID: string(id.ID()),
		Expires: id.NotAfter().UTC(), Days: int(math.Floor(time.Until(id.NotAfter()).Hours() / 24)), Removed: id.Revocations().Count(),
		Holders: []Holder{}, Nodes: []NodeHealth{}, Problems: []Problem{},
	}
	if err := id.Overdue(); err != nil {
		s.Overdue = err.Error()
	}
	if s.Authority {
		s.Locked = id.Cluster().Key().Locked()
		if err := s.readRecords(id.Cluster()); err != nil {
			return s, err
		}
	}
	live, liveErr := s.ask(ctx, state, id.Revocations())
	err = s.examine(state, live, liveErr, grace)
	s.addRotation(id.Rotation(), live)
	return s, err
}

// readRecords adds the holders and open tokens from the records of the
// authority.
func (s *Status) readRecords(c *identity.Cluster) (err error) {
	// This node is a holder, also if the records do not list it.
	s.addHolder(Holder{s.ID, s.Node, Unknown})
	records, err := c.Nodes()
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.IsHolder() {
			s.addHolder(Holder{string(r.ID), r.Name, Unknown})
		}
	}
	open, err := c.Ledger().OpenTokens()
	s.Tokens = len(open)
	return err
}

// ask adds what the running node knows: whether other nodes refuse it, and
// which nodes that were not removed hold the authority. It returns the nodes that the running node knows. Without one it
// changes nothing.
func (s *Status) ask(ctx context.Context, state statedir.Dir, removed *identity.Revocations) ([]*symbiov1.Node, error) {
	conn, err := state.Node(s.Node).Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := symbiov1.NewControlClient(conn)
	if a, err := client.Authority(ctx, &symbiov1.AuthorityRequest{}); err == nil && a.GetHeld() {
		s.Locked = a.GetLocked()
	}
	reply, err := client.Nodes(ctx, &symbiov1.NodesRequest{})
	if err != nil {
		return nil, err
	}
	for _, n := range reply.GetNodes() {
		if n.GetId() == s.ID {
			s.Refused = n.GetWhy()
		}
		if n.GetAuthority() && !removed.Has(identity.NodeID(n.GetId())) {
			s.addHolder(Holder{n.GetId(), n.GetName(), n.GetState()})
		}
	}
	return reply.GetNodes(), nil
}

// addHolder adds a holder, or updates the state of a known one.
func (s *Status) addHolder(h Holder) {
	if i := slices.IndexFunc(s.Holders, func(o Holder) bool { return o.ID == h.ID }); i >= 0 {
		s.Holders[i].State = h.State
		return
	}
	s.Holders = append(s.Holders, h)
}

// Nodes returns the nodes of the cluster: on a machine with the authority all
// that ever joined, else those that a running node knows. live are the nodes of
// the running node, liveErr the reason if there are none. Nodes that cannot come back are left out, unless they are
// connected: grace is how long after its end a certificate is still renewed; negative = none is left out.
func Nodes(state statedir.Dir, live []*symbiov1.Node, liveErr error, grace time.Duration) ([]Node, error) {
	seen := map[string]Node{}
	for _, n := range live {
		seen[n.GetId()] = Node{ID: n.GetId(), Name: n.GetName(), Role: n.GetRole(), Labels: n.GetCertified(), State: n.GetState(), Authority: n.GetAuthority()}
	}
	var nodes []Node
	c, err := state.OpenCluster()
	switch {
	case errors.Is(err, statedir.ErrNoAuthority):
		for _, n := range live {
			nodes = append(nodes, seen[n.GetId()])
		}
		return nodes, liveErr
	case err != nil:
		return nil, err
	}
	records, err := c.Nodes()
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		n := NodeOf(r, "unavailable")
		if one, ok := seen[n.ID]; ok {
			n.State, n.Authority = one.State, n.Authority || one.Authority
			n.Name = cmp.Or(n.Name, one.Name)
			delete(seen, n.ID)
		} else if grace >= 0 && r.IsGone(time.Now(), grace) {
			continue
		}
		// Without a running node the connections are unknown; "unavailable" would be a guess.
		if liveErr != nil {
			n.State = Unknown
		}
		if r.Removed {
			n.State = Removed
		}
		nodes = append(nodes, n)
	}
	// A node that another machine with the authority has let in is known here
	// by its connection.
	for _, n := range live {
		if other, ok := seen[n.GetId()]; ok && other.State == connected {
			nodes = append(nodes, other)
		}
	}
	return nodes, nil
}

// pairs returns the entries of a map, KEY=VALUE.
func pairs(m map[string]string) (all []string) {
	for key, value := range m {
		all = append(all, key+"="+value)
	}
	return all
}

// Find returns the node that a person means: among those with a record, else
// among the connected ones that another holder of the authority admitted; those
// are found by their whole id even if they are not connected. live asks the
// running node. The error has the code NotFound, or InvalidArgument if several
// nodes match.
func Find(c *identity.Cluster, what string, live func() ([]*symbiov1.Node, error)) (identity.Record, error) {
	all, err := c.Nodes()
	if err != nil {
		return identity.Record{}, err
	}
	if i := slices.IndexFunc(all, func(r identity.Record) bool { return string(r.ID) == what }); i >= 0 {
		return all[i], nil
	}
	found := slices.DeleteFunc(all, func(r identity.Record) bool { return !visible.IsNamed(what, r.Name, string(r.ID)) })
	if left := slices.DeleteFunc(slices.Clone(found), func(r identity.Record) bool { return r.Removed }); len(left) > 0 {
		found = left // a node that was removed and joined again is meant as it is now
	}
	if len(found) == 0 {
		// A complete id needs no record: another holder of the authority may have admitted the
		// node.
		if id, err := identity.ParseNodeID(what); err == nil {
			return identity.Record{ID: id}, nil
		}
		nodes, _ := live() // without a running node, no other node is known
		for _, n := range nodes {
			if id, err := identity.ParseNodeID(n.GetId()); err == nil && n.GetState() == connected && visible.IsNamed(what, n.GetName(), n.GetId()) {
				labels, _ := identity.ParseLabels(pairs(n.GetCertified()))
				found = append(found, identity.Record{ID: id, Name: n.GetName(), Role: n.GetRole(), Labels: labels, Holds: n.GetAuthority()})
			}
		}
		if len(found) != 1 {
			return identity.Record{}, status.Errorf(codes.NotFound, "no node %q has joined cluster %s; `symbio cluster nodes` lists them", what, c.Name())
		}
	}
	if len(found) > 1 {
		return identity.Record{}, status.Errorf(codes.InvalidArgument, "%d nodes fit %q; name one by its id: `symbio cluster nodes` lists them", len(found), what)
	}
	return found[0], nil
}
