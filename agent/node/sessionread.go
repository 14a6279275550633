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

// SessionsRead is the capability with which people at other nodes read the
// conversations of this node. Its input is a session.Query; its output is
// streamed, a line of JSON for each session.Line. The reply is their number. A
// rule of authorize must name it with its prefix.
const SessionsRead = authorize.SessionsPrefix + "read"

// offerSessions offers SessionsRead, if the node keeps sessions.
func offerSessions(p *parts) error {
	if p.sessions == nil {
		return nil
	}
	read := community.Capability{Name: SessionsRead, Description: "The conversations of this node, as streamed lines of JSON. For people at other nodes: `symbio sessions list --on NODE`.", Idempotent: true,
		Input: json.RawMessage(`{"type":"object","required":["op"],"properties":{"op":{"enum":["list","show","search"]},"limit":{"type":"integer","minimum":0}}}`)}
	return p.offer(read, approvals.RequirePerson(func(ctx context.Context, s community.Signal) (community.Reply, error) {
		n, err := streamSessions(ctx, p.sessions.Store(), s.Data)
		return community.Reply{Data: fmt.Append(nil, n), ContentType: "application/json"}, err
	}, "conversations are read by people, not by agents"), community.WithConcurrency(sharing))
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
