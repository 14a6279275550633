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

// twin finds out whether a node that introduces itself is a second one with the same key. The first one is
// asked whether it is still there: it may have crashed, and this is it again. The error goes to the one
// that began later, with the mark that the other has just signed, so that it need not believe this node.
func (n *Network) twin(ctx context.Context, who *caller, run *pb.Run) error {
	who.run.Store(run)
	if who.ID == n.self {
		return n.twinHere(who, run)
	}
	v, ok := n.links.Load(who.ID)
	if !ok || run.GetInstance() == "" {
		return nil
	}
	l := v.(*link)
	if l.instance == "" || l.instance == run.GetInstance() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, twinCheck)
	defer cancel()
	d, err := l.client.Describe(ctx, n.introduction(), grpc.MaxCallRecvMsgSize(catalogSize))
	if err != nil || d.GetRun().GetInstance() == run.GetInstance() {
		return nil // it is gone
	}
	n.sayTwin(who.ID, fmt.Sprintf("two machines, at %s and %s, run as this one node: was its folder copied?", l.peer.Addr, who.addr))
	if !identity.Later(run, d.GetRun()) {
		return nil // the other one will hear it from somebody
	}
	n.server.alarm(who.ID, run)
	return twinStatus(d.GetRun())
}

// twinHere is for a caller with this node's own key.
func (n *Network) twinHere(who *caller, run *pb.Run) error {
	if twin, later := n.run.Twin(run); twin && later {
		n.end(ErrTwin)
	} else if twin {
		n.sayTwin(n.self, fmt.Sprintf("a machine at %s runs as this very node, and began later: was this node's folder copied?", who.addr))
	}
	return twinStatus(n.run.Mark())
}

// sayTwin says so where people look: in the log, among the events, and in the list of nodes.
func (n *Network) sayTwin(id community.NodeID, why string) {
	n.records.note("twin "+string(id), Event{Kind: Refused, Node: id, Why: why})
}

func twinStatus(mark *pb.Run) error {
	s, err := status.New(codes.FailedPrecondition, "another machine runs as this node").WithDetails(mark)
	if err != nil {
		return status.Error(codes.FailedPrecondition, "another machine runs as this node")
	}
	return s.Err()
}

// heedTwin looks whether an answer shows that another machine has this node's key, and ends this node when
// that one began earlier.
func (n *Network) heedTwin(err error) error {
	s := status.Convert(err)
	for _, d := range s.Details() {
		if mark, ok := d.(*pb.Run); ok {
			return n.heedMark(mark, err)
		}
	}
	return err
}

func (n *Network) heedMark(mark *pb.Run, otherwise error) error {
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

// hearTwin takes the news that another machine runs as this node and was refused.
func (n *Network) hearTwin(mark *pb.Run) {
	if n.heedMark(mark, nil) != nil {
		n.sayTwin(n.self, "another machine runs as this very node: was this node's folder copied? The one that began later is refused")
	}
}

// mirrorPause is how long an address is left alone at which this node itself was said to be, after that many looks:
// half a minute, twice as long each time, up to 10 minutes. Nothing that is said ends it early, so that who
// forges this node's name gains a few dials by it.
func mirrorPause(looks int) pause {
	d := refusedPause
	for i := 1; i < looks && d < maxMirrorPause; i++ {
		d *= 2
	}
	d = jitter(min(d, maxMirrorPause))
	return pause{least: d, length: d, stubborn: true}
}

const maxMirrorPause = 10 * time.Minute

// end makes Run return err.
func (n *Network) end(err error) {
	select {
	case n.fatal <- err:
	default:
	}
}

// introduction is what this node says of itself to one that it calls.
func (n *Network) introduction() *pb.DescribeRequest {
	removed, more := listsOf(n.cfg.Identity)
	return &pb.DescribeRequest{
		Protocol: &pb.Version{Major: n.cfg.Protocol.Major, Minor: n.cfg.Protocol.Minor}, Name: n.cfg.Name, Run: n.run.Mark(),
		Revocations: removed, MoreRevocations: more,
	}
}

// alarm tells whoever watches as that node, and is not the run that the mark is of, that there is another.
func (s *server) alarm(id community.NodeID, mark *pb.Run) {
	s.watching.Range(func(k, _ any) bool {
		if c := k.(*caller); c.ID == id && c.run.Load().GetInstance() != mark.GetInstance() {
			c.twin.Store(mark)
		}
		return true
	})
}
