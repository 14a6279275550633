package control

import (
	"context"
	"errors"

	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
)

// Call invokes a capability and returns its result. It waits without a limit unless the request has
// a timeout; output that comes before the result is discarded.
func (c *server) Call(ctx context.Context, r *symbiov1.CallRequest) (*symbiov1.CallReply, error) {
	return c.call(ctx, r, nil)
}

// CallStream invokes a capability and sends its progress and output before the
// result. A caller that reads slowly slows down the output of the provider:
// nothing is buffered without a bound.
func (c *server) CallStream(r *symbiov1.CallRequest, stream symbiov1.Control_CallStreamServer) error {
	// A caller that is gone ends the call: the first failed Send cancels ctx.
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	reply, err := c.call(ctx, r, func(u community.Update) {
		if err := stream.Send(updateEvent(u)); err != nil {
			cancel(err)
		}
	})
	if err != nil {
		return err
	}
	return stream.Send(&symbiov1.CallEvent{Event: &symbiov1.CallEvent_Reply{Reply: reply}})
}

// updateEvent converts an update to its message.
func updateEvent(u community.Update) *symbiov1.CallEvent {
	if u.Output != nil {
		return &symbiov1.CallEvent{Missed: u.Missed, Event: &symbiov1.CallEvent_Chunk{Chunk: &symbiov1.Chunk{Data: u.Output, ContentType: u.ContentType}}}
	}
	p := &symbiov1.Progress{Message: u.Progress.Message, Done: u.Progress.Done, Total: u.Progress.Total}
	return &symbiov1.CallEvent{Missed: u.Missed, Event: &symbiov1.CallEvent_Progress{Progress: p}}
}

// call invokes a capability of another node. onUpdate gets progress and output;
// it may be nil. If a node refused the call before it began, because it is busy
// or denies it, the next node with the capability is asked. A call that may
// have begun is not repeated.
func (c *server) call(ctx context.Context, r *symbiov1.CallRequest, onUpdate func(community.Update)) (*symbiov1.CallReply, error) {
	able, err := c.members.providers(r.GetCapability(), r.GetOn())
	if err != nil {
		return nil, err
	}
	ctx, cancel := withTimeout(ctx, r.GetTimeout())
	defer cancel()
	ctx = community.WithTrace(ctx, community.ParseTrace(r.GetTraceparent(), r.GetTracestate()))
	var failed []error
	for _, m := range able {
		reply, err := c.cfg.Community.InvokeStream(ctx, m.ID, r.GetCapability(), community.Signal{Data: r.GetData(), ContentType: r.GetContentType()}, onUpdate)
		if err == nil {
			return &symbiov1.CallReply{Data: reply.Data, ContentType: reply.ContentType, Node: string(m.Node), NodeName: c.cfg.NodeName(m.Node)}, nil
		}
		failed = append(failed, c.members.withAdvice(err, m, "invoke", r.GetCapability()))
		if !community.NotBegun(err) {
			break
		}
	}
	return nil, errors.Join(failed...)
}
