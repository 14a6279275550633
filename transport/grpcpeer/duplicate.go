package grpcpeer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// ErrDuplicate ends Run: another machine runs a node with this node's key and started earlier. Two
// such nodes would take each other's calls, so the later one stops. The usual cause is a copied
// data directory or a cloned virtual machine.
var ErrDuplicate = errors.New("another machine runs as this very node, and began earlier: was the node's folder copied? " +
	"Move the folder of one of the two away, so that it gets a key of its own; a node of a cluster then joins again")

// duplicateCheckTimeout is how long the earlier of two processes has to answer when another one
// claims its identity. No answer means that it crashed, and the other one is the same node after a
// restart.
const duplicateCheckTimeout = 2 * time.Second

// duplicates detects two running processes with the same node key. Each process has a random
// instance id and a signed mark with its start time (identity.Run); nodes exchange the marks in
// Describe. It is safe for concurrent use.
type duplicates struct {
	*local
	fatal chan error // ends Run
	// alarm tells the watchers that run as a node, and are not the run that the mark is of, that there is another.
	alarm func(id community.NodeID, mark *pb.Run)
}

// checkCaller decides whether a node that calls Describe is a second process with a key that is in
// use. It asks the first process whether it still runs. The process that started later gets an
// error with the other one's freshly signed mark, so that it can verify the claim itself; the
// earlier one is alarmed over its Watch stream. It returns nil for a node that is alone.
func (n *duplicates) checkCaller(ctx context.Context, remote *caller, run *pb.Run) error {
	remote.run.Store(run)
	if remote.ID == n.self() {
		return n.checkSelf(remote, run)
	}
	l, ok := n.links.get(remote.ID)
	if !ok || run.GetInstance() == "" || l.about.instance == "" || l.about.instance == run.GetInstance() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, duplicateCheckTimeout)
	defer cancel()
	d, err := l.wire.client.Describe(ctx, n.describeRequest(), grpc.MaxCallRecvMsgSize(maxCatalog))
	if err != nil || d.GetRun().GetInstance() == run.GetInstance() {
		return nil // it is gone
	}
	n.report(remote.ID, fmt.Sprintf("two machines, at %s and %s, run as this one node: was its folder copied?", l.peer.Addr, remote.addr))
	if !identity.Later(run, d.GetRun()) {
		return nil // the other process is the later one; its own peers refuse it
	}
	n.alarm(remote.ID, run)
	return duplicateStatus(d.GetRun())
}

// checkSelf is checkCaller for a caller with this node's own key. It always returns an error: a
// node does not serve itself.
func (n *duplicates) checkSelf(remote *caller, run *pb.Run) error {
	if twin, later := n.run.Twin(run); twin && later {
		n.stopNode(ErrDuplicate)
	} else if twin {
		n.report(n.self(), fmt.Sprintf("a machine at %s runs as this very node, and began later: was this node's folder copied?", remote.addr))
	}
	return duplicateStatus(n.run.Mark())
}

// report logs a duplicate and adds it to the events and the list of nodes, once a minute.
func (n *duplicates) report(id community.NodeID, why string) {
	n.records.reportOnce("twin "+string(id), Event{Kind: Refused, Node: id, Why: why})
}

// duplicateStatus returns the status for the process that started later, with the other one's mark
// as a detail.
func duplicateStatus(mark *pb.Run) error {
	s, err := status.New(codes.FailedPrecondition, "another machine runs as this node").WithDetails(mark)
	if err != nil {
		return status.Error(codes.FailedPrecondition, "another machine runs as this node")
	}
	return s.Err()
}

// checkError looks for a duplicate's mark in the details of an error from Describe. It returns errSelf for the mark of
// this very process, which answers at an address that does not show it (a proxy), and err when there is no mark.
func (n *duplicates) checkError(err error) error {
	s := status.Convert(err)
	for _, d := range s.Details() {
		if mark, ok := d.(*pb.Run); ok {
			if mark.GetInstance() == n.run.Mark().GetInstance() {
				return errSelf
			}
			return n.checkMark(mark, err)
		}
	}
	return err
}

// checkMark verifies a mark of another process. If it has this node's key, checkMark returns
// errDuplicateThere, and stops this node when the other process started earlier. For a mark of
// another node, or a forged one, it returns otherwise.
func (n *duplicates) checkMark(mark *pb.Run, otherwise error) error {
	twin, later := n.run.Twin(mark)
	switch {
	case twin && later:
		n.stopNode(ErrDuplicate)
		return errDuplicateThere
	case twin:
		return errDuplicateThere
	}
	return otherwise
}

// onAlarm handles another node's warning that a second process with this node's key has appeared
// and was refused.
func (n *duplicates) onAlarm(mark *pb.Run) {
	if n.checkMark(mark, nil) != nil {
		n.report(n.self(), "another machine runs as this very node: was this node's folder copied? The one that began later is refused")
	}
}

// stopNode makes Run return err. The channel holds one error; further ones are dropped, since one
// is enough to stop.
func (n *duplicates) stopNode(err error) {
	select {
	case n.fatal <- err:
	default:
	}
}

// describeRequest returns what this node says about itself to a node that it connects to.
func (n *duplicates) describeRequest() *pb.DescribeRequest {
	removed, more := revocationLists(n.cfg.Identity)
	return &pb.DescribeRequest{
		Protocol: protocol.toWire(), Name: n.cfg.Name, Run: n.run.Mark(),
		Revocations: removed, MoreRevocations: more, Standing: n.cfg.Identity.Rotation().Standing(),
	}
}

// alarmDuplicates leaves mark for the Watch streams of every other process that runs as node id.
// The streams send it with their next event.
func (s *server) alarmDuplicates(id community.NodeID, mark *pb.Run) {
	s.watching.Range(func(k, _ any) bool {
		if c := k.(*caller); c.ID == id && c.run.Load().GetInstance() != mark.GetInstance() {
			c.duplicate.Store(mark)
		}
		return true
	})
}
