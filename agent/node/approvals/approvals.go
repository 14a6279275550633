// Package approvals holds the decisions about tool calls that wait for a person, of this node and of the nodes that let this
// one see theirs.
//
// The one idea: an answer is about exactly the text that the person was shown. The id and the digest of a decision are made of
// that text, so that a node cannot show one call and have another one allowed. A decision is answered at most once. A
// decision that has no answer in time, or whose task ends, is denied.
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
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// maxWaiting is how many decisions may wait at a time: more than people answer. The next one is denied at once.
const maxWaiting = 256

// errOther says that an answer is about something else than what waits.
var errOther = errors.New("what waits is not what was shown")

// Community is what a Desk needs of the node's community; *community.Community is one.
type Community interface {
	Offer(capability community.Capability, provide community.Provider, opts ...community.OfferOption) error
	WhoProvides(capability string) []community.Member
	Invoke(ctx context.Context, id community.MemberID, capability string, payload community.Signal) (community.Reply, error)
	Peer(id community.NodeID) (community.Peer, bool)
}

// Config sets up a Desk.
type Config struct {
	Node community.NodeID
	Name string // the node's
	// Community is where other nodes are asked, and where Offer offers.
	Community Community
	// Timeout is how long a decision waits; then it is denied.
	Timeout time.Duration
	// MaxMessage is how many bytes a message between nodes may have.
	MaxMessage int
	// Events gets each decision that waits, and what became of it.
	Events *event.Stream
	// Keep keeps rules that allow the shown call from now on, before the answer counts. nil = no answer can last.
	Keep func(rules []permission.Granted, call, by string) error
}

// Desk is where decisions wait for a person. Any terminal that is attached, and `symbio approvals` here and on nodes that may,
// can answer. It is safe for concurrent use.
type Desk struct {
	cfg Config

	mu      sync.Mutex
	last    uint64              // guarded by mu
	waiting map[string]*waiting // guarded by mu
}

// New returns a Desk.
func New(cfg Config) *Desk { return &Desk{cfg: cfg, waiting: map[string]*waiting{}} }

// waiting is a decision that waits. What is shown of it never changes.
type waiting struct {
	sheet
	lasting []permission.Granted // what a lasting answer would keep
	answer  chan tool.Answer     // capacity 1
}

// waitingEvent announces a decision that waits.
type waitingEvent struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
	// The event has a node and an agent of its own: a line of JSON does not name them twice.
	Node  string `json:"node,omitempty"`
	Agent string `json:"agent,omitempty"`
	shown
}

// answeredEvent tells what became of it.
type answeredEvent struct {
	ID    string `json:"id"`
	Allow bool   `json:"allow"`
	By    string `json:"by,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Ask announces a decision as an event and waits for its answer, for the time that it may wait, or for the
// end of the task.
func (d *Desk) Ask(ctx context.Context, asked agent.ApprovalRequest) tool.Answer {
	ctx, cancel := context.WithTimeoutCause(ctx, d.cfg.Timeout, fmt.Errorf("nobody answered within %v", d.cfg.Timeout))
	defer cancel()
	w, why := d.enter(asked)
	if w == nil {
		return tool.Answer{Why: why}
	}
	d.cfg.Events.Publish("approval", asked.Agent, waitingEvent{ID: w.id, Digest: w.digest, shown: w.shown})
	var answer tool.Answer
	select {
	case answer = <-w.answer:
	case <-ctx.Done():
		answer.Why = fmt.Sprintf("It was denied, because %v.", context.Cause(ctx))
	}
	d.leave(w.id)
	d.cfg.Events.Publish("answered", asked.Agent, answeredEvent{w.id, answer.Allow, answer.By, answer.Why})
	return answer
}

// enter has a decision wait; why says why it cannot.
func (d *Desk) enter(asked agent.ApprovalRequest) (w *waiting, why string) {
	args, err := json.Marshal(asked.Shown())
	if err != nil {
		return nil, fmt.Sprintf("It cannot be shown to a person, so it is denied: %v.", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) >= maxWaiting {
		return nil, "Too many decisions wait for a person already, so it is denied."
	}
	d.last++
	now := time.Now()
	s, err := newSheet(shown{
		Nonce: rand.Text(), Number: d.last, Node: string(d.cfg.Node), Agent: asked.Agent, Name: asked.Name, For: asked.OnBehalfOf, Tool: asked.Tool, Args: args,
		Rule: asked.Verdict.Rule, Why: asked.Verdict.Why, Rules: slices.Repeat([]string{"exactly this call of " + asked.Tool}, len(asked.LastingRules)), Asked: now.UTC(), Deadline: now.Add(d.cfg.Timeout).UTC(),
	})
	if err != nil {
		return nil, fmt.Sprintf("It cannot be shown to a person, so it is denied: %v.", err)
	}
	w = &waiting{sheet: s, lasting: asked.LastingRules, answer: make(chan tool.Answer, 1)}
	d.waiting[w.id] = w
	return w, ""
}

func (d *Desk) leave(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, id)
}

// answer decides what waits under id, and returns what that was; nil when nothing does. digest is that of what
// the person was shown; "" is for who got it from here. errOther, and it goes on waiting, when it is not that; so
// it does when what is to last cannot be kept. That writes to a file, under the lock: people are slower.
func (d *Desk) answer(id, digest string, answer tool.Answer) (*sheet, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, ok := d.waiting[id]
	if !ok {
		return nil, nil
	}
	if digest != "" && digest != w.digest {
		return nil, errOther
	}
	if answer.Lasting {
		if len(w.lasting) == 0 || d.cfg.Keep == nil {
			return nil, errNotLasting
		}
		call := w.Tool + " " + strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(string(w.Args))
		if err := d.cfg.Keep(w.lasting, call, answer.By); err != nil {
			return nil, err
		}
	}
	delete(d.waiting, id)
	answer.By = forHowLong(answer)
	w.answer <- answer // capacity 1, and only the one that took it out of the map sends
	return &w.sheet, nil
}

// forHowLong says who answered, and for how long.
func forHowLong(a tool.Answer) string {
	switch {
	case a.Lasting:
		return a.By + ", from now on"
	case a.Always:
		return a.By + ", always"
	}
	return a.By
}

// errNotLasting says that a decision is for once, or for the session.
var errNotLasting = errors.New("no rule can allow exactly this from now on; it can be allowed once, or with --always while the agent lives")

// list is what waits, the longest first; with an id that one.
func (d *Desk) list(id string) []*symbiov1.Approval {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*symbiov1.Approval
	for _, w := range d.waiting {
		if id == "" || id == w.id {
			all = append(all, w.wire())
		}
	}
	sortApprovals(all)
	return all
}

func sortApprovals(all []*symbiov1.Approval) {
	slices.SortStableFunc(all, func(x, y *symbiov1.Approval) int {
		return cmp.Or(x.GetAsked().AsTime().Compare(y.GetAsked().AsTime()), cmp.Compare(len(x.GetId()), len(y.GetId())), cmp.Compare(x.GetId(), y.GetId()))
	})
}
