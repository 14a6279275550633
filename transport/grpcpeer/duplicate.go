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

// ErrDuplicate ends Run: another machine runs a node with this node's key, and did before this one.
var ErrDuplicate = errors.New("another machine runs as this very node, and began earlier: was the node's folder copied? " +
	"Move the folder of one of the two away, so that it gets a key of its own; a node of a cluster then joins again")

// duplicateCheckTimeout is how long a node may take to show that it is still there when another claims to be it.
const duplicateCheckTimeout = 2 * time.Second

// duplicates notices when two machines run with one node's key.
type duplicates struct {
	*local
	fatal chan error // ends Run
	// alarm tells the watchers that run as a node, and are not the run that the mark is of, that there is another.
	alarm func(id community.NodeID, mark *pb.Run)
}

// checkCaller finds out whether a node that describes itself is a second one with the same key. It asks the first one
// whether it is still there: it may have crashed, and this is it again. The error goes to the one that began
// later, with the mark that the other has just signed, so that it need not believe this node.
func (n *duplicates) checkCaller(ctx context.Context, remote *caller, run *pb.Run) error {
	remote.run.Store(run)
	if remote.ID == n.self {
		return n.checkSelf(remote, run)
	}
	l, ok := n.links.get(remote.ID)
	if !ok || run.GetInstance() == "" || l.instance == "" || l.instance == run.GetInstance() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, duplicateCheckTimeout)
	defer cancel()
	d, err := l.client.Describe(ctx, n.describeRequest(), grpc.MaxCallRecvMsgSize(maxCatalog))
	if err != nil || d.GetRun().GetInstance() == run.GetInstance() {
		return nil // it is gone
	}
	n.report(remote.ID, fmt.Sprintf("two machines, at %s and %s, run as this one node: was its folder copied?", l.peer.Addr, remote.addr))
	if !identity.Later(run, d.GetRun()) {
		return nil // another node tells the other one
	}
	n.alarm(remote.ID, run)
	return duplicateStatus(d.GetRun())
}

// checkSelf is admit for a caller with this node's own key.
func (n *duplicates) checkSelf(remote *caller, run *pb.Run) error {
	if twin, later := n.run.Twin(run); twin && later {
		n.stopNode(ErrDuplicate)
	} else if twin {
		n.report(n.self, fmt.Sprintf("a machine at %s runs as this very node, and began later: was this node's folder copied?", remote.addr))
	}
	return duplicateStatus(n.run.Mark())
}

// report tells of a twin in the log, among the events, and in the list of nodes.
func (n *duplicates) report(id community.NodeID, why string) {
	n.records.reportOnce("twin "+string(id), Event{Kind: Refused, Node: id, Why: why})
}

func duplicateStatus(mark *pb.Run) error {
	s, err := status.New(codes.FailedPrecondition, "another machine runs as this node").WithDetails(mark)
	if err != nil {
		return status.Error(codes.FailedPrecondition, "another machine runs as this node")
	}
	return s.Err()
}

// checkError looks whether the error of a node shows that another machine has this node's key, and ends this node when
// that one began earlier.
func (n *duplicates) checkError(err error) error {
	s := status.Convert(err)
	for _, d := range s.Details() {
		if mark, ok := d.(*pb.Run); ok {
			return n.checkMark(mark, err)
		}
	}
	return err
}

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

// onAlarm takes the news that another machine runs as this node and was refused.
func (n *duplicates) onAlarm(mark *pb.Run) {
	if n.checkMark(mark, nil) != nil {
		n.report(n.self, "another machine runs as this very node: was this node's folder copied? The one that began later is refused")
	}
}

// stopNode makes Run return err.
func (n *duplicates) stopNode(err error) {
	select {
	case n.fatal <- err:
	default:
	}
}

// describeRequest returns what this node says of itself to a node that it dials.
func (n *duplicates) describeRequest() *pb.DescribeRequest {
	removed, more := revocationLists(n.cfg.Identity)
	return &pb.DescribeRequest{
		Protocol: protocol.toWire(), Name: n.cfg.Name, Run: n.run.Mark(),
		Revocations: removed, MoreRevocations: more,
	}
}

// alarmDuplicates tells the watchers that run as that node, and are not the run that the mark is of, that there is another.
func (s *server) alarmDuplicates(id community.NodeID, mark *pb.Run) {
	s.watching.Range(func(k, _ any) bool {
		if c := k.(*caller); c.ID == id && c.run.Load().GetInstance() != mark.GetInstance() {
			c.duplicate.Store(mark)
		}
		return true
	})
}
