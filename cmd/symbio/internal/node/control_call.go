package node

import (
	"context"

	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
)

func (c *control) Call(ctx context.Context, r *symbiov1.CallRequest) (*symbiov1.CallReply, error) {
	return c.call(ctx, r, nil)
}

// CallStream sends what is heard of the call as fast as the command line takes it: a slow one holds up
// the call's output, back to its provider.
func (c *control) CallStream(r *symbiov1.CallRequest, stream symbiov1.Control_CallStreamServer) error {
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

func updateEvent(u community.Update) *symbiov1.CallEvent {
	if u.Output != nil {
		return &symbiov1.CallEvent{Missed: u.Missed, Event: &symbiov1.CallEvent_Chunk{Chunk: &symbiov1.Chunk{Data: u.Output, ContentType: u.ContentType}}}
	}
	p := &symbiov1.Progress{Message: u.Progress.Message, Done: u.Progress.Done, Total: u.Progress.Total}
	return &symbiov1.CallEvent{Missed: u.Missed, Event: &symbiov1.CallEvent_Progress{Progress: p}}
}

// call invokes a capability of another node; heard may be nil.
func (c *control) call(ctx context.Context, r *symbiov1.CallRequest, heard func(community.Update)) (*symbiov1.CallReply, error) {
	m, err := c.provider(r.GetCapability(), r.GetOn())
	if err != nil {
		return nil, toStatus(err)
	}
	ctx, cancel := withTimeout(ctx, r.GetTimeout())
	defer cancel()
	ctx = community.WithTrace(ctx, community.ParseTrace(r.GetTraceparent(), r.GetTracestate()))
	reply, err := c.node.community.InvokeStream(ctx, m.ID, r.GetCapability(), community.Signal{Data: r.GetData(), ContentType: r.GetContentType()}, heard)
	if err != nil {
		return nil, toStatus(c.advised(err, m, "invoke", r.GetCapability()))
	}
	return &symbiov1.CallReply{Data: reply.Data, ContentType: reply.ContentType, Node: string(m.Node), NodeName: c.node.nodeName(m.Node)}, nil
}
