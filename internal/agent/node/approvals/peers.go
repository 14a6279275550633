package approvals

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/security/permission/authorize"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// The capabilities with which people at other nodes see and answer the requests
// of this node. A rule of authorize must name them with their prefix; "*" does
// not include them (authorize.OwnersPrefix).
const (
	approvalsList   = authorize.OwnersPrefix + "list"
	approvalsAnswer = authorize.OwnersPrefix + "answer"
)

const (
	// listTimeout bounds one approvals.list. It is short, because a person
	// waits for the slowest node.
	listTimeout = 3 * time.Second
	// answerTimeout bounds one approvals.answer.
	answerTimeout = 10 * time.Second
	// maxDiff bounds the difference that another node shows, in bytes: what a node computes.
	maxDiff = 64 << 10
	// maxSoFar bounds what is said of an agent's work, in bytes.
	maxSoFar = 400
	// maxConcurrentLists is the number of nodes that are asked at the same
	// time.
	maxConcurrentLists = 16
)

// listReply is the result of approvals.list.
type listReply struct {
	Approvals []listEntry `json:"approvals"`
}

// listEntry is one pending request. Text is the exact text of the request; it
// is empty if it did not fit into the message.
type listEntry struct {
	ID   string `json:"id"`
	Text string `json:"text,omitempty"`
	Size int    `json:"size"` // of the text, in bytes
	Diff string `json:"diff,omitempty"`
	Done string `json:"so_far,omitempty"`
}

// answerRequest has the arguments of approvals.answer. Digest is the digest of
// the text that the person was shown.
type answerRequest struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
	Allow  bool   `json:"allow"`
	Always bool   `json:"always,omitempty"`
	Reason string `json:"reason,omitempty"` // of a no
}

// Offer offers the two capabilities to other nodes. Rules of authorize decide
// which nodes may call them.
func (d *Queue) Offer() error {
	list := community.Capability{Name: approvalsList, Description: "The decisions that wait for a person. For people at other nodes: `symbio approvals list`.", Idempotent: true,
		Input: json.RawMessage(`{"type":["object","null"],"properties":{"id":{"type":"string"}}}`)}
	answer := community.Capability{Name: approvalsAnswer, Description: "Decides one of them. For people at other nodes: `symbio approvals allow`.",
		Input: json.RawMessage(`{"type":"object","required":["id","digest","allow"],"properties":{"id":{"type":"string"},"digest":{"type":"string","minLength":64,"maxLength":64},"allow":{"type":"boolean"},"always":{"type":"boolean"},"reason":{"type":"string"}}}`)}
	const refusal = "approvals are answered by people, not by agents" // agents must not approve their own calls
	return errors.Join(d.cfg.Community.Offer(list, RequirePerson(d.serveList, refusal)), d.cfg.Community.Offer(answer, RequirePerson(d.serveAnswer, refusal)))
}

// RequirePerson returns a provider that refuses calls that a node makes on
// behalf of an agent, with the text of refusal. Only the calling node is
// authenticated, so a node that lies about its requester is not stopped here;
// it acts with the authority of its owner in any case.
func RequirePerson(provide community.Provider, refusal string) community.Provider {
	return func(ctx context.Context, s community.Signal) (community.Reply, error) {
		if len(s.Requester) != 1 || strings.Contains(s.Requester[0], "/") {
			return community.Reply{}, community.Explain(community.ErrDenied, refusal)
		}
		return provide(ctx, s)
	}
}

// serveList answers approvals.list. Texts that would make the reply larger than
// three quarters of a message are left out: the rest of the message is for ids,
// sizes and the framing.
func (d *Queue) serveList(_ context.Context, s community.Signal) (community.Reply, error) {
	var want struct{ ID string }
	if err := json.Unmarshal(s.Data, &want); err != nil {
		return community.Reply{}, fmt.Errorf("%w: %w", community.ErrInvalid, err)
	}
	out := listReply{Approvals: []listEntry{}}
	room := d.cfg.MaxMessage * 3 / 4
	for _, a := range d.list(want.ID) {
		one := listEntry{ID: a.GetId(), Text: string(a.GetShown()), Size: len(a.GetShown()), Done: a.GetSoFar()}
		quoted, err := json.Marshal(one.Text)
		if err != nil || len(quoted) > room {
			one.Text = ""
		} else {
			room -= len(quoted)
		}
		if quoted, err := json.Marshal(a.GetDiff()); err == nil && len(quoted) <= room && one.Text != "" {
			one.Diff, room = a.GetDiff(), room-len(quoted)
		}
		out.Approvals = append(out.Approvals, one)
	}
	data, err := json.Marshal(out)
	return community.Reply{Data: data, ContentType: "application/json"}, err
}

// serveAnswer answers approvals.answer. The record of the decision names the
// node of the person.
func (d *Queue) serveAnswer(_ context.Context, s community.Signal) (community.Reply, error) {
	var a answerRequest
	if err := json.Unmarshal(s.Data, &a); err != nil {
		return community.Reply{}, fmt.Errorf("%w: %w", community.ErrInvalid, err)
	}
	from, _ := d.cfg.Community.Peer(community.NodeID(s.Requester[0]))
	by := fmt.Sprintf("symbio approvals on node %s (%s)", from.Name, s.Requester[0])
	decided, err := d.decide(a.ID, a.Digest, tool.Answer{Allow: a.Allow, Always: a.Always, By: by, Reason: a.Reason})
	switch {
	case err != nil:
		return community.Reply{}, community.Explain(community.ErrInvalid, err.Error())
	case decided == nil:
		return community.Reply{}, community.Explain(community.ErrNotFound, notPending)
	}
	return community.Reply{Data: []byte("true"), ContentType: "application/json"}, nil
}

// notPending says why a request may be missing.
const notPending = "it was answered, its time is over, or its task has ended; `symbio approvals list` shows those that wait"

// listRemote returns the pending requests of all nodes that offer
// approvals.list; with an id only that one. A node that fails to answer within
// listTimeout is reported in problems and does not delay the others.
func (d *Queue) listRemote(ctx context.Context, id string) (all []*symbiov1.Approval, problems []*symbiov1.ApprovalsProblem) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(maxConcurrentLists)
	var mu sync.Mutex // guards all and problems
	for _, m := range d.cfg.Community.WhoProvides(approvalsList) {
		g.Go(func() error {
			found, err := d.fetchFrom(ctx, m, id)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, found...)
			if err != nil {
				problems = append(problems, &symbiov1.ApprovalsProblem{Node: string(m.Node), NodeName: m.Name, Why: d.adviceFor(err)})
			}
			return nil
		})
	}
	_ = g.Wait() // it returns no error
	sortApprovals(all)
	return all, problems
}

// adviceFor returns the reason of a failed call to another node and what to do
// about it.
func (d *Queue) adviceFor(err error) string {
	if errors.Is(err, community.ErrDenied) {
		if why := community.Explanation(err); why != "" {
			return why
		}
		return fmt.Sprintf("it does not let this node see or answer its approvals; add to its configuration: authorize: [{from: %q, invoke: [%q]}]", d.cfg.Node, authorize.OwnersPrefix+"*")
	}
	return err.Error()
}

// fetchFrom returns the pending requests of one node. The reply is untrusted: a
// text that does not match its id is an error. Requests that are too long to be
// sent come without their text and cannot be answered from here.
func (d *Queue) fetchFrom(ctx context.Context, m community.Member, id string) ([]*symbiov1.Approval, error) {
	want, err := json.Marshal(map[string]string{"id": id})
	if err != nil {
		return nil, err
	}
	reply, err := d.cfg.Community.Invoke(ctx, m.ID, approvalsList, community.Signal{Data: want, ContentType: "application/json"})
	if err != nil {
		return nil, err
	}
	var got listReply
	if err := json.Unmarshal(reply.Data, &got); err != nil {
		return nil, fmt.Errorf("cannot decode its reply: %w", err)
	}
	if len(got.Approvals) > maxPending {
		return nil, fmt.Errorf("it reports %d pending approvals, and at most %d can wait", len(got.Approvals), maxPending)
	}
	var all []*symbiov1.Approval
	for _, a := range got.Approvals {
		if id != "" && !visible.IsID(id, a.ID) {
			continue
		}
		one := &symbiov1.Approval{Id: a.ID, Node: string(m.Node), Why: fmt.Sprintf("It is too long to be shown here: %d bytes. Answer it on its node.", a.Size)}
		if a.Text != "" {
			s, err := parseRequest(string(m.Node), a.ID, []byte(a.Text))
			if err != nil {
				return nil, err
			}
			s.Keepable = permission.Keepable{} // only people at the node itself can answer for more than the call
			one = s.wire()
			one.Diff = strings.ToValidUTF8(visible.Truncate(a.Diff, maxDiff), "\uFFFD")
			one.SoFar = visible.Line(a.Done, maxSoFar)
		}
		one.NodeName = m.Name
		all = append(all, one)
	}
	return all, nil
}

// answerRemote sends an answer to the node where the request waits. The answer
// is for the text that this node received and counts at most once. If the
// message is lost, the request times out there and is denied.
func (d *Queue) answerRemote(ctx context.Context, r *symbiov1.AnswerRequest) (*symbiov1.Approval, error) {
	found, problems := d.listRemote(ctx, r.GetId())
	switch {
	case len(found) > 1:
		return nil, fmt.Errorf("%w: several approvals fit %q; give the whole id, or answer it on its node", community.ErrInvalid, r.GetId())
	case len(found) == 0:
		err := fmt.Errorf("%w: no approval %q waits; %s", community.ErrNotFound, r.GetId(), notPending)
		for _, p := range problems {
			err = fmt.Errorf("%w\nnode %s did not list its approvals: %s", err, p.GetNodeName(), p.GetWhy())
		}
		return nil, err
	}
	a := found[0]
	switch {
	case len(a.GetShown()) == 0:
		return nil, fmt.Errorf("approval %q of node %s: %s", a.GetId(), a.GetNodeName(), a.GetWhy())
	case r.GetLasting() || r.GetOffer() > 0:
		return nil, fmt.Errorf("%w: approval %q waits on node %s: give a lasting answer, or take an offer, on that node", community.ErrInvalid, a.GetId(), a.GetNodeName())
	case r.GetDigest() != "" && r.GetDigest() != a.GetDigest():
		return nil, fmt.Errorf("%w: approval %q: %w", community.ErrInvalid, a.GetId(), errOtherContent)
	}
	data, err := json.Marshal(answerRequest{ID: a.GetId(), Digest: a.GetDigest(), Allow: r.GetAllow(), Always: r.GetAlways(),
		Reason: visible.Truncate(r.GetReason(), maxReason)})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err = d.cfg.Community.Invoke(ctx, community.MemberID(a.GetNode()), approvalsAnswer, community.Signal{Data: data, ContentType: "application/json"})
	switch {
	case errors.Is(err, community.ErrDenied):
		return nil, fmt.Errorf("%w: node %s: %s", community.ErrDenied, a.GetNodeName(), d.adviceFor(err))
	case errors.Is(err, community.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%w\nIt is not known whether the answer arrived. If it did not, the call is denied when its time is over; `symbio approvals list` shows the pending ones", err)
	case err != nil:
		return nil, err
	}
	return a, nil
}

// List returns the pending requests: first the requests of this node and then, unless
// here is set, the requests of the other nodes that let this node see them. With an id
// it returns only that one. It waits at most listTimeout for other nodes.
func (d *Queue) List(ctx context.Context, id string, here bool) *symbiov1.ApprovalsReply {
	reply := &symbiov1.ApprovalsReply{Approvals: d.list(id)}
	for _, a := range reply.Approvals {
		a.NodeName = d.cfg.Name
	}
	if here || id != "" && len(reply.Approvals) > 0 {
		return reply
	}
	more, problems := d.listRemote(ctx, id)
	reply.Approvals, reply.Problems = append(reply.Approvals, more...), problems
	return reply
}

// Answer answers a request of this node, else one of another node, and returns
// it. Errors: community.ErrInvalid if the answer is not for the shown text or
// cannot be lasting, community.ErrNotFound if no request has the id,
// community.ErrDenied if the other node does not authorize this one.
func (d *Queue) Answer(ctx context.Context, r *symbiov1.AnswerRequest) (*symbiov1.Approval, error) {
	answer := tool.Answer{Allow: r.GetAllow(), Always: r.GetAlways(), Lasting: r.GetLasting(), Offer: int(r.GetOffer()),
		By: cmp.Or(r.GetBy(), "control socket"), Reason: r.GetReason()}
	if answer.Lasting && !answer.Allow {
		return nil, fmt.Errorf("%w: only an approval can be lasting; for a lasting denial write a rule under permissions.deny in the configuration", community.ErrInvalid)
	}
	id := r.GetId()
	if fit := d.pendingOf(id); len(fit) == 1 {
		id = fit[0].shown.id // a person may type the beginning of an id
	}
	here, err := d.decide(id, r.GetDigest(), answer)
	switch {
	case errors.Is(err, errOtherContent), errors.Is(err, errNotLasting), errors.Is(err, errNoOffer), errors.Is(err, errNoQuestion):
		return nil, fmt.Errorf("%w: approval %q: %w", community.ErrInvalid, r.GetId(), err)
	case err != nil:
		return nil, err
	case here == nil:
		return d.answerRemote(ctx, r)
	}
	a := here.wire()
	a.NodeName = d.cfg.Name
	return a, nil
}
