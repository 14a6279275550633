package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// maxConfirm is how long a call that is accepted keeps its place until its caller has confirmed it.
const maxConfirm = 10 * time.Second

// errNotConfirmed is the error of a call whose caller did not: nothing was done.
var errNotConfirmed = community.Explain(community.ErrBusy, fmt.Sprintf("its caller did not confirm it within %v", maxConfirm))

// errNoAnswer is the error of a call that its node ended with success and without an answer.
var errNoAnswer = community.Explain(community.ErrAgentFailed, "its node ended the call without an answer")

// count counts a call that listens. It returns false after the end of a lane, and of CloseIdle.
func (c *Client) count() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return c.waiting != nil
}

// invokeStream makes a call whose caller wants updates, or to know when it is accepted, on a gRPC stream of its own.
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
	if !c.count() {
		return community.Reply{}, community.ErrUnavailable
	}
	streaming, end := context.WithCancel(ctx)
	defer end()
	at, _ := ctx.Deadline()
	request := requestTo(call, time.Until(at))
	hold := call.Accept != nil && c.cfg.PeerHolds
	if request.Hold = hold; call.Accept != nil && !hold {
		if err := call.Accept(); err != nil {
			return community.Reply{}, err
		}
	}
	stream, err := c.rpc.InvokeStream(streaming)
	if err == nil {
		_ = stream.Send(request) // Recv has the error
		if !hold {
			_ = stream.CloseSend()
		}
	}
	for err == nil {
		var e *pb.InvokeEvent
		if e, err = stream.Recv(); err != nil {
			break
		}
		if r := e.GetReply(); r != nil {
			return community.Reply{Data: r.GetPayload(), ContentType: r.GetContentType()}, nil
		}
		if e.GetAccepted() && hold {
			hold = false // once
			if err := call.Accept(); err != nil {
				return community.Reply{}, err
			}
			_ = stream.Send(&pb.InvokeRequest{})
		} else if call.Listen != nil {
			call.Listen(updateFrom(e))
		}
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
func (s *Server) InvokeStream(stream grpc.BidiStreamingServer[pb.InvokeRequest, pb.InvokeEvent]) error {
	remote, ok := s.Caller(stream.Context())
	if !ok {
		return ToStatus(community.ErrDenied)
	}
	r, err := stream.Recv()
	if err != nil {
		return err
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
func (s *Server) serveStream(ctx context.Context, remote Caller, r *pb.InvokeRequest,
	stream grpc.BidiStreamingServer[pb.InvokeRequest, pb.InvokeEvent]) (community.Reply, error) {
	events := make(chan *pb.InvokeEvent)
	var sending sync.WaitGroup
	sending.Go(func() {
		for e := range events {
			_ = stream.Send(e) // an error is the end of the stream, which ends ctx, too
		}
	})
	defer sending.Wait()
	defer close(events)
	send := func(e *pb.InvokeEvent) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	call := callFrom(r)
	if !r.GetHold() {
		call.Listen = func(u community.Update) { send(eventTo(u)) }
		return s.serve(ctx, remote, call, s.MaxMessage)
	}
	call.Accept = func() error {
		send(&pb.InvokeEvent{Event: &pb.InvokeEvent_Accepted{Accepted: true}})
		confirmed := make(chan error, 1)
		// Recv cannot be canceled either: it ends with the stream, after this call.
		s.confirming.Go(func() { _, err := stream.Recv(); confirmed <- err })
		bounded, cancel := context.WithTimeoutCause(ctx, maxConfirm, errNotConfirmed)
		defer cancel()
		select {
		case err := <-confirmed:
			return err
		case <-bounded.Done():
			return context.Cause(bounded)
		}
	}
	return s.serve(ctx, remote, call, s.MaxMessage)
}
