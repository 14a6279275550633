package sessions

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

// ResumeCapability is the capability with which people at other nodes go on with
// an interrupted task of this node, which then runs in the background. Its input
// is a session.Query with an ID, its reply the session.Info.
const ResumeCapability = authorize.SessionsPrefix + "resume"

// ReadCapability is the capability with which people at other nodes read the
// conversations of this node. Its input is a session.Query; its output is
// streamed, a line of JSON for each session.Line. The reply is their number. A
// rule of authorize must name it with its prefix.
const ReadCapability = authorize.SessionsPrefix + "read"

// reading is how many calls that read conversations are answered at a time: one reads the disk, the others wait for it.
const reading = 4

// Offer offers both capabilities with offer, if the node keeps sessions.
func (r *Resumer) Offer(offer func(community.Capability, community.Provider, ...community.OfferOption) error) error {
	if r.cfg.Sessions.Journal == nil {
		return nil
	}
	read := community.Capability{Name: ReadCapability, Description: "The conversations of this node and what they cost, as streamed lines of JSON. For people at other nodes: `symbio sessions list --on NODE`.", Idempotent: true,
		Input: json.RawMessage(`{"type":"object","required":["op"],"properties":{"op":{"enum":["list","show","search","cost"]},"limit":{"type":"integer","minimum":0}}}`)}
	resume := community.Capability{Name: ResumeCapability, Description: "Goes on with an interrupted task of this node, in the background.",
		Input: json.RawMessage(`{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}`)}
	err := offer(resume, approvals.RequirePerson(func(ctx context.Context, s community.Signal) (community.Reply, error) {
		var q session.Query
		if err := json.Unmarshal(s.Data, &q); err != nil {
			return community.Reply{}, fmt.Errorf("%w: %w", community.ErrInvalid, err)
		}
		i, err := r.Resume(ctx, q.ID)
		if err != nil {
			return community.Reply{}, err
		}
		data, err := json.Marshal(i)
		return community.Reply{Data: data, ContentType: "application/json"}, err
	}, "conversations are resumed by people, not by agents"))
	return errors.Join(err, offer(read, approvals.RequirePerson(func(ctx context.Context, s community.Signal) (community.Reply, error) {
		n, err := streamSessions(ctx, r.cfg.Sessions.Store(), s.Data)
		return community.Reply{Data: fmt.Append(nil, n), ContentType: "application/json"}, err
	}, "conversations are read by people, not by agents"), community.WithConcurrency(reading)))
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
