package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"symbio/agent/node/approvals"
	"symbio/agent/session"
	"symbio/community"
	"symbio/security/permission/authorize"
)

// SessionsResume is the capability with which people at other nodes go on with
// an interrupted task of this node, which then runs in the background. Its input
// is a session.Query with an ID, its reply the session.Info.
const SessionsResume = authorize.SessionsPrefix + "resume"

// SessionsRead is the capability with which people at other nodes read the
// conversations of this node. Its input is a session.Query; its output is
// streamed, a line of JSON for each session.Line. The reply is their number. A
// rule of authorize must name it with its prefix.
const SessionsRead = authorize.SessionsPrefix + "read"

// offerSessions offers both capabilities, if the node keeps sessions.
func offerSessions(p *parts) error {
	if p.sessions == nil {
		return nil
	}
	read := community.Capability{Name: SessionsRead, Description: "The conversations of this node and what they cost, as streamed lines of JSON. For people at other nodes: `symbio sessions list --on NODE`.", Idempotent: true,
		Input: json.RawMessage(`{"type":"object","required":["op"],"properties":{"op":{"enum":["list","show","search","cost"]},"limit":{"type":"integer","minimum":0}}}`)}
	resume := community.Capability{Name: SessionsResume, Description: "Goes on with an interrupted task of this node, in the background.",
		Input: json.RawMessage(`{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}`)}
	err := p.offer(resume, approvals.RequirePerson(func(ctx context.Context, s community.Signal) (community.Reply, error) {
		var q session.Query
		if err := json.Unmarshal(s.Data, &q); err != nil {
			return community.Reply{}, fmt.Errorf("%w: %w", community.ErrInvalid, err)
		}
		i, err := resumeSession(ctx, p, q.ID)
		if err != nil {
			return community.Reply{}, err
		}
		data, err := json.Marshal(i)
		return community.Reply{Data: data, ContentType: "application/json"}, err
	}, "conversations are resumed by people, not by agents"))
	return errors.Join(err, p.offer(read, approvals.RequirePerson(func(ctx context.Context, s community.Signal) (community.Reply, error) {
		n, err := streamSessions(ctx, p.sessions.Store(), s.Data)
		return community.Reply{Data: fmt.Append(nil, n), ContentType: "application/json"}, err
	}, "conversations are read by people, not by agents"), community.WithConcurrency(sharing)))
}

// streamSessions sends the results of a query to the caller, and returns their
// number.
func streamSessions(ctx context.Context, store session.Store, query []byte) (int, error) {
	var q session.Query
	if err := json.Unmarshal(query, &q); err != nil {
		return 0, fmt.Errorf("%w: %w", community.ErrInvalid, err)
	}
	lines, err := q.Run(ctx, store)
	if errors.Is(err, session.ErrNotFound) {
		err = community.Explain(community.ErrNotFound, err.Error())
	}
	for _, l := range lines {
		var data []byte
		if err == nil {
			data, err = json.Marshal(l)
		}
		if err == nil {
			err = community.Emit(ctx, append(data, '\n'), "application/jsonl")
		}
	}
	return len(lines), err
}

// resumeSession hands an interrupted session to resumer.resumeAnswered, and
// returns its description.
func resumeSession(ctx context.Context, p *parts, id string) (i session.Info, err error) {
	o, err := p.resumeOrder(ctx, id)
	switch i = o.Session; {
	case errors.Is(err, session.ErrNotFound):
		return i, community.Explain(community.ErrNotFound, err.Error())
	case err != nil:
		return i, community.Explain(community.ErrInvalid, err.Error())
	case p.sessions.IsInUse(i.ID):
		return i, community.Explain(community.ErrBusy, fmt.Sprintf("session %s: %v", i.ID, session.ErrInUse))
	case !i.CanGoOn():
		return i, community.Explain(community.ErrInvalid, fmt.Sprintf("session %s has no interrupted task; it is %s", i.ID, i.State))
	}
	select {
	case p.resumed <- resumption{session: i}:
		i.State = session.Working
		return i, nil
	case <-ctx.Done():
		return i, context.Cause(ctx)
	}
}
