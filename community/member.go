package community

import (
	"encoding/json"

	"symbio/security/identity"
)

// NodeID names a node: a hash of its public key, 32 hex digits.
type NodeID = identity.NodeID

// MemberID names a member: 32 hex digits.
type MemberID string

// Member is a participant of the community: an agent of this or another node, or another node with
// the capabilities it offers. Members are values; a change makes a new one.
type Member struct {
	ID   MemberID
	Name string
	Node NodeID
	// Accepts are the perceptions it receives, sorted.
	Accepts []string
	// Provides are the capabilities it offers, sorted. Local agents provide nothing: a capability
	// belongs to a node, and is for other nodes.
	Provides []string
	// Available is whether it can be reached now.
	Available bool
	// Metadata is what its maker says of it; of a remote member, data from a stranger.
	Metadata map[string]string
}

// Capability is a named service that a node offers to other nodes.
type Capability struct {
	Name        string
	Description string
	// Input and Output are JSON schemas; nil = anything.
	Input, Output json.RawMessage
	// Idempotent says that calling it twice does no harm.
	Idempotent bool
	// Places is how many calls of it are served at once; 0 = not known. Offer sets it.
	Places int
}

// Catalog is what a node lets others see of itself.
type Catalog struct {
	Members      []Member
	Capabilities []Capability
}
