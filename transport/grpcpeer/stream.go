package grpcpeer

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

// streamMinor is the minor version of the protocol since which nodes speak InvokeStream.
const streamMinor = 2

// errNoAnswer is a call that the other node ended as if it were done.
var errNoAnswer = community.Explain(community.ErrAgentFailed, "its node ended the call without an answer")

// invokeStream carries a call whose caller listens. The caller's own goroutine reads the stream, so that
// gRPC's window for it, and in the end the provider, waits for a caller that is slow. The first answer
// counts, and the stream is not read beyond it.
func (l *link) invokeStream(ctx context.Context, call community.Call) (community.Reply, error) {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default:
		return community.Reply{}, community.ErrBusy
	}
	streaming, end := context.WithCancel(ctx)
	defer end()
	at, _ := ctx.Deadline()
	stream, err := l.client.InvokeStream(streaming, requestTo(call, time.Until(at)))
	for err == nil {
		var e *pb.InvokeEvent
		if e, err = stream.Recv(); err != nil {
			break
		}
		if r := e.GetReply(); r != nil {
			if len(r.GetPayload()) > l.limits.Message {
				return community.Reply{}, community.ErrTooLarge
			}
			return community.Reply{Data: r.GetPayload(), ContentType: r.GetContentType()}, nil
		}
		// An event of a later version counts as progress that says nothing.
		call.Listen(updateFrom(e.GetProgress(), e.GetChunk(), e.GetMissed()))
	}
	if errors.Is(err, io.EOF) && ctx.Err() == nil {
		return community.Reply{}, errNoAnswer
	}
	return community.Reply{}, l.why(ctx, err)
}

// InvokeStream answers one call, and says meanwhile how it goes on.
func (s *server) InvokeStream(r *pb.InvokeRequest, stream grpc.ServerStreamingServer[pb.InvokeEvent]) error {
	who, ok := callerOf(stream.Context())
	if !ok {
		return toWire(community.ErrDenied)
	}
	if len(r.GetPayload()) > s.cfg.Limits.Message {
		return toWire(community.ErrTooLarge)
	}
	ctx, cancel := s.bounded(stream.Context(), r)
	defer cancel()
	reply, err := s.narrate(ctx, who, r, stream)
	switch {
	case err != nil:
		return toWire(err)
	case len(reply.Data) > s.cfg.Limits.Message:
		return toWire(community.ErrTooLarge)
	}
	return stream.Send(&pb.InvokeEvent{Event: &pb.InvokeEvent_Reply{Reply: &pb.InvokeReply{Payload: reply.Data, ContentType: reply.ContentType}}})
}

// narrate serves a call and sends its updates. Only a goroutine of its own waits for a caller that does
// not read: the call itself ends with ctx, and counts no longer.
func (s *server) narrate(ctx context.Context, who *caller, r *pb.InvokeRequest, stream grpc.ServerStreamingServer[pb.InvokeEvent]) (community.Reply, error) {
	events := make(chan *pb.InvokeEvent)
	var sending sync.WaitGroup
	sending.Go(func() {
		for e := range events {
			_ = stream.Send(e) // one that has ended has ended ctx, too
		}
	})
	defer sending.Wait()
	defer close(events)
	call := callFrom(r)
	call.Listen = func(u community.Update) {
		select {
		case events <- eventOf(u):
		case <-ctx.Done():
		}
	}
	return s.host.Serve(ctx, who.peer(), call)
}

func eventOf(u community.Update) *pb.InvokeEvent {
	if u.Output != nil {
		return &pb.InvokeEvent{Missed: u.Missed, Event: &pb.InvokeEvent_Chunk{Chunk: &pb.Chunk{Data: u.Output, ContentType: u.ContentType}}}
	}
	p := &pb.Progress{Message: u.Progress.Message, Done: u.Progress.Done, Total: u.Progress.Total}
	return &pb.InvokeEvent{Missed: u.Missed, Event: &pb.InvokeEvent_Progress{Progress: p}}
}

func updateFrom(p *pb.Progress, c *pb.Chunk, missed uint64) community.Update {
	u := community.Update{Missed: missed, Progress: community.Progress{Message: p.GetMessage(), Done: p.GetDone(), Total: p.GetTotal()}}
	if c != nil {
		u.Output, u.ContentType = c.GetData(), c.GetContentType()
	}
	if c != nil && u.Output == nil {
		u.Output = []byte{} // it is output, if an empty one
	}
	return u
}
