// Package approvals has the tool calls that wait for the decision of a person:
// requests of this node, and of other nodes that let this node see theirs.
//
// An answer is for exactly the text that the person was shown. The id and the
// digest of a request are computed from that text, so that a node cannot show
// one call and get another one allowed. A request is answered at most once. A
// request without an answer in time, or whose task ends, is denied.
package approvals

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/security/standing"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// maxPending is the largest number of requests that wait at once. It is more
// than people answer; further requests are denied at once, so that agents
// cannot fill the memory.
const maxPending = 256

// maxReason bounds the reason of a no, in bytes: a paragraph. The rest is cut.
const maxReason = 2000

// errOtherContent means that the digest of an answer differs from the digest of the pending
// request.
var errOtherContent = errors.New("the call that waits is not the one that was shown; list the approvals again")

// Community is the part of *community.Community that a Queue uses.
type Community interface {
	Offer(capability community.Capability, provide community.Provider, opts ...community.OfferOption) error
	WhoProvides(capability string) []community.Member
	Invoke(ctx context.Context, id community.MemberID, capability string, payload community.Signal) (community.Reply, error)
	Peer(id community.NodeID) (community.Peer, bool)
}

// Config sets up a Queue.
type Config struct {
	Node community.NodeID
	Name string // the name of the node
	// Community reaches other nodes, and offers the capabilities of Offer to
	// them.
	Community Community
	// Timeout is how long a request waits. After it the call is denied.
	Timeout time.Duration
	// MaxMessage is the largest message between nodes, in bytes.
	MaxMessage int
	// Events gets an event "approval" for each new request and an event
	// "answered" for its answer.
	Events *event.Stream
	// Keep stores what an answer allows beside the call: the same call from now
	// on, or an offer. It runs before the answer counts; on an error the request
	// goes on waiting. nil = no answer allows more than its call.
	Keep func(standing.Entry) error
}

// Queue has the requests that wait for a person. Every attached terminal can
// answer them, and so can `symbio approvals` on this node and on authorized
// other nodes; the first answer counts. It is safe for concurrent use.
type Queue struct {
	cfg Config

	// mu makes "check, keep the rule, remove" of an answer one step, so that of
	// two answers one counts.
	mu      sync.Mutex
	last    uint64                     // guarded by mu
	pending map[string]*pendingRequest // guarded by mu
	// answered has the restored requests that were answered and whose agent has not asked yet, by
	// session; guarded by mu.
	answered map[string]*pendingRequest
}

// New returns an empty Queue. Call Offer to let other nodes see it.
func New(cfg Config) *Queue {
	return &Queue{cfg: cfg, pending: map[string]*pendingRequest{}, answered: map[string]*pendingRequest{}}
}

// pendingRequest is a request without an answer.
type pendingRequest struct {
	shown  request
	asked  agent.ApprovalRequest // the zero value for a restored request
	answer chan tool.Answer      // capacity 1; nil for a restored request
	// restored is set if the node ended while the request waited. No call waits for its answer then.
	restored *restoration
}

// Ask publishes a request and waits for its answer. It returns a denial with
// the reason if Config.Timeout passes, ctx ends, or too many requests wait. It
// may be called by any number of goroutines.
func (d *Queue) Ask(ctx context.Context, asked agent.ApprovalRequest) tool.Answer {
	if answer, ok := d.takeAnswer(asked); ok {
		return answer
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d.cfg.Timeout, fmt.Errorf("there was no answer within %v", d.cfg.Timeout))
	defer cancel()
	w, why := d.add(asked)
	if w == nil {
		return tool.Answer{Why: why}
	}
	d.cfg.Events.Publish(w.shown.event(w.currentDiff()))
	var answer tool.Answer
	select {
	case answer = <-w.answer:
	case <-ctx.Done():
		answer.Why = tool.Unanswered(context.Cause(ctx))
	}
	d.remove(w.shown.id)
	d.reportAnswer(&w.shown, answer)
	return answer
}

// reportAnswer publishes an answer. A text with a yes is the answer to a server's question, and for the server alone.
func (d *Queue) reportAnswer(r *request, a tool.Answer) {
	if a.Allow {
		a.Reason = ""
	}
	d.cfg.Events.Publish(event.Event{Type: event.TypeAnswered, Agent: r.Agent, Why: a.Why, Part: event.Answer{ID: r.id, Allow: a.Allow, By: a.By, Reason: a.Reason}})
}

// add puts a request into the queue. It returns nil and the reason, as a
// sentence for the model, if it cannot.
func (d *Queue) add(asked agent.ApprovalRequest) (w *pendingRequest, why string) {
	args, err := json.Marshal(asked.Shown())
	if err != nil {
		return nil, fmt.Sprintf("It cannot be shown to a person, so it is denied: %v.", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pending) >= maxPending {
		return nil, "Too many calls wait for a person already, so it is denied. Try again later."
	}
	now := time.Now()
	keepable := permission.Keepable{Rules: slices.Repeat([]string{"exactly this call of " + asked.Tool}, len(asked.LastingRules)), Offers: asked.Offers}
	s, err := d.number(content{
		Keepable: keepable, Agent: asked.Agent, Name: asked.Name, For: asked.OnBehalfOf, Tool: asked.Tool, Args: args,
		Rule: asked.Verdict.Rule, Why: asked.Verdict.Why, Asked: now.UTC(), Deadline: now.Add(d.cfg.Timeout).UTC(),
	})
	if err != nil {
		return nil, fmt.Sprintf("It cannot be shown to a person, so it is denied: %v.", err)
	}
	w = &pendingRequest{shown: s, asked: asked, answer: make(chan tool.Answer, 1)}
	d.pending[w.shown.id] = w
	return w, ""
}

// number returns the request with a content, which gets the next number. The
// caller holds mu.
func (d *Queue) number(c content) (request, error) {
	d.last++
	c.Nonce, c.Number, c.Node = rand.Text(), d.last, string(d.cfg.Node)
	return newRequest(c)
}

// Waiting returns how many requests wait here.
func (d *Queue) Waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.pending)
}

// remove takes a request out of the queue, whether it was answered or not.
func (d *Queue) remove(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pending, id)
}

// decide answers the request with this id and returns it, or nil if there is
// none. digest is the digest of the text that the person was shown; "" skips
// the check for callers on this node, which got the request from this Queue.
// With another digest it returns errOtherContent, and the error of keep; in both cases the request goes on waiting. Keep
// writes a file under the lock. That is slow, but people are slower.
func (d *Queue) decide(id, digest string, answer tool.Answer) (*request, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, ok := d.pending[id]
	if !ok {
		return nil, nil
	}
	if digest != "" && digest != digestOf(w.shown.text) {
		return nil, errOtherContent
	}
	if answer.Allow && answer.Reason != "" && !strings.HasPrefix(w.shown.Tool, tool.QuestionOf) {
		return nil, errNoQuestion // it would be told to the model as the reason of a no
	}
	if err := d.keep(w, answer); err != nil {
		return nil, err
	}
	delete(d.pending, id)
	answer.By, answer.Reason = describeAnswerer(w, answer), visible.Line(strings.TrimSpace(answer.Reason), maxReason)
	if w.restored != nil {
		w.restored.answer, d.answered[w.restored.session] = answer, w
		w.restored.answered()
		d.reportAnswer(&w.shown, answer)
		return &w.shown, nil
	}
	w.answer <- answer // capacity 1, and only the one that took it out of the map sends
	return &w.shown, nil
}

// keep stores the rules that an answer allows beside the call. The error is errNoOffer, errNotLasting, or Config.Keep's.
func (d *Queue) keep(w *pendingRequest, a tool.Answer) error {
	e := standing.Entry{By: a.By}
	switch {
	case a.Offer > 0:
		if !a.Allow || a.Offer > len(w.shown.Offers) || d.cfg.Keep == nil {
			return errNoOffer
		}
		e.Rules = w.shown.Offers[a.Offer-1].Rules
		if e.Shown = strings.Join(e.Rules, ", "); !a.Lasting {
			e.Agent = w.asked.Root
		}
	case a.Lasting:
		if len(w.asked.LastingRules) == 0 || d.cfg.Keep == nil {
			return errNotLasting
		}
		e.Call, e.Shown = w.asked.LastingRules[0].Call,
			w.shown.Tool+" "+strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(string(w.shown.Args))
	default:
		return nil
	}
	return d.cfg.Keep(e)
}

// describeAnswerer returns who answered a request, what is allowed with it, and for how long the answer holds.
func describeAnswerer(w *pendingRequest, a tool.Answer) string {
	if a.Offer > 0 {
		a.By += ", " + strings.Join(w.shown.Offers[a.Offer-1].Rules, " ")
	}
	switch {
	case a.Offer > 0 && !a.Lasting:
		return a.By + " for the session"
	case a.Lasting:
		return a.By + ", from now on"
	case a.Always:
		return a.By + ", always"
	}
	return a.By
}

// errNoQuestion means that a call was allowed with a text.
var errNoQuestion = errors.New("a text is the reason of a no, or answers a question of an MCP server; allow the call without one")

// errNoOffer means that an answer took an offer that the request does not have, or denied the call.
var errNoOffer = errors.New("there is no such offer to take with a yes; `symbio approvals show` lists the offers of the call")

// errNotLasting means that a lasting answer was given for a request that allows
// none.
var errNotLasting = errors.New("no rule can allow exactly this call from now on; allow it once, or with --always until the agent ends")

// pendingOf returns the pending requests, with an id or the beginning of one only those that it means.
func (d *Queue) pendingOf(id string) (found []*pendingRequest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.pending {
		if id == "" || visible.IsID(id, w.shown.id) {
			found = append(found, w)
		}
	}
	return found
}

// list returns the requests of pendingOf, oldest first.
func (d *Queue) list(id string) []*symbiov1.Approval {
	found := d.pendingOf(id) // the files of the edits are read without the lock
	var all []*symbiov1.Approval
	for _, w := range found {
		a := w.shown.wire()
		a.Diff = w.currentDiff()
		if w.asked.SoFar != nil {
			a.SoFar = visible.Line(w.asked.SoFar(), maxSoFar)
		}
		all = append(all, a)
	}
	sortApprovals(all)
	return all
}

// currentDiff returns what an edit that waits would change now; "" for other calls.
func (w *pendingRequest) currentDiff() string {
	if w.asked.Diff == nil {
		return ""
	}
	return w.asked.Diff()
}

// sortApprovals sorts by the time of the request. Ids with fewer digits come
// first, since they start with a counter.
func sortApprovals(all []*symbiov1.Approval) {
	slices.SortStableFunc(all, func(x, y *symbiov1.Approval) int {
		return cmp.Or(x.GetAsked().AsTime().Compare(y.GetAsked().AsTime()), cmp.Compare(len(x.GetId()), len(y.GetId())), cmp.Compare(x.GetId(), y.GetId()))
	})
}
