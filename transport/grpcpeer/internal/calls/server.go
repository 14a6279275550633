package calls

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// Server answers the calls of other nodes: the methods Invoke, InvokeStream and Link of the gRPC
// service Peer. Its fields are set before the first request and constant afterwards.
type Server struct {
	pb.UnimplementedPeerServer
	// Host answers the calls. It is set before the first one.
	Host community.Host
	// Caller returns the proven caller of a request, by the connection it came over.
	Caller func(context.Context) (Caller, bool)
	// Name is this node's name for people.
	Name string
	// MaxMessage is the longest payload of an answer that this node sends, in bytes.
	MaxMessage int
	// MaxCalls is how many calls of a connection's Link streams may be under way.
	MaxCalls int
	// MaxDeadline ends a call whatever its caller wants.
	MaxDeadline time.Duration
	Logger      *slog.Logger

	confirming sync.WaitGroup // waits of held calls for their callers
}

// Wait returns when all goroutines of the server have ended, which they do after their streams.
func (s *Server) Wait() { s.confirming.Wait() }

// Caller is the verified other end of a connection. It is safe for concurrent use.
type Caller interface {
	From() community.Peer
	Connection() *Connection
}

// Connection is the state that the Link streams of one connection share: which lanes are open, and
// how many calls are in progress on all of them. The zero value is ready to use. It is safe for
// concurrent use.
type Connection struct {
	calls atomic.Int64 // under way
	mu    sync.Mutex
	lanes [lanes]*outbox // open here; guarded by mu
}

// attach registers the outbox of a lane. It returns false when the lane is open already.
func (c *Connection) attach(lane int, out *outbox) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lanes[lane] != nil {
		return false
	}
	c.lanes[lane] = out
	return true
}

// detach removes a lane whose stream has ended.
func (c *Connection) detach(lane int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lanes[lane] = nil
}

// bulk returns the outbox for long answers; nil when the other node has not opened that lane.
func (c *Connection) bulk() *outbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lanes[bulk]
}

// Invoke answers one call on a gRPC stream of its own. Nodes use Link; this is for clients in other
// languages.
func (s *Server) Invoke(ctx context.Context, r *pb.InvokeRequest) (*pb.InvokeReply, error) {
	remote, ok := s.Caller(ctx)
	if !ok {
		return nil, ToStatus(community.ErrDenied)
	}
	ctx, cancel := s.withDeadline(ctx, r)
	defer cancel()
	reply, err := s.serve(ctx, remote, callFrom(r), s.MaxMessage)
	if err != nil {
		return nil, ToStatus(err)
	}
	return &pb.InvokeReply{Payload: reply.Data, ContentType: reply.ContentType}, nil
}

// serve passes one call to the host. The host checks the sizes of the request and of the reply,
// which may have at most maxReply bytes. serve checks only what the wire needs: that the content
// type is text and not too long.
func (s *Server) serve(ctx context.Context, remote Caller, call community.Call, maxReply int) (community.Reply, error) {
	call.MaxReply = maxReply
	reply, err := s.Host.Serve(ctx, remote.From(), call)
	switch {
	case err != nil:
		return community.Reply{}, err
	case len(reply.ContentType) > maxContentType || !utf8.ValidString(reply.ContentType):
		return community.Reply{}, community.ErrAgentFailed
	}
	return reply, nil
}

// withDeadline returns a context with the shortest of three deadlines: gRPC's, the request's, and this node's own.
func (s *Server) withDeadline(ctx context.Context, r *pb.InvokeRequest) (context.Context, context.CancelFunc) {
	limit := s.deadline(r)
	// gRPC rounds up to a millisecond, which is not worth a second timer.
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= limit+time.Millisecond {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

// deadline returns how long the request and this node let a call take.
func (s *Server) deadline(r *pb.InvokeRequest) time.Duration {
	limit := s.MaxDeadline
	if d := r.GetDeadline(); d.IsValid() {
		limit = min(limit, d.AsDuration())
	}
	return limit
}

// busy is the error of a call over MaxCalls: more than a community serves.
func (s *Server) busy() error {
	return community.Explain(community.ErrBusy, fmt.Sprintf("%s takes %d calls of a connection at a time", s.Name, s.MaxCalls))
}
