package calls

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// errNoAnswer is the error of a call that its node ended with success and without an answer.
var errNoAnswer = community.Explain(community.ErrAgentFailed, "its node ended the call without an answer")

// invokeStream makes a call whose caller wants updates, on a gRPC stream of its own.
//
// It reads the stream and calls call.Listen in the caller's goroutine: a slow listener then fills
// the stream's HTTP/2 window and makes the provider wait, without delaying other calls. It returns
// at the first reply and ignores what comes after. ErrBusy: Limits.Calls calls with a listener are
// in flight.
func (c *Client) invokeStream(ctx context.Context, call community.Call) (community.Reply, error) {
	select {
	case c.listening <- struct{}{}:
		defer func() { <-c.listening }()
	default:
		return community.Reply{}, busyWith(c.cfg.MaxCalls)
	}
	streaming, end := context.WithCancel(ctx)
	defer end()
	at, _ := ctx.Deadline()
	stream, err := c.rpc.InvokeStream(streaming, requestTo(call, time.Until(at)))
	for err == nil {
		var e *pb.InvokeEvent
		if e, err = stream.Recv(); err != nil {
			break
		}
		if r := e.GetReply(); r != nil {
			return community.Reply{Data: r.GetPayload(), ContentType: r.GetContentType()}, nil
		}
		call.Listen(updateFrom(e))
	}
	switch {
	case ctx.Err() != nil:
		return community.Reply{}, context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return community.Reply{}, errNoAnswer
	}
	return community.Reply{}, notCanceled(FromStatus(err))
}

// InvokeStream answers one call and sends its updates before the reply.
func (s *Server) InvokeStream(r *pb.InvokeRequest, stream grpc.ServerStreamingServer[pb.InvokeEvent]) error {
	remote, ok := s.Caller(stream.Context())
	if !ok {
		return ToStatus(community.ErrDenied)
	}
	ctx, cancel := s.withDeadline(stream.Context(), r)
	defer cancel()
	reply, err := s.serveStream(ctx, remote, r, stream)
	if err != nil {
		return ToStatus(err)
	}
	return stream.Send(&pb.InvokeEvent{Event: &pb.InvokeEvent_Reply{Reply: &pb.InvokeReply{Payload: reply.Data, ContentType: reply.ContentType}}})
}

// serveStream serves a call and sends its updates from a goroutine of its own. stream.Send blocks
// while the caller does not read and cannot be canceled; with the extra goroutine the call itself
// still ends with ctx and frees its place in the community.
func (s *Server) serveStream(ctx context.Context, remote Caller, r *pb.InvokeRequest, stream grpc.ServerStreamingServer[pb.InvokeEvent]) (community.Reply, error) {
	events := make(chan *pb.InvokeEvent)
	var sending sync.WaitGroup
	sending.Go(func() {
		for e := range events {
			_ = stream.Send(e) // an error is the end of the stream, which ends ctx, too
		}
	})
	defer sending.Wait()
	defer close(events)
	return s.serve(ctx, remote, r, s.MaxMessage, func(u community.Update) {
		select {
		case events <- eventTo(u):
		case <-ctx.Done():
		}
	})
}
