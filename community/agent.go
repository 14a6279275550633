package community

import "context"

// Signal is a message to a member: the data, and the perception that selects the handler.
type Signal struct {
	Perception  string
	Data        []byte
	ContentType string // "" = application/json
	// Requester is the chain of identities for which the call is made, the origin first. For a signal from another
	// node the community puts that node, as its certificate names it, in front.
	Requester []string
	// OnBehalf are the constraints of the requesters, in the form of package permission; empty if there are none.
	// For a signal from another node they are that node's claim.
	OnBehalf []byte
}

// Reply is the answer of a member or a capability.
type Reply struct {
	Data        []byte
	ContentType string
}

// Agent is a member that runs in this process. The community calls Receive for one signal at
// a time. ctx ends with the caller's deadline or cancellation, and when the agent is to stop. If Receive panics,
// the caller gets ErrAgentFailed and the agent is restarted.
type Agent interface {
	// Perceptions returns the kinds of signal that the agent accepts. It is called once, by Spawn.
	Perceptions() []string
	Receive(ctx context.Context, s Signal) (Reply, error)
}

// Terminator is an Agent that releases resources before it ends. Terminate is called once,
// after the last Receive: when the agent ends, or has failed and is replaced. ctx has a deadline. An error is
// logged.
type Terminator interface {
	Terminate(ctx context.Context) error
}

// Replicator is an Agent that can create another agent of its kind.
type Replicator interface {
	Replicate(ctx context.Context, r Replica) (Member, error)
}

// Replica describes a new copy of an agent. It can only restrict what the parent has.
type Replica struct {
	Name   string   // for people; "" = the parent's name and a number
	Reason string   // why it is needed, for the event log
	Keep   []string // the tools it may have of its parent's; nil = all of them
	Node   string   // the name or id of another node that is to lend it; "" = this one
}
