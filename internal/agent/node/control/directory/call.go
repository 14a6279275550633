package directory

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/node/artifacts"
	symbiov1 "symbio/proto/symbio/v1"
)

// Call invokes a capability and returns its result. It waits without a limit unless the request has
// a timeout; output that comes before the result is discarded.
func (d Directory) Call(ctx context.Context, r *symbiov1.CallRequest) (*symbiov1.CallReply, error) {
	return d.call(ctx, r, nil)
}

// CallStream invokes a capability and sends its progress and output before the
// result. A caller that reads slowly slows down the output of the provider:
// nothing is buffered without a bound.
func (d Directory) CallStream(r *symbiov1.CallRequest, stream symbiov1.Control_CallStreamServer) error {
	// A caller that is gone ends the call: the first failed Send cancels ctx.
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	reply, err := d.call(ctx, r, func(u community.Update) {
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
func (d Directory) call(ctx context.Context, r *symbiov1.CallRequest, onUpdate func(community.Update)) (*symbiov1.CallReply, error) {
	able, err := d.providers(r.GetCapability(), r.GetOn())
	if err != nil {
		return nil, err
	}
	ctx, cancel := withTimeout(ctx, r.GetTimeout())
	defer cancel()
	ctx = community.WithTrace(ctx, community.ParseTrace(r.GetTraceparent(), r.GetTracestate()))
	var failed []error
	for _, m := range able {
		reply, err := d.cfg.Community.InvokeStream(ctx, m.ID, r.GetCapability(), community.Signal{Data: r.GetData(), ContentType: r.GetContentType()}, onUpdate)
		if err == nil {
			return &symbiov1.CallReply{Data: reply.Data, ContentType: reply.ContentType, Node: string(m.Node), NodeName: d.cfg.NodeName(m.Node)}, nil
		}
		failed = append(failed, d.withAdvice(err, m, "invoke", r.GetCapability()))
		if !community.NotBegun(err) {
			break
		}
	}
	return nil, errors.Join(failed...)
}

// withTimeout returns ctx with the time limit of the request, if it has one.
// The limit is at most a day: a larger number is a mistake, and would keep the
// call's resources for as long.
func withTimeout(ctx context.Context, d *durationpb.Duration) (context.Context, context.CancelFunc) {
	if d.AsDuration() <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, min(d.AsDuration(), 24*time.Hour))
}

// Send delivers a signal to a member. It waits for the reply unless the request
// says otherwise.
func (d Directory) Send(ctx context.Context, r *symbiov1.SendRequest) (*symbiov1.SendReply, error) {
	m, err := d.find(r.GetMember(), func(m community.Member) bool { return len(m.Accepts) > 0 })
	if err != nil {
		return nil, err
	}
	ctx, cancel := withTimeout(ctx, r.GetTimeout())
	defer cancel()
	signal := community.Signal{Perception: r.GetPerception(), Data: r.GetData(), ContentType: r.GetContentType()}
	// A one-way signal has no reply, so reply stays empty for Tell.
	var reply community.Reply
	if r.GetNoReply() {
		err = d.cfg.Community.Tell(ctx, m.ID, signal)
	} else {
		reply, err = d.cfg.Community.Send(ctx, m.ID, signal)
	}
	if err != nil {
		return nil, d.withAdvice(err, m, "send", r.GetPerception())
	}
	return &symbiov1.SendReply{Data: reply.Data, ContentType: reply.ContentType}, nil
}

// FetchArtifact gets an artifact of the node that on names.
func (d Directory) FetchArtifact(ctx context.Context, on string, h content.Hash) error {
	m, err := d.find(on, func(m community.Member) bool { return slices.Contains(m.Provides, artifacts.Capability) })
	if err == nil {
		err = d.withAdvice(d.cfg.Artifacts.Fetch(ctx, m.Node, h), m, "invoke", artifacts.Capability)
	}
	return err
}
