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
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission/authorize"
)

// The capabilities by which people at other nodes see and answer what waits here. Who may is for authorize to
// say, and only these names say it (authorize.OwnersPrefix).
const (
	approvalsList   = authorize.OwnersPrefix + "list"
	approvalsAnswer = authorize.OwnersPrefix + "answer"
)

const (
	// listTimeout is how long another node may take to say what waits there: a person waits for all of them.
	listTimeout = 3 * time.Second
	// answerTimeout is how long it may take to confirm an answer.
	answerTimeout = 10 * time.Second
	// askedAtOnce bounds how many nodes are asked at a time.
	askedAtOnce = 16
)

// sheetsJSON is what approvals.list answers.
type sheetsJSON struct {
	Approvals []sheetJSON `json:"approvals"`
}

// sheetJSON is one that waits. Text is what it was made of, exactly; without it, it is too long to be sent.
type sheetJSON struct {
	ID   string `json:"id"`
	Text string `json:"text,omitempty"`
	Size int    `json:"size"` // of the text, in bytes
}

// answerJSON is what approvals.answer takes: which, by its id and by the digest of the text that was shown.
type answerJSON struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
	Allow  bool   `json:"allow"`
	Always bool   `json:"always,omitempty"`
}

// Offer lets other nodes see and answer what waits here, as far as authorize does.
func (d *Desk) Offer() error {
	list := community.Capability{Name: approvalsList, Description: "The decisions that wait for a person. For people at other nodes: `symbio approvals list`.", Idempotent: true,
		Input: json.RawMessage(`{"type":["object","null"],"properties":{"id":{"type":"string"}}}`)}
	answer := community.Capability{Name: approvalsAnswer, Description: "Decides one of them. For people at other nodes: `symbio approvals allow`.",
		Input: json.RawMessage(`{"type":"object","required":["id","digest","allow"],"properties":{"id":{"type":"string"},"digest":{"type":"string","minLength":64,"maxLength":64},"allow":{"type":"boolean"},"always":{"type":"boolean"}}}`)}
	return errors.Join(d.cfg.Community.Offer(list, byPerson(d.showApprovals)), d.cfg.Community.Offer(answer, byPerson(d.takeAnswer)))
}

// byPerson refuses calls that a node makes for an agent: what agents ask, people answer. Only the calling node
// is proven, so this keeps honest nodes' agents out; a node that lies about who asks acts as its owner.
func byPerson(provide community.Provider) community.Provider {
	return func(ctx context.Context, s community.Signal) (community.Reply, error) {
		if len(s.Requester) != 1 || strings.Contains(s.Requester[0], "/") {
			return community.Reply{}, community.Explain(community.ErrDenied, "approvals are for people, not for agents")
		}
		return provide(ctx, s)
	}
}

// showApprovals answers approvals.list. What would make the answer longer than a message may be is left out.
func (d *Desk) showApprovals(_ context.Context, s community.Signal) (community.Reply, error) {
	var want struct{ ID string }
	if err := json.Unmarshal(s.Data, &want); err != nil {
		return community.Reply{}, fmt.Errorf("%w: %w", community.ErrInvalid, err)
	}
	out := sheetsJSON{Approvals: []sheetJSON{}}
	room := d.cfg.MaxMessage * 3 / 4
	for _, a := range d.list(want.ID) {
		one := sheetJSON{ID: a.GetId(), Text: string(a.GetShown()), Size: len(a.GetShown())}
		quoted, err := json.Marshal(one.Text)
		if err != nil || len(quoted) > room {
			one.Text = ""
		} else {
			room -= len(quoted)
		}
		out.Approvals = append(out.Approvals, one)
	}
	data, err := json.Marshal(out)
	return community.Reply{Data: data, ContentType: "application/json"}, err
}

// takeAnswer answers approvals.answer. It is recorded with the decision who answered from where.
func (d *Desk) takeAnswer(_ context.Context, s community.Signal) (community.Reply, error) {
	var a answerJSON
	if err := json.Unmarshal(s.Data, &a); err != nil {
		return community.Reply{}, fmt.Errorf("%w: %w", community.ErrInvalid, err)
	}
	from, _ := d.cfg.Community.Peer(community.NodeID(s.Requester[0]))
	by := fmt.Sprintf("symbio approvals on node %s (%s)", from.Name, s.Requester[0])
	decided, err := d.answer(a.ID, a.Digest, tool.Answer{Allow: a.Allow, Always: a.Always, By: by})
	switch {
	case err != nil:
		return community.Reply{}, community.Explain(community.ErrInvalid, err.Error())
	case decided == nil:
		return community.Reply{}, community.Explain(community.ErrNotFound, notWaiting)
	}
	return community.Reply{Data: []byte("true"), ContentType: "application/json"}, nil
}

// notWaiting says what became of an approval that is not there.
const notWaiting = "it was answered, or nobody did in time, or its task has ended"

// elsewhere asks the other nodes what waits there; with an id only for that one. A node that does not say is a
// problem, and holds up nobody.
func (d *Desk) elsewhere(ctx context.Context, id string) (all []*symbiov1.Approval, problems []*symbiov1.ApprovalsProblem) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(askedAtOnce)
	var mu sync.Mutex
	for _, m := range d.cfg.Community.WhoProvides(approvalsList) {
		g.Go(func() error {
			found, err := d.waitingOn(ctx, m, id)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, found...)
			if err != nil {
				problems = append(problems, &symbiov1.ApprovalsProblem{Node: string(m.Node), NodeName: m.Name, Why: d.unseen(err)})
			}
			return nil
		})
	}
	_ = g.Wait() // it returns no error
	sortApprovals(all)
	return all, problems
}

// unseen says why a node did not show or take something, and what to do about it.
func (d *Desk) unseen(err error) string {
	if errors.Is(err, community.ErrDenied) {
		if why := community.Explanation(err); why != "" {
			return why
		}
		return fmt.Sprintf("it does not let this node see or answer what waits there; in its configuration that is authorize: [{from: %q, invoke: [%q]}]", d.cfg.Node, authorize.OwnersPrefix+"*")
	}
	return err.Error()
}

// waitingOn asks one node. What it sends is data from elsewhere: it is taken only if it is what its id says.
func (d *Desk) waitingOn(ctx context.Context, m community.Member, id string) ([]*symbiov1.Approval, error) {
	want, err := json.Marshal(map[string]string{"id": id})
	if err != nil {
		return nil, err
	}
	reply, err := d.cfg.Community.Invoke(ctx, m.ID, approvalsList, community.Signal{Data: want, ContentType: "application/json"})
	if err != nil {
		return nil, err
	}
	var got sheetsJSON
	if err := json.Unmarshal(reply.Data, &got); err != nil {
		return nil, fmt.Errorf("its answer is none: %w", err)
	}
	if len(got.Approvals) > maxWaiting {
		return nil, fmt.Errorf("it says that %d decisions wait, and at most %d can", len(got.Approvals), maxWaiting)
	}
	var all []*symbiov1.Approval
	for _, a := range got.Approvals {
		if id != "" && id != a.ID {
			continue
		}
		one := &symbiov1.Approval{Id: a.ID, Node: string(m.Node), Why: fmt.Sprintf("It is too long to be shown here: %d bytes. Answer it on its node.", a.Size)}
		if a.Text != "" {
			s, err := readSheet(string(m.Node), a.ID, []byte(a.Text))
			if err != nil {
				return nil, err
			}
			s.Rules = nil // what lasts is for people at the node itself
			one = s.wire()
		}
		one.NodeName = m.Name
		all = append(all, one)
	}
	return all, nil
}

// answerElsewhere gives an answer to the node where the decision waits. It is about the text that this node was
// sent, and counts once, there; what gets lost on the way is no answer, so that in the end it is a no.
func (d *Desk) answerElsewhere(ctx context.Context, r *symbiov1.AnswerRequest) (*symbiov1.Approval, error) {
	found, problems := d.elsewhere(ctx, r.GetId())
	switch {
	case len(found) > 1:
		return nil, fmt.Errorf("%w: two nodes have an approval %q; answer it on its node", community.ErrInvalid, r.GetId())
	case len(found) == 0:
		err := fmt.Errorf("%w: no approval %q waits; %s", community.ErrNotFound, r.GetId(), notWaiting)
		for _, p := range problems {
			err = fmt.Errorf("%w\nnode %s did not say: %s", err, p.GetNodeName(), p.GetWhy())
		}
		return nil, err
	}
	a := found[0]
	switch {
	case len(a.GetShown()) == 0:
		return nil, fmt.Errorf("approval %q of node %s: %s", a.GetId(), a.GetNodeName(), a.GetWhy())
	case r.GetLasting():
		return nil, fmt.Errorf("%w: approval %q waits on node %s: what is to last is said there", community.ErrInvalid, a.GetId(), a.GetNodeName())
	case r.GetDigest() != "" && r.GetDigest() != a.GetDigest():
		return nil, fmt.Errorf("%w: approval %q: %w", community.ErrInvalid, a.GetId(), errOther)
	}
	data, err := json.Marshal(answerJSON{ID: a.GetId(), Digest: a.GetDigest(), Allow: r.GetAllow(), Always: r.GetAlways()})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err = d.cfg.Community.Invoke(ctx, community.MemberID(a.GetNode()), approvalsAnswer, community.Signal{Data: data, ContentType: "application/json"})
	switch {
	case errors.Is(err, community.ErrDenied):
		return nil, fmt.Errorf("%w: node %s: %s", community.ErrDenied, a.GetNodeName(), d.unseen(err))
	case errors.Is(err, community.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%w\nWhether the answer arrived is not known; if it did not, the call is denied in time. `symbio approvals list` shows what still waits", err)
	case err != nil:
		return nil, err
	}
	return a, nil
}

// List lists the decisions that wait: those of this node first and, unless here is set, those of the nodes that let this one
// see them. With an id it lists only that one.
func (d *Desk) List(ctx context.Context, id string, here bool) *symbiov1.ApprovalsReply {
	reply := &symbiov1.ApprovalsReply{Approvals: d.list(id)}
	for _, a := range reply.Approvals {
		a.NodeName = d.cfg.Name
	}
	if here || id != "" && len(reply.Approvals) > 0 {
		return reply
	}
	more, problems := d.elsewhere(ctx, id)
	reply.Approvals, reply.Problems = append(reply.Approvals, more...), problems
	return reply
}

// Answer decides what waits here or, where it does not, on another node. It returns what was decided.
func (d *Desk) Answer(ctx context.Context, r *symbiov1.AnswerRequest) (*symbiov1.Approval, error) {
	answer := tool.Answer{Allow: r.GetAllow(), Always: r.GetAlways(), Lasting: r.GetLasting(), By: cmp.Or(r.GetBy(), "control socket")}
	if answer.Lasting && !answer.Allow {
		return nil, fmt.Errorf("%w: only what is allowed can last; a denial that lasts is a rule in the configuration", community.ErrInvalid)
	}
	here, err := d.answer(r.GetId(), r.GetDigest(), answer)
	switch {
	case errors.Is(err, errOther), errors.Is(err, errNotLasting):
		return nil, fmt.Errorf("%w: approval %q: %w", community.ErrInvalid, r.GetId(), err)
	case err != nil:
		return nil, err
	case here == nil:
		return d.answerElsewhere(ctx, r)
	}
	a := here.wire()
	a.NodeName = d.cfg.Name
	return a, nil
}
