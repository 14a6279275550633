package budget

import (
	"context"
	"errors"
	"iter"
	"time"

	"symbio/agent/llm"
	"symbio/internal/actor/term"
)

// ExceededError is the error of a task that has reached a limit. It wraps ErrExceeded. Its text is
// for people, for models, and for other nodes.
type ExceededError struct {
	// Limit is the limit, in words.
	Limit string
	// Summary is what the model wrote about the state of the task in a last turn without tools; ""
	// = there was no budget left for that turn.
	Summary string
}

// Error returns the limit and the summary.
func (e *ExceededError) Error() string {
	if e.Summary == "" {
		return ErrExceeded.Error() + ": " + e.Limit
	}
	return ErrExceeded.Error() + ": " + e.Limit + ". How far it got: " + e.Summary
}

// Unwrap returns ErrExceeded.
func (e *ExceededError) Unwrap() error { return ErrExceeded }

const (
	// maxAnswer is the longest answer that a reservation assumes, in tokens: more than models write
	// at once. If the budget leaves less, the request limits the answer to that.
	maxAnswer = 64 << 10
	// minAnswer is the shortest answer that an agent can work with, in tokens. If less is left, it
	// only sums up.
	minAnswer = 1 << 10
	// maxSummary is the longest summary at the end of a budget, minSummary the shortest useful one,
	// in tokens.
	maxSummary, minSummary = 4 << 10, 128
	// growth is how many tokens of tool results are assumed to follow an answer before the next call.
	growth = 2 << 10
	// maxSummaryTime is the most time that is reserved for the summary before the task's time ends.
	// It is at most a tenth of the task's time.
	maxSummaryTime = 30 * time.Second
	// perImage is how many bytes of text an image counts as: about 1600 tokens, what providers
	// count for a full-size image.
	perImage = 5000
)

// Task pays for the model calls of one task from an account. From the first call on it reserves
// enough for a summary, so that the summary never exceeds the limit. It is safe for concurrent use.
type Task struct {
	account    *Account
	end        time.Time
	summaryDue time.Time // when the model has to sum up
	stop       func()    // ends the context of the task's tools; set by the task's goroutine, before it calls any tool

	// Guarded by the ledger's mu.
	summaryReserve amounts
	perByte        float64 // tokens per byte, as the model counted them so far; at least 1/3
	exceeded       string  // the limit that was reached; "" = none
}

// NewTask returns a task that begins now and ends at end. The caller must close it.
func NewTask(a *Account, now, end time.Time) *Task {
	return &Task{account: a, end: end, stop: func() {}, summaryDue: end.Add(-min(maxSummaryTime, end.Sub(now)/10)), perByte: 1. / 3}
}

// SummaryDue returns when the model has to sum up: a little before the end of the task's time.
func (p *Task) SummaryDue() time.Time { return p.summaryDue }

// Context returns the context of the task, which ends at the task's time limit with that cause, and a function that ends it. The
// function must be called when the task is done, and may be called before.
func (p *Task) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	t := term.Until(ctx, p.end, p.account.timeExceeded)
	return t, t.Close
}

// ForTools returns the context of the task's tools. It ends when the summary is due. It must be
// called once, by the task's goroutine, before any tool runs.
func (p *Task) ForTools(ctx context.Context) context.Context {
	tools := term.Until(ctx, p.summaryDue, p.account.timeExceeded)
	p.stop = tools.Close
	return tools
}

// Outcome returns the error of a task that ended with text and err. If the task reached a limit,
// that is an *ExceededError with text, the model's last answer, as its summary.
func (p *Task) Outcome(text string, err error) error {
	p.account.ledger.mu.Lock()
	over := p.exceeded
	p.account.ledger.mu.Unlock()
	var known *ExceededError
	switch {
	case over == "" || errors.As(err, &known):
		return err
	case err != nil:
		return &ExceededError{Limit: over + " (" + err.Error() + ")"}
	}
	return &ExceededError{Limit: over, Summary: text}
}

// Close releases what was reserved for the summary and ends the context of the tools.
func (p *Task) Close() {
	p.stop()
	l := p.account.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	p.setSummaryReserve(amounts{})
	l.broadcast()
}

// setSummaryReserve replaces what is reserved for the summary. The caller must hold the ledger's mu.
func (p *Task) setSummaryReserve(n amounts) {
	for k := range kinds {
		p.account.adjust(k, n[k]-p.summaryReserve[k])
	}
	p.summaryReserve = n
}

// Meter returns a model whose calls are paid by the task that runs when they are made. Calls
// without a task fail: otherwise a model could be used beyond any limit.
func Meter(m llm.Model, task func() *Task) llm.Model { return meteredModel{Model: m, task: task} }

// MeterAside returns a model like Meter does, for requests that are no turns of the task: they must say how long an
// answer they want. Where the budget leaves too little for one, it alone fails, and the task goes on. The reservation for
// the task's summary is not touched.
func MeterAside(m llm.Model, task func() *Task) llm.Model {
	return meteredModel{Model: m, task: task, aside: true}
}

// meteredModel is a model that reserves before each call and settles after it.
type meteredModel struct {
	llm.Model
	task  func() *Task // returns the running task; nil = none
	aside bool         // the requests are no turns of the task
}

// Window returns the context window of the metered model.
func (m meteredModel) Window() int { return llm.WindowOf(m.Model) }

// reservation is what was reserved for one call. settle replaces it by what the call used. One
// goroutine uses it.
type reservation struct {
	task     *Task
	reserved amounts
	size     int    // of the request, in bytes
	output   int    // the longest answer that is paid for, in tokens; 0 = no limit
	summary  string // the limit that makes this the last turn; "" = it is not the last turn

	started bool // the model has begun to answer
	written int  // bytes
	usage   *llm.Usage
}

// Stream waits until the most that the call may use can be reserved, then asks the model. At a
// limit it asks for a summary instead; after that it fails with an *ExceededError.
func (m meteredModel) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		p := m.task()
		if p == nil {
			yield(llm.Chunk{}, &ExceededError{Limit: "there is no task to pay for"})
			return
		}
		body, tools := sizesOf(r)
		try := func() (*reservation, <-chan struct{}, error) { return p.try(m.Model, body, tools) }
		if m.aside {
			try = func() (*reservation, <-chan struct{}, error) { return p.tryAside(m.Model, body, r.MaxTokens) }
		}
		t, err := p.begin(ctx, try)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		defer t.settle(m.Model)
		m.Model.Stream(ctx, t.shape(r))(func(c llm.Chunk, err error) bool {
			t.started = t.started || err == nil && c.Retry == nil || ctx.Err() != nil
			return yield(t.receive(c), err)
		})
	}
}

// receive counts a chunk of the answer. In the last turn it drops tool calls, which the request did
// not offer, and reports a cut summary as a complete one, because no longer one can be paid for.
func (t *reservation) receive(c llm.Chunk) llm.Chunk {
	if t.summary != "" {
		if c.Call = nil; c.Stop == llm.StopTools || c.Stop == llm.StopLength {
			c.Stop = llm.StopEnd
		}
	}
	t.written += len(c.Text) + len(c.Thought)
	if c.Call != nil {
		t.written += len(c.Call.Args)
	}
	if c.Usage != nil {
		t.usage = c.Usage
	}
	return c
}

// begin reserves a call with try. While the budget is short only because of calls in flight, it waits: they
// may use less than they reserved. It returns the cause of ctx if ctx ends.
func (p *Task) begin(ctx context.Context, try func() (*reservation, <-chan struct{}, error)) (*reservation, error) {
	p.account.ledger.waitPace(ctx)
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		t, changed, err := try()
		if t != nil || err != nil {
			return t, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// try is one attempt of begin. If it returns neither a reservation nor an error, the caller tries
// again when the channel is closed.
func (p *Task) try(m llm.Model, body, tools int) (*reservation, <-chan struct{}, error) {
	l := p.account.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.exceeded = p.blocked(m); p.exceeded != "" {
		return nil, nil, &ExceededError{Limit: p.exceeded}
	}
	have := p.account.free()
	for k := range kinds {
		have[k] += p.summaryReserve[k]
	}
	in := p.estimateTokens(body + tools)
	short := nanos
	if time.Now().Before(p.summaryDue) {
		ample := min(maxAnswer, affordable(m, have, in)/8)
		for _, out := range []int64{max(ample, minAnswer), minAnswer} {
			need, last := needs(m, in, out), needs(m, in+out+growth, maxSummary)
			if short = firstShortage(have, sum(need, last)); short == kinds {
				t := &reservation{task: p, reserved: need, size: body + tools}
				if out < maxAnswer {
					t.output = int(out)
				}
				p.pay(t, last)
				return t, nil, nil
			}
		}
		if by, _, _ := p.account.binding(short); by.quotas[short].reserved > 0 {
			return nil, l.wait(), nil
		}
		p.exceeded = p.account.limitOf(short)
	} else {
		p.exceeded = p.account.timeExceeded.Limit
	}
	in = p.estimateTokens(body)
	out := min(maxSummary, affordable(m, have, in))
	need := needs(m, in, out)
	if out < minSummary || firstShortage(have, need) != kinds {
		return nil, nil, &ExceededError{Limit: p.exceeded}
	}
	t := &reservation{task: p, reserved: need, size: body, output: int(out), summary: p.exceeded}
	p.pay(t, amounts{})
	return t, nil, nil
}

// blocked returns why no call of the model can be paid for, whatever it uses; "" = one can. The caller must hold the
// ledger's mu.
func (p *Task) blocked(m llm.Model) string {
	switch {
	case p.exceeded != "":
		return p.exceeded
	case !priced(m) && p.account.pool(nanos).quotas[nanos].limit < unlimitedFrom:
		return "what " + m.Name() + " costs is not known, and there is a limit to it; write its price under prices in the configuration"
	case p.account.closed:
		return "the agent has ended"
	}
	return ""
}

// tryAside is try for a request that is no turn of the task and has no tools: its answer has at most out tokens.
func (p *Task) tryAside(m llm.Model, body, out int) (*reservation, <-chan struct{}, error) {
	l := p.account.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if why := p.blocked(m); why != "" {
		return nil, nil, &ExceededError{Limit: why}
	}
	need := needs(m, p.estimateTokens(body), int64(out))
	if short := firstShortage(p.account.free(), need); short != kinds {
		return nil, nil, &ExceededError{Limit: p.account.limitOf(short)}
	}
	t := &reservation{task: p, reserved: need, size: body, output: out}
	p.pay(t, p.summaryReserve)
	return t, nil, nil
}

// pay reserves what a call may use, and what the summary needs after it. The caller must hold the
// ledger's mu.
func (p *Task) pay(t *reservation, kept amounts) {
	p.setSummaryReserve(kept)
	for k, n := range t.reserved {
		p.account.each(kind(k), func(q *quota) { q.taken += n; q.reserved += n })
	}
}

// settle replaces a reservation by what the call used. If the model did not report its tokens,
// settle estimates them. A call that was refused before the answer began costs no tokens.
func (t *reservation) settle(m llm.Model) {
	p := t.task
	l := p.account.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, n := range t.reserved {
		p.account.each(kind(k), func(q *quota) { q.taken -= n; q.reserved -= n })
	}
	spent := amounts{calls: 1}
	switch u := t.usage; {
	case u != nil:
		spent[tokens] = int64(max(u.Input, 0)) + int64(max(u.Output, 0))
		p.account.addCached(int64(min(max(u.CacheRead, 0), max(u.Input, 0))))
		if u.Cost != nil {
			spent[nanos] = max(nano(*u.Cost), 0)
		}
		if u.Input > 0 && t.size > 0 {
			p.perByte = max(p.perByte, float64(u.Input)/float64(t.size))
		}
	case t.started:
		estimate := llm.Usage{Input: t.size / 4, Output: t.written / 4}
		spent[tokens] = int64(estimate.Input + estimate.Output)
		if cost, ok := llm.CostOf(m, estimate); ok {
			spent[nanos] = nano(cost)
		}
	}
	p.account.spend(spent)
	l.broadcast()
}

// shape limits the request to what is paid for. In the last turn it takes the tools away and asks
// for a summary.
func (t *reservation) shape(r llm.Request) llm.Request {
	if t.output > 0 && (r.MaxTokens == 0 || r.MaxTokens > t.output) {
		r.MaxTokens = t.output
	}
	if t.summary != "" {
		r.Tools, r.ToolChoice, r.Thinking = nil, "", 0
		r.Messages = append(r.Messages[:len(r.Messages):len(r.Messages)], llm.Message{Role: llm.User, Text: summaryPrompt(t.summary)})
	}
	return r
}

// summaryPrompt returns the user message that asks for the summary.
func summaryPrompt(limit string) string {
	return "[The budget of this task is used up: " + limit + ". This is your last turn, and there are no tools in it. " +
		"Say in a few sentences what is done, what the result is so far, and what is missing.]"
}

// estimateTokens estimates the number of tokens of a text from its bytes.
func (p *Task) estimateTokens(bytes int) int64 { return int64(float64(bytes)*p.perByte) + 1 }

// needs returns what a call uses that reads in tokens and writes out tokens.
func needs(m llm.Model, in, out int64) amounts {
	cost, _ := llm.CostOf(m, llm.Usage{Input: int(in), Output: int(out)})
	return amounts{calls: 1, tokens: in + out, nanos: nano(cost)}
}

// affordable returns how many tokens an answer may have after a request of in tokens.
func affordable(m llm.Model, have amounts, in int64) int64 {
	out := have[tokens] - in
	if have[nanos] >= unlimitedFrom {
		return out
	}
	read, _ := llm.CostOf(m, llm.Usage{Input: int(in)})
	if write, _ := llm.CostOf(m, llm.Usage{Output: 1_000_000}); write > 0 {
		out = min(out, int64((float64(have[nanos])/1e9-read)/write*1_000_000))
	}
	return out
}

// priced reports whether the model's cost is known beforehand.
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

// firstShortage returns the first kind that is short; kinds = there is enough of all.
func firstShortage(have, need amounts) kind {
	for k := range kinds {
		if need[k] > 0 && need[k] > have[k] {
			return k
		}
	}
	return kinds
}

// limitOf returns the binding limit of a kind in words. The caller must hold mu.
func (a *Account) limitOf(k kind) string {
	switch by, limit, _ := a.binding(k); {
	case !by.quotas[k].own:
		return k.words(limit) + ", the limit of its definition"
	case by.parent != nil:
		return k.words(limit) + ", its share"
	default:
		return k.words(limit)
	}
}
