package agent

import (
	"context"
	"iter"
	"sync"
	"time"

	"symbio/agent/llm"
)

// OverBudget is how a task ends that has reached a limit: it wraps ErrBudget.
type OverBudget struct {
	// Limit is which, in words.
	Limit string
	// Said is what the agent said of how far it got, in a last turn without tools; "" = it could not say anything more.
	Said string
}

// Error is the limit, and what was said.
func (e *OverBudget) Error() string {
	if e.Said == "" {
		return ErrBudget.Error() + ": " + e.Limit
	}
	return ErrBudget.Error() + ": " + e.Limit + ". How far it got: " + e.Said
}

// Unwrap is ErrBudget.
func (e *OverBudget) Unwrap() error { return ErrBudget }

const (
	// maxAnswer is how long an answer is taken to be at most: what models write at once. One that may be shorter for
	// the budget's sake is told to the model as its limit.
	maxAnswer = 64 << 10
	// leastAnswer is the shortest that an agent can still work with; with less than that left it only sums up.
	leastAnswer = 1 << 10
	// lastAnswer is the longest summing up, and leastLast the shortest that is of use.
	lastAnswer, leastLast = 4 << 10, 128
	// growth is by how much a conversation is taken to grow, besides the answer, until the next call.
	growth = 2 << 10
	// lastWall is how long before the end of its time an agent sums up, at most: a tenth of the time.
	lastWall = 30 * time.Second
	// perImage is what an image counts as, in bytes of text.
	perImage = 5000
)

// purse is what an agent pays its model from during one task. It keeps something for its last words from the first call
// on, so that these never go over the limit.
type purse struct {
	account *account
	until   time.Time // when it has its last words
	stop    func()    // ends the context of the task's tools; set by the task's goroutine, before it calls any

	// Guarded by the ledger's mu.
	kept    amounts
	perByte float64 // tokens, as the model counts them; at least a third
	over    string  // the limit that was reached; "" = none
}

func newPurse(a *account, now, end time.Time) *purse {
	return &purse{account: a, stop: func() {}, until: end.Add(-min(lastWall, end.Sub(now)/10)), perByte: 1. / 3}
}

// close gives back what was kept, and returns the limit that was reached.
func (p *purse) close() string {
	p.stop()
	l := p.account.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	p.keep(amounts{})
	l.tell()
	return p.over
}

func (p *purse) keep(n amounts) {
	for k := range kinds {
		if d := n[k] - p.kept[k]; d != 0 {
			p.account.adjust(k, d)
		}
	}
	p.kept = n
}

// metered is a model that is paid for by whoever works with it.
type metered struct {
	llm.Model
	purse func() *purse // of the task that it is asked for
	sizes *sizes
}

// turn is a call that is paid for beforehand, as far as it can be known; what it really was is settled afterwards.
type turn struct {
	purse    *purse
	reserved amounts
	size     int // of the request, in bytes
	output   int // the longest answer that is paid for; 0 = as long as it is
	last     string

	asked bool // the model has begun to answer
	wrote int  // bytes
	usage *llm.Usage
}

// Stream asks the model once what that takes at most can be paid. At the limit it asks for the last words, and then it
// fails with an *OverBudget.
func (m metered) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		p := m.purse()
		if p == nil {
			yield(llm.Chunk{}, &OverBudget{Limit: "there is no task to pay for"})
			return
		}
		body, tools := m.sizes.of(r)
		t, err := p.begin(ctx, m.Model, body, tools)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		defer t.settle(m.Model)
		m.Model.Stream(ctx, t.shape(r))(func(c llm.Chunk, err error) bool {
			t.asked = t.asked || err == nil && c.Retry == nil || ctx.Err() != nil
			return yield(t.hear(c), err)
		})
	}
}

// hear notes what a piece of the answer takes. In its last turn a model makes no calls, since it was told that there are
// no tools any more, and what it says is as much as could be paid for.
func (t *turn) hear(c llm.Chunk) llm.Chunk {
	if t.last != "" {
		if c.Call = nil; c.Stop == llm.StopTools || c.Stop == llm.StopLength {
			c.Stop = llm.StopEnd
		}
	}
	t.wrote += len(c.Text) + len(c.Thought)
	if c.Call != nil {
		t.wrote += len(c.Call.Args)
	}
	if c.Usage != nil {
		t.usage = c.Usage
	}
	return c
}

// begin waits until a call can be paid for: it does not while calls in flight hold what they may turn out not to need.
func (p *purse) begin(ctx context.Context, m llm.Model, body, tools int) (*turn, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		t, changed, err := p.try(m, body, tools)
		if t != nil || err != nil {
			return t, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// try is begin once; with neither a turn nor an error it is to be tried again when the channel is closed.
func (p *purse) try(m llm.Model, body, tools int) (*turn, <-chan struct{}, error) {
	l := p.account.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.over != "" {
		return nil, nil, &OverBudget{Limit: p.over}
	}
	if !priced(m) && p.account.pool(nanos).limit[nanos] < boundless {
		p.over = "what " + m.Name() + " costs is not known, and there is a limit to it; write its price under prices in the configuration"
		return nil, nil, &OverBudget{Limit: p.over}
	}
	if p.account.closed {
		p.over = "the agent has ended"
		return nil, nil, &OverBudget{Limit: p.over}
	}
	have := p.account.free()
	for k := range kinds {
		have[k] += p.kept[k]
	}
	in := p.count(body + tools)
	short := nanos
	if time.Now().Before(p.until) {
		ample := min(maxAnswer, affordable(m, have, in)/8)
		for _, out := range []int64{max(ample, leastAnswer), leastAnswer} {
			need, last := needs(m, in, out), needs(m, in+out+growth, lastAnswer)
			if short = lacking(have, sum(need, last)); short == kinds {
				t := &turn{purse: p, reserved: need, size: body + tools}
				if out < maxAnswer {
					t.output = int(out)
				}
				p.pay(t, last)
				return t, nil, nil
			}
		}
		if by, _, _ := p.account.binding(short); by.flying[short] > 0 {
			return nil, l.change(), nil
		}
		p.over = p.account.limitOf(short)
	} else {
		p.over = p.account.late.Limit
	}
	in = p.count(body)
	out := min(lastAnswer, affordable(m, have, in))
	need := needs(m, in, out)
	if out < leastLast || lacking(have, need) != kinds {
		return nil, nil, &OverBudget{Limit: p.over}
	}
	t := &turn{purse: p, reserved: need, size: body, output: int(out), last: p.over}
	p.pay(t, amounts{})
	return t, nil, nil
}

// pay reserves what a turn may take, and keeps so much for the last one.
func (p *purse) pay(t *turn, kept amounts) {
	p.keep(kept)
	for k, n := range t.reserved {
		if n != 0 {
			p.account.each(kind(k), func(a *account) { a.taken[k] += n; a.flying[k] += n })
		}
	}
}

// settle puts what a call has taken in the place of what was reserved. What nobody has counted is estimated, and a call
// that was refused before it began has cost nothing.
func (t *turn) settle(m llm.Model) {
	p := t.purse
	l := p.account.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, n := range t.reserved {
		if n != 0 {
			p.account.each(kind(k), func(a *account) { a.taken[k] -= n; a.flying[k] -= n })
		}
	}
	spent := amounts{calls: 1}
	switch u := t.usage; {
	case u != nil:
		spent[tokens] = int64(max(u.Input, 0)) + int64(max(u.Output, 0))
		if u.Cost != nil {
			spent[nanos] = max(nano(*u.Cost), 0)
		}
		if u.Input > 0 && t.size > 0 {
			p.perByte = max(p.perByte, float64(u.Input)/float64(t.size))
		}
	case t.asked:
		estimate := llm.Usage{Input: t.size / 4, Output: t.wrote / 4}
		spent[tokens] = int64(estimate.Input + estimate.Output)
		if cost, ok := llm.CostOf(m, estimate); ok {
			spent[nanos] = nano(cost)
		}
	}
	p.account.spend(spent)
	l.tell()
}

// shape is the request as it is paid for.
func (t *turn) shape(r llm.Request) llm.Request {
	if t.output > 0 && (r.MaxTokens == 0 || r.MaxTokens > t.output) {
		r.MaxTokens = t.output
	}
	if t.last != "" {
		r.Tools, r.Thinking = nil, 0
		r.Messages = append(r.Messages[:len(r.Messages):len(r.Messages)], llm.Message{Role: llm.User, Text: lastWords(t.last)})
	}
	return r
}

func lastWords(limit string) string {
	return "[The budget of this task is used up: " + limit + ". This is your last turn, and there are no tools in it. " +
		"Say in a few sentences what is done, what the result is so far, and what is missing.]"
}

// count is how many tokens so many bytes are taken to be.
func (p *purse) count(bytes int) int64 { return int64(float64(bytes)*p.perByte) + 1 }

// needs is what a call takes that reads and writes so many tokens.
func needs(m llm.Model, in, out int64) amounts {
	cost, _ := llm.CostOf(m, llm.Usage{Input: int(in), Output: int(out)})
	return amounts{calls: 1, tokens: in + out, nanos: nano(cost)}
}

// affordable is how many tokens an answer may have at most that follows so many.
func affordable(m llm.Model, have amounts, in int64) int64 {
	out := have[tokens] - in
	if have[nanos] >= boundless {
		return out
	}
	read, _ := llm.CostOf(m, llm.Usage{Input: int(in)})
	if write, _ := llm.CostOf(m, llm.Usage{Output: 1_000_000}); write > 0 {
		out = min(out, int64((float64(have[nanos])/1e9-read)/write*1_000_000))
	}
	return out
}

func priced(m llm.Model) bool {
	_, ok := llm.CostOf(m, llm.Usage{})
	return ok
}

func sum(a, b amounts) amounts {
	for k := range kinds {
		a[k] += b[k]
	}
	return a
}

// lacking is the first kind of which there is not enough; kinds = there is of all.
func lacking(have, need amounts) kind {
	for k := range kinds {
		if need[k] > 0 && need[k] > have[k] {
			return k
		}
	}
	return kinds
}

// limitOf is the limit of a kind in words. It needs mu.
func (a *account) limitOf(k kind) string {
	switch by, limit, _ := a.binding(k); {
	case !by.own[k]:
		return k.say(limit) + ", the limit of its definition"
	case by.parent != nil:
		return k.say(limit) + ", its share"
	default:
		return k.say(limit)
	}
}

// sizes knows how long requests are, in bytes. A conversation grows at its end, so that what stands before that is not
// counted anew with each turn.
type sizes struct {
	mu       sync.Mutex
	messages []llm.Message // that were counted last; guarded by mu
	body     int           // of these, without the last few; guarded by mu
	specs    []llm.ToolSpec
	tools    int // of specs; guarded by mu
}

const (
	perMessage = 12 // bytes that stand around one
	unsettled  = 4  // messages at the end that may still become longer
)

// of is how long a request is without its tools, and how long these are.
func (s *sizes) of(r llm.Request) (body, tools int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	settled := max(0, len(r.Messages)-unsettled)
	known := max(0, len(s.messages)-unsettled)
	if known > settled || known > 0 && &s.messages[0] != &r.Messages[0] {
		known, s.body = 0, 0
	}
	for i := known; i < settled; i++ {
		s.body += sizeOf(&r.Messages[i])
	}
	s.messages = r.Messages
	body = len(r.System) + s.body
	for i := settled; i < len(r.Messages); i++ {
		body += sizeOf(&r.Messages[i])
	}
	if r.Output != nil {
		body += len(r.Output.Schema)
	}
	if len(r.Tools) != len(s.specs) || len(r.Tools) > 0 && &r.Tools[0] != &s.specs[0] {
		s.specs, s.tools = r.Tools, 0
		for i := range r.Tools {
			s.tools += perMessage + len(r.Tools[i].Name) + len(r.Tools[i].Description) + len(r.Tools[i].Schema)
		}
	}
	return body, s.tools
}

func sizeOf(m *llm.Message) int {
	n := perMessage + len(m.Text) + perImage*len(m.Images)
	for i := range m.Calls {
		n += perMessage + len(m.Calls[i].Name) + len(m.Calls[i].Args)
	}
	for i := range m.Results {
		n += perMessage + len(m.Results[i].Text) + perImage*len(m.Results[i].Images)
	}
	for i := range m.Thinking {
		n += len(m.Thinking[i].Text) + len(m.Thinking[i].Signature) + len(m.Thinking[i].Sealed)
	}
	return n
}
