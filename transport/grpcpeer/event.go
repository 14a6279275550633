package grpcpeer

import (
	"time"

	"symbio/community"
)

// EventKind says what happened to a connection. Its values are stable: scripts read them from
// "symbio events".
type EventKind string

// The kinds of Event.
const (
	Connected   EventKind = "connected"   // a node is verified and its lease has begun
	Lost        EventKind = "lost"        // the connection broke or fell silent
	Left        EventKind = "left"        // a node announced that it stops
	Refused     EventKind = "refused"     // the other end is not a node that this one can talk to; incoming or outgoing
	Entrusted   EventKind = "entrusted"   // a node gave this one the cluster's authority
	Unreachable EventKind = "unreachable" // no answer at a candidate's addresses; Key is for Roster.Failed
)

// Event describes something that happened to a connection.
type Event struct {
	Kind EventKind
	// Node is the node that the event is about, if verified; for a refused or unreachable
	// candidate, the node that it claims to be.
	Node community.NodeID
	Name string
	// Key is the key of the candidate; "" for an incoming connection.
	Key  string
	Addr string
	// Why is the reason, as text for people.
	Why string
}

// State is the state of a node as this node sees it.
type State string

// The states of a node.
const (
	StateSelf         State = "self"
	StateConnected    State = "connected"
	StateUnavailable  State = "unavailable"  // not connected; dialled again and again
	StateIncompatible State = "incompatible" // of another major protocol version; not called
	StateRefused      State = "refused"      // not a node this one can talk to; see NodeStatus.Why
	StateLeft         State = "left"         // it announced that it stops
)

// Via is how a connected node is reached.
type Via string

// The ways to a node.
const (
	ViaDialled  Via = "dialled"
	ViaGossip   Via = "gossip"   // without a connection: one is made when it is used
	ViaReversed Via = "reversed" // over a connection that it opened, because it could not be dialled
)

// NodeStatus is what this node knows about a node, for people (Network.Nodes).
type NodeStatus struct {
	// ID is proven for the states self, connected and left; else it is only claimed, or "".
	ID    community.NodeID
	Name  string
	State State
	Addr  string
	// Via is how a connected node is reached.
	Via Via
	// Sources are the discovery sources that say where it may be.
	Sources []string
	// Why says why it is not connected; of this node itself, why no other one talks to it.
	Why string
	// RTT is how long the node took to describe itself, catalog included.
	RTT      time.Duration
	Members  int
	Protocol string
	// CertDaysLeft is how long the certificate that it showed is still good; below 0 = it has ended.
	CertDaysLeft int
	// ClockAhead is how far its clock is ahead of this node's, as it says; nil = unknown.
	ClockAhead *time.Duration
	// Authority says that it holds the cluster's authority, or that it did when it was connected.
	Authority bool
	// Rotation is how far a connected node is in a rotation of the authority (identity.Rotation.Progress).
	Rotation string
	// Since is when the state began.
	Since time.Time
}
