package budget

import (
	"context"
	"errors"
	"iter"
	"time"

	"symbio/agent/llm"
)

// ExceededError is the error of a task that has reached a limit. It wraps ErrExceeded.
type ExceededError struct {
	// Limit is the limit, in words.
	Limit string
	// Said is what the agent said of how far it got, in a last turn without tools; "" = it could not say anything more.
	Said string
}

// Error returns the limit, and what was said.
func (e *ExceededError) Error() string {
	if e.Said == "" {
		return ErrExceeded.Error() + ": " + e.Limit
	}
	return ErrExceeded.Error() + ": " + e.Limit + ". How far it got: " + e.Said
}

// Unwrap returns ErrExceeded.
func (e *ExceededError) Unwrap() error { return ErrExceeded }

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

// Task pays for the model calls of one task out of an account. From the first call on it keeps something for the last
// words, so that these never go over the limit.
type Task struct {
	account *Account
	until   time.Time // when the last words are due
	stop    func()    // ends the context of the task's tools; set by the task's goroutine, before it calls any tool

	// Guarded by the ledger's mu.
	kept    amounts
	perByte float64 // tokens, as the model counts them; at least a third
	over    string  // the limit that was reached; "" = none
}

// NewTask returns a task that begins now and ends at end. It has to be closed.
func NewTask(a *Account, now, end time.Time) *Task {
	return &Task{account: a, stop: func() {}, until: end.Add(-min(lastWall, end.Sub(now)/10)), perByte: 1. / 3}
}

// Until returns when the last words are due: a little before the end.
func (p *Task) Until() time.Time { return p.until }

// ForTools returns the context of the task's tools, which ends early enough for last words. Called once, by the task's
// goroutine.
func (p *Task) ForTools(ctx context.Context) context.Context {
	ctx, p.stop = context.WithDeadlineCause(ctx, p.until, p.account.late)
	return ctx
}

// Outcome returns how the task ended, if it reached a limit an *ExceededError: then text, what the model said at the end,
// are its last words.
func (p *Task) Outcome(text string, err error) error {
	p.account.ledger.mu.Lock()
	over := p.over
	p.account.ledger.mu.Unlock()
	var known *ExceededError
	switch {
	case over == "" || errors.As(err, &known):
		return err
	case err != nil:
		return &ExceededError{Limit: over + " (" + err.Error() + ")"}
	}
	return &ExceededError{Limit: over, Said: text}
}

// Close gives back what was kept.
func (p *Task) Close() {
	p.stop()
	l := p.account.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	p.keep(amounts{})
	l.broadcast()
}

// keep replaces what is kept for the last words. It needs the ledger's mu.
func (p *Task) keep(n amounts) {
	for k := range kinds {
		if d := n[k] - p.kept[k]; d != 0 {
			p.account.adjust(k, d)
		}
	}
	p.kept = n
}

// Meter returns a model whose calls are paid for by the task that is in progress when they are made; without one they fail.
func Meter(m llm.Model, task func() *Task) llm.Model {
	return metered{Model: m, task: task, sizes: &sizes{}}
}

type metered struct {
	llm.Model
	task  func() *Task // the task in progress; nil = none
	sizes *sizes
}

// reservation is what was reserved for one call; settle replaces it by what the call has taken.
type reservation struct {
	task     *Task
	reserved amounts
	size     int    // of the request, in bytes
	output   int    // the longest answer that is paid for; 0 = as long as it is
	last     string // the limit that makes this the last turn; "" = it is not the last

	asked bool // the model has begun to answer
	wrote int  // bytes
	usage *llm.Usage
}

// Stream waits until the most that the call may take can be reserved, then asks the model. At the limit it asks for the
// last words, and after that it fails with an *ExceededError.
func (m metered) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		p := m.task()
		if p == nil {
			yield(llm.Chunk{}, &ExceededError{Limit: "there is no task to pay for"})
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
			return yield(t.receive(c), err)
		})
	}
}

// receive counts what a piece of the answer takes. The last turn has no calls of tools, since the request names none, and
// its answer is as long as could be paid for.
func (t *reservation) receive(c llm.Chunk) llm.Chunk {
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

// begin waits until a call can be paid for, as long as calls in flight hold what they may turn out not to need.
func (p *Task) begin(ctx context.Context, m llm.Model, body, tools int) (*reservation, error) {
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

// try is one attempt of begin. With neither a reservation nor an error the caller tries again when the channel is closed.
func (p *Task) try(m llm.Model, body, tools int) (*reservation, <-chan struct{}, error) {
	l := p.account.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.over != "" {
		return nil, nil, &ExceededError{Limit: p.over}
	}
	if !priced(m) && p.account.pool(nanos).limit[nanos] < boundless {
		p.over = "what " + m.Name() + " costs is not known, and there is a limit to it; write its price under prices in the configuration"
		return nil, nil, &ExceededError{Limit: p.over}
	}
	if p.account.closed {
		p.over = "the agent has ended"
		return nil, nil, &ExceededError{Limit: p.over}
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
				t := &reservation{task: p, reserved: need, size: body + tools}
				if out < maxAnswer {
					t.output = int(out)
				}
				p.pay(t, last)
				return t, nil, nil
			}
		}
		if by, _, _ := p.account.binding(short); by.flying[short] > 0 {
			return nil, l.wait(), nil
		}
		p.over = p.account.limitOf(short)
	} else {
		p.over = p.account.late.Limit
	}
	in = p.count(body)
	out := min(lastAnswer, affordable(m, have, in))
	need := needs(m, in, out)
	if out < leastLast || lacking(have, need) != kinds {
		return nil, nil, &ExceededError{Limit: p.over}
	}
	t := &reservation{task: p, reserved: need, size: body, output: int(out), last: p.over}
	p.pay(t, amounts{})
	return t, nil, nil
}

// pay reserves what a call may take, and keeps so much for the last words.
func (p *Task) pay(t *reservation, kept amounts) {
	p.keep(kept)
	for k, n := range t.reserved {
		if n != 0 {
			p.account.each(kind(k), func(a *Account) { a.taken[k] += n; a.flying[k] += n })
		}
	}
}

// settle replaces what was reserved by what the call has taken. Without the model's own count it estimates; a call that was
// refused before the answer began has cost nothing.
func (t *reservation) settle(m llm.Model) {
	p := t.task
	l := p.account.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, n := range t.reserved {
		if n != 0 {
			p.account.each(kind(k), func(a *Account) { a.taken[k] -= n; a.flying[k] -= n })
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
	l.broadcast()
}

// shape fits the request to what is paid for.
func (t *reservation) shape(r llm.Request) llm.Request {
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

// count estimates how many tokens so many bytes are.
func (p *Task) count(bytes int) int64 { return int64(float64(bytes)*p.perByte) + 1 }

// needs returns what a call takes that reads and writes so many tokens.
func needs(m llm.Model, in, out int64) amounts {
	cost, _ := llm.CostOf(m, llm.Usage{Input: int(in), Output: int(out)})
	return amounts{calls: 1, tokens: in + out, nanos: nano(cost)}
}

// affordable returns how many tokens an answer to in tokens may have at most.
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

// lacking returns the first kind of which there is not enough; kinds = there is enough of all.
func lacking(have, need amounts) kind {
	for k := range kinds {
		if need[k] > 0 && need[k] > have[k] {
			return k
		}
	}
	return kinds
}

// limitOf returns the limit of a kind in words. It needs mu.
func (a *Account) limitOf(k kind) string {
	switch by, limit, _ := a.binding(k); {
	case !by.own[k]:
		return k.words(limit) + ", the limit of its definition"
	case by.parent != nil:
		return k.words(limit) + ", its share"
	default:
		return k.words(limit)
	}
}
