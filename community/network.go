package community

import (
	"context"

	"symbio/security/identity"
)

// PerceptionPrefix turns a perception into the capability name under which a signal travels.
const PerceptionPrefix = "agent.perception."

// Network is what a community needs to reach other nodes. The implementation is
// transport/grpcpeer; the suite there (suite_*_test.go) tests this contract.
//
// The community checks the sizes of payloads, on both sides; a Network does not check them again. A Network may
// drop a message that is so large that it cannot be read.
type Network interface {
	// Run serves host to other nodes and keeps connections to them, until ctx ends; it says goodbye
	// then, and returns when all it started has ended. It is called once.
	Run(ctx context.Context, host Host) error
	// Invoke carries one call to a node and waits for the answer. It returns ErrUnavailable when the
	// node is not connected or is lost meanwhile, and otherwise the errors of this package or ctx's.
	Invoke(ctx context.Context, node NodeID, call Call) (Reply, error)
	// Tell sends one call to a node and does not wait: nil means that the call was queued. It never blocks. Calls
	// to one member arrive in the order of their Tells, each at most once. ErrBusy: too much is queued for that
	// node; ErrUnavailable and ErrTooLarge as for Invoke. Calls that were not handled are reported to
	// Host.ReportUndelivered, also those that were in flight when the connection ended.
	Tell(node NodeID, call Call) error
}

// Host is what a Network needs of the community it serves; *Community is one.
type Host interface {
	// SubscribeLocal tells a peer's watcher of this node's own catalog: a snapshot, then changes, and
	// a snapshot again when capabilities have changed. Remote members never appear in it.
	SubscribeLocal() *Subscription
	// Catalog is what this node lets others see now.
	Catalog() Catalog
	// Serve answers a call from an authenticated peer: authorised before anything else, then
	// delivered to the member or the capability.
	Serve(ctx context.Context, from Peer, call Call) (Reply, error)
	// ServeTell is Serve for a call whose caller does not wait: it makes the same checks and then puts the call
	// into the member's mailbox. It does not block. If it returns nil, done is called once, after the member has
	// handled the call: with nil, or an error that the peer may see. The member's actor calls done, which must not
	// block.
	ServeTell(from Peer, call Call, done func(error)) error
	// ReportUndelivered reports that calls of this node's Tell were not handled, or that it is not known.
	ReportUndelivered(DeliveryFailure)
	// Attach begins the lease of a newly connected peer, and retires any earlier one of that node.
	Attach(p Peer) *Lease
}

// Peer is another node whose identity is proven.
type Peer struct {
	ID   NodeID
	Name string // for people; proves nothing
	// Authority is the certificate authority that proves it: "local" for this user's own authority on this machine, else
	// the name of the cluster.
	Authority string
	Role      string
	// Labels are those that the authority proves.
	Labels identity.Labels
	Addr   string
	// MaxMessage is the largest payload in bytes that the node takes, as it announced; 0 = it announced none.
	// The community sends it no larger one.
	MaxMessage int
}

// Call is a request between nodes.
type Call struct {
	ID string
	// Member is the receiver; "" is the node itself.
	Member MemberID
	// Capability is a capability's name, or PerceptionPrefix and a perception.
	Capability  string
	Payload     []byte
	ContentType string
	// Requester is the chain of identities for which the call is made, the origin first.
	Requester []string
	// OnBehalf is what they are held to, as the caller says (Signal.OnBehalf).
	OnBehalf []byte
	// Trace is the trace that the call is part of.
	Trace Trace
	// Listen is nil, or wants to hear of the call before its answer. Network.Invoke calls it from within,
	// one update at a time, in order; it may block, and must not hold up other calls then. A Network that
	// cannot carry updates answers without. For Host.Serve it is the Network's way to the caller: it
	// blocks while the caller takes no more, until the call's context ends.
	Listen func(Update)
	// Accept is nil, or has to return nil before the call may begin (WithAcceptance); an error ends the call, which has not
	// begun then. Network.Invoke calls it once, when the other node has accepted the call, or before the call is sent to a
	// node that cannot say so. For Host.Serve it asks the caller. Such a call has no updates.
	Accept func() error
	// MaxReply is for Host.Serve: the largest payload in bytes of a reply that the caller takes; 0 = it announced
	// none. Serve returns ErrTooLarge instead of a larger reply.
	MaxReply int
}
