package calls

import (
	"time"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// Messages are converted to and from the types of package community here. Missing fields become empty ones;
// the community checks their values (Host.Serve).

// messageTo returns the wire form of a call, without an id. left is the time to its deadline: durations cross the
// wire instead of points in time, because the clocks of two machines differ.
func messageTo(c community.Call, left time.Duration) *callMessage {
	m := &callMessage{}
	m.call.Request, m.request.Deadline = &m.request, &m.deadline
	m.setDeadline(left)
	r := &m.request
	r.CallId, r.Member, r.Capability, r.Payload, r.ContentType = c.ID, string(c.Member), c.Capability, c.Payload, c.ContentType
	r.Requester, r.OnBehalf, r.Traceparent, r.Tracestate = c.Requester, c.OnBehalf, c.Trace.Parent(), c.Trace.State()
	return m
}

// setDeadline sets the time to the deadline.
func (m *callMessage) setDeadline(left time.Duration) {
	m.deadline.Seconds, m.deadline.Nanos = int64(left/time.Second), int32(left%time.Second)
}

// requestTo returns the wire form of a call's request.
func requestTo(c community.Call, left time.Duration) *pb.InvokeRequest {
	return &messageTo(c, left).request
}

// callFrom is the inverse of requestTo, without the deadline, which becomes a context
// (Server.deadline). It does not validate.
func callFrom(r *pb.InvokeRequest) community.Call {
	return community.Call{
		ID:          r.GetCallId(),
		Member:      community.MemberID(r.GetMember()),
		Capability:  r.GetCapability(),
		Payload:     r.GetPayload(),
		ContentType: r.GetContentType(),
		Requester:   r.GetRequester(),
		OnBehalf:    r.GetOnBehalf(),
		Trace:       community.ParseTrace(r.GetTraceparent(), r.GetTracestate()),
	}
}

// eventTo returns the wire form of an update: partial output or progress.
func eventTo(u community.Update) *pb.InvokeEvent {
	if u.Output != nil {
		return &pb.InvokeEvent{Missed: u.Missed, Event: &pb.InvokeEvent_Chunk{Chunk: &pb.Chunk{Data: u.Output, ContentType: u.ContentType}}}
	}
	p := &pb.Progress{Message: u.Progress.Message, Done: u.Progress.Done, Total: u.Progress.Total}
	return &pb.InvokeEvent{Missed: u.Missed, Event: &pb.InvokeEvent_Progress{Progress: p}}
}

// updateFrom returns an update for any event but an answer. An event of a later version is progress without
// words.
func updateFrom(e *pb.InvokeEvent) community.Update {
	p, c := e.GetProgress(), e.GetChunk()
	u := community.Update{Missed: e.GetMissed(), Progress: community.Progress{Message: p.GetMessage(), Done: p.GetDone(), Total: p.GetTotal()}}
	if c != nil {
		u.Output, u.ContentType = c.GetData(), c.GetContentType()
		if u.Output == nil {
			u.Output = []byte{} // an empty output is output
		}
	}
	return u
}
