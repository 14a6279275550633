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

// ErrTwin ends Run: another machine runs a node with this node's key, and did before this one.
var ErrTwin = errors.New("another machine runs as this very node, and began earlier: was the node's folder copied? " +
	"Move the folder of one of the two away, so that it gets a key of its own; a node of a cluster then joins again")

// twinCheck is how long a node may take to show that it is still there when another claims to be it.
const twinCheck = 2 * time.Second

// twins notices when two machines run with one node's key.
type twins struct {
	*local
	fatal chan error // ends Run
	// alarm tells the watchers that run as a node, and are not the run that the mark is of, that there is another.
	alarm func(id community.NodeID, mark *pb.Run)
}

// admit finds out whether a node that describes itself is a second one with the same key. It asks the first one
// whether it is still there: it may have crashed, and this is it again. The error goes to the one that began
// later, with the mark that the other has just signed, so that it need not believe this node.
func (n *twins) admit(ctx context.Context, who *caller, run *pb.Run) error {
	who.run.Store(run)
	if who.ID == n.self {
		return n.admitSelf(who, run)
	}
	l, ok := n.links.get(who.ID)
	if !ok || run.GetInstance() == "" || l.instance == "" || l.instance == run.GetInstance() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, twinCheck)
	defer cancel()
	d, err := l.client.Describe(ctx, n.introduction(), grpc.MaxCallRecvMsgSize(maxCatalog))
	if err != nil || d.GetRun().GetInstance() == run.GetInstance() {
		return nil // it is gone
	}
	n.report(who.ID, fmt.Sprintf("two machines, at %s and %s, run as this one node: was its folder copied?", l.peer.Addr, who.addr))
	if !identity.Later(run, d.GetRun()) {
		return nil // another node tells the other one
	}
	n.alarm(who.ID, run)
	return twinStatus(d.GetRun())
}

// admitSelf is admit for a caller with this node's own key.
func (n *twins) admitSelf(who *caller, run *pb.Run) error {
	if twin, later := n.run.Twin(run); twin && later {
		n.end(ErrTwin)
	} else if twin {
		n.report(n.self, fmt.Sprintf("a machine at %s runs as this very node, and began later: was this node's folder copied?", who.addr))
	}
	return twinStatus(n.run.Mark())
}

// report tells of a twin in the log, among the events, and in the list of nodes.
func (n *twins) report(id community.NodeID, why string) {
	n.records.note("twin "+string(id), Event{Kind: Refused, Node: id, Why: why})
}

func twinStatus(mark *pb.Run) error {
	s, err := status.New(codes.FailedPrecondition, "another machine runs as this node").WithDetails(mark)
	if err != nil {
		return status.Error(codes.FailedPrecondition, "another machine runs as this node")
	}
	return s.Err()
}

// check looks whether the error of a node shows that another machine has this node's key, and ends this node when
// that one began earlier.
func (n *twins) check(err error) error {
	s := status.Convert(err)
	for _, d := range s.Details() {
		if mark, ok := d.(*pb.Run); ok {
			return n.checkMark(mark, err)
		}
	}
	return err
}

func (n *twins) checkMark(mark *pb.Run, otherwise error) error {
	twin, later := n.run.Twin(mark)
	switch {
	case twin && later:
		n.end(ErrTwin)
		return errTwin
	case twin:
		return errTwin
	}
	return otherwise
}

// alarmed takes the news that another machine runs as this node and was refused.
func (n *twins) alarmed(mark *pb.Run) {
	if n.checkMark(mark, nil) != nil {
		n.report(n.self, "another machine runs as this very node: was this node's folder copied? The one that began later is refused")
	}
}

// end makes Run return err.
func (n *twins) end(err error) {
	select {
	case n.fatal <- err:
	default:
	}
}

// introduction returns what this node says of itself to a node that it dials.
func (n *twins) introduction() *pb.DescribeRequest {
	removed, more := listsOf(n.cfg.Identity)
	return &pb.DescribeRequest{
		Protocol: protocol.toWire(), Name: n.cfg.Name, Run: n.run.Mark(),
		Revocations: removed, MoreRevocations: more,
	}
}

// alarm tells the watchers that run as that node, and are not the run that the mark is of, that there is another.
func (s *server) alarm(id community.NodeID, mark *pb.Run) {
	s.watching.Range(func(k, _ any) bool {
		if c := k.(*caller); c.ID == id && c.run.Load().GetInstance() != mark.GetInstance() {
			c.twin.Store(mark)
		}
		return true
	})
}
