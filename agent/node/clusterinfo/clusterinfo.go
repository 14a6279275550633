// Package clusterinfo tells what is known on this machine of a cluster: which nodes it has, on which of them its authority
// is, and how long the certificate of a node here is good. The names of its fields in JSON are a contract with scripts.
//
// The one idea: two sources, which know different things, become one answer. The records of the authority name every node
// that it has let in; a running node knows who is connected.
package clusterinfo

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	statedir "symbio/agent/node/state"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// States of a node beside those of a running node's list.
const (
	Unknown = "unknown" // no node runs here that would know
	Removed = "removed"

	connected = "connected"
)

// Status is a cluster as one node of this machine has it.
type Status struct {
	Cluster   string    `json:"cluster"`
	Tag       string    `json:"tag"`
	Authority bool      `json:"authority"` // whether it is held on this machine
	Node      string    `json:"node"`
	ID        string    `json:"id"`
	Expires   time.Time `json:"expires"`
	Days      int       `json:"cert_days"` // below 0 = it has ended
	// Overdue says what to do about a certificate that was to be renewed before now; "" = none was.
	Overdue string `json:"overdue,omitempty"`
	Removed int    `json:"removed"`
	Tokens  int    `json:"tokens"` // that a node could join with; 0 where the authority is not
	// Refused is why no other node talks to this one, and what helps; "" = they do, or it does not run.
	Refused string `json:"refused,omitempty"`
	// Holders are the nodes on whose machines the authority is known to be.
	Holders []Holder `json:"holders"`
}

// Holder is a node that holds the authority.
type Holder struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"` // as of a Node
}

// Node is a node of a cluster.
type Node struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Role    string    `json:"role,omitempty"`
	State   string    `json:"state"` // as a running node has it, Removed or Unknown
	Joined  time.Time `json:"joined,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	// Authority says that its machine holds the cluster's authority.
	Authority bool `json:"authority,omitempty"`
}

// NodeOf is a record of the authority as a Node in a state.
func NodeOf(r identity.Record, state string) Node {
	return Node{ID: string(r.ID), Name: r.Name, Role: r.Role, State: state, Joined: r.Joined, Expires: r.Expires, Authority: r.Holds}
}

// Look returns what the node of that name knows of its cluster; statedir.ErrNoCluster when it is in none.
func Look(ctx context.Context, state statedir.Dir, name string) (Status, error) {
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
		Holders: []Holder{},
	}
	if err := id.Overdue(); err != nil {
		s.Overdue = err.Error()
	}
	if s.Authority {
		if err := s.readRecords(id.Cluster()); err != nil {
			return s, err
		}
	}
	s.ask(ctx, state)
	return s, nil
}

// readRecords takes from the authority's records who else holds it.
func (s *Status) readRecords(c *identity.Cluster) (err error) {
	s.addHolder(Holder{s.ID, s.Node, Unknown})
	records, err := c.Nodes()
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.Holds && !r.Removed {
			s.addHolder(Holder{string(r.ID), r.Name, Unknown})
		}
	}
	s.Tokens, err = c.OpenTokens()
	return err
}

// ask adds what the node says, if it runs: whether others refuse it, and who of them holds the authority.
func (s *Status) ask(ctx context.Context, state statedir.Dir) {
	conn, err := state.Node(s.Node).Dial()
	if err != nil {
		return
	}
	defer conn.Close()
	reply, err := symbiov1.NewControlClient(conn).Nodes(ctx, &symbiov1.NodesRequest{})
	if err != nil {
		return
	}
	for _, n := range reply.GetNodes() {
		if n.GetId() == s.ID {
			s.Refused = n.GetWhy()
		}
		if n.GetAuthority() {
			s.addHolder(Holder{n.GetId(), n.GetName(), n.GetState()})
		}
	}
}

func (s *Status) addHolder(h Holder) {
	if i := slices.IndexFunc(s.Holders, func(o Holder) bool { return o.ID == h.ID }); i >= 0 {
		s.Holders[i].State = h.State
		return
	}
	s.Holders = append(s.Holders, h)
}

// Nodes returns the nodes of the cluster: where its authority is, all that ever joined, else those that a running node
// knows. live are the latter, liveErr is why there are none.
func Nodes(state statedir.Dir, live []*symbiov1.Node, liveErr error) ([]Node, error) {
	seen := map[string]Node{}
	for _, n := range live {
		seen[n.GetId()] = Node{ID: n.GetId(), Name: n.GetName(), State: n.GetState(), Authority: n.GetAuthority()}
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
			if n.Name == "" {
				n.Name = one.Name
			}
			delete(seen, n.ID)
		}
		if liveErr != nil {
			n.State = Unknown
		}
		if r.Removed {
			n.State = Removed
		}
		nodes = append(nodes, n)
	}
	// A node that another machine with the authority has let in is known here by its connection.
	for _, n := range live {
		if other, ok := seen[n.GetId()]; ok && other.State == connected {
			nodes = append(nodes, other)
		}
	}
	return nodes, nil
}

// minPrefix is how much of an id must be given.
const minPrefix = 6

// named says whether a person who says what means a node: its name, its id, or the beginning of its id.
func named(what, name, id string) bool {
	return name == what || id == what || len(what) >= minPrefix && strings.HasPrefix(id, what)
}

// Find returns the node that a person means: among those that were certified here, else one that another machine with the
// authority has let in, by its whole id or while it is connected here. live asks the running node. The error has the code
// NotFound, or InvalidArgument when several fit.
func Find(c *identity.Cluster, what string, live func() ([]*symbiov1.Node, error)) (identity.Record, error) {
	all, err := c.Nodes()
	if err != nil {
		return identity.Record{}, err
	}
	if i := slices.IndexFunc(all, func(r identity.Record) bool { return string(r.ID) == what }); i >= 0 {
		return all[i], nil
	}
	found := slices.DeleteFunc(all, func(r identity.Record) bool { return !named(what, r.Name, string(r.ID)) })
	if len(found) == 0 {
		if id, err := identity.ParseNodeID(what); err == nil {
			return identity.Record{ID: id}, nil
		}
		nodes, _ := live() // without a running node, nobody else is known
		for _, n := range nodes {
			if id, err := identity.ParseNodeID(n.GetId()); err == nil && n.GetState() == connected && named(what, n.GetName(), n.GetId()) {
				found = append(found, identity.Record{ID: id, Name: n.GetName(), Holds: n.GetAuthority()})
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
