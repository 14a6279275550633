package community

import "context"

// Signal is a message to a member: data, and the perception by which the member takes it in.
type Signal struct {
	Perception  string
	Data        []byte
	ContentType string // "" = application/json
	// Requester is the chain of who acts on whose behalf, the origin first. For a signal from
	// another node the community has put that node, as its certificate names it, in front.
	Requester []string
	// OnBehalf is what they are held to, as package permission writes it; empty = nobody said. It comes with a signal
	// from another node as that node says it, and goes to other nodes as it is given.
	OnBehalf []byte
}

// Reply is what a member or a capability answered.
type Reply struct {
	Data        []byte
	ContentType string
}

// Agent is somebody who can live in a community (spec: Communicable). The community calls Receive
// for one signal at a time, from one goroutine; ctx ends with the caller's deadline or
// cancellation, and when the agent is to stop. A panic in Receive is the caller's ErrAgentFailed,
// and a restart of the agent.
type Agent interface {
	// Perceptions are the kinds of signal the agent takes in. They are read once, at the spawn.
	Perceptions() []string
	Receive(ctx context.Context, s Signal) (Reply, error)
}

// Terminator is an Agent that has something to tidy up before it ends (spec: Terminatable). Terminate
// is called once, and Receive never again after it: when the agent has done its last signal, or has
// failed and another is made in its place. ctx has a deadline. An error is logged.
type Terminator interface {
	Terminate(ctx context.Context) error
}

// Replicator is an Agent that can make another of its kind (spec: Replicable).
type Replicator interface {
	Replicate(ctx context.Context, r Replica) (Member, error)
}

// Replica says what a new copy is to be. It can only narrow what its parent has.
type Replica struct {
	Name   string   // for people; "" = the parent's name and a number
	Reason string   // why it is needed, for the event log
	Keep   []string // the tools it may have of its parent's; nil = all of them
	Node   string   // the name or id of another node that is to lend it; "" = this one
}
