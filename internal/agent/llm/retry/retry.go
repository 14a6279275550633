// Package retry asks models until one answers: the same again, or the next of a list.
//
// The one idea: nothing is ever yielded twice. A request that failed is repeated only while nothing of its answer was yielded,
// and only where a later request, or another model, may succeed.
//
// Guarantees: pauses grow and are spread, so that agents that failed together do not come back together. A server that says when
// to come back is waited for, up to the context's deadline. One that says nothing is asked again until the patience is used up;
// one that was never reached, for some seconds only: its address is probably wrong. Every repetition is yielded as llm.Retry.
// Requests with the same Book share their knowledge of a server. After a failure one request finds out whether the server
// works again, and the others wait for it. Of several models the one that failed twice in a row, or refused, is asked last for a while,
// and one that is silent is left for the next. A tool that a server refuses is described plainly to it, or left out. It knows no wire.
package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"symbio/agent/llm"
)

// Config says how long models are asked. The zero value is usable.
type Config struct {
	// Patience is how long a request is repeated when servers do not say when to come back. Default 10m; negative: a request is
	// not repeated, not even when its server says when.
	Patience time.Duration
	// BackOff is the pause after the first failure of a server; it doubles, and a random part of up to a half is taken off. Default
	// 500ms. MaxBackOff is the longest; default 30s.
	BackOff, MaxBackOff time.Duration
	// FirstToken is how long a model of several may be silent before the next is asked. Default: as long as its answers take, at least
	// 10s and at most 30s. The last one has the time that its own limits give.
	FirstToken time.Duration
	// LeastBusy asks of several models the one that has the fewest requests now; else it is the first in their order.
	LeastBusy bool
	// Book remembers how the models did. Default: one of this Model alone.
	Book *Book
	// Logger receives repetitions (Info). Default: silent.
	Logger *slog.Logger
}

// ifUnreached is the patience with a server that was never reached. maxWait is the longest wait that a server may ask for where no
// deadline ends it.
const (
	ifUnreached = 4 * time.Second
	maxWait     = time.Hour
)

// Model asks one or several models. It is safe for concurrent use.
type Model struct {
	cfg     Config
	models  []llm.Model
	servers []*server // of models
	leftOut sync.Map  // the tools that it was told are left out, by the model's index
}

// New returns a model that asks these, in this order. ErrRefused, ErrDrift and the end of the context are final: no other is asked. If
// all fail, the error wraps all their errors; without models it is llm.ErrNoModel.
func New(cfg Config, models ...llm.Model) *Model {
	cfg.Patience, cfg.BackOff, cfg.MaxBackOff = cmp.Or(cfg.Patience, 10*time.Minute), cmp.Or(cfg.BackOff, 500*time.Millisecond), cmp.Or(cfg.MaxBackOff, 30*time.Second)
	if cfg.Book == nil {
		cfg.Book = new(Book)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	m := &Model{cfg: cfg, models: models}
	for _, one := range models {
		m.servers = append(m.servers, cfg.Book.server(one.Name()))
	}
	return m
}

// Name returns the names of the models, separated by commas.
func (m *Model) Name() string {
	var names []string
	for _, one := range m.models {
		names = append(names, one.Name())
	}
	return strings.Join(names, ",")
}

// Window returns the smallest window of the models, because any of them may answer.
func (m *Model) Window() (smallest int) {
	for _, one := range m.models {
		if n := llm.WindowOf(one); n > 0 && (smallest == 0 || n < smallest) {
			smallest = n
		}
	}
	return smallest
}

// CostOf returns the highest cost, because any of the models may answer.
func (m *Model) CostOf(u llm.Usage) (most float64, ok bool) {
	for _, one := range m.models {
		cost, known := llm.CostOf(one, u)
		if !known {
			return 0, false
		}
		most = max(most, cost)
	}
	return most, len(m.models) > 0
}

// Stream asks the models until one answers.
func (m *Model) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		x := &request{Model: m, ctx: ctx, r: r, yield: yield, failed: make([]error, len(m.models)), attempts: make([]int, len(m.models)),
			forms: make([]forms, len(m.models)), refused: make([]int, len(m.models)), asked: -1, told: -1}
		for x.step() {
		}
	}
}

// request is one request to the models. One goroutine uses it.
type request struct {
	*Model
	ctx   context.Context
	r     llm.Request
	yield func(llm.Chunk, error) bool

	// told is the model of the last Retry, until it is asked; -1 = none.
	told int
	// asked is the model that was asked last; -1 = none yet. failed has the last error of each, attempts how often each failed.
	asked    int
	failed   []error
	attempts []int
	// forms are the forms of tools that this request found, for each model; refused is how many requests it took to leave tools out.
	forms   []forms
	refused []int
	// since is when the first failure was, its own or that for which it waits.
	since time.Time
}

// step asks one model, or waits for one. It reports whether there is more to do.
func (x *request) step() bool {
	i, st := x.choose()
	switch {
	case i < 0:
		return x.fail(nil)
	case st.rank() == blocked && !x.waits(st):
		return false
	case st.wait > 0:
		return x.tell(i, st.wait, st.why) && x.sleep(st.wait, nil)
	case st.changed != nil:
		// Those that waited together do not ask together.
		return x.sleep(0, st.changed) && x.sleep(rand.N(x.cfg.BackOff), nil)
	}
	if x.asked >= 0 && x.asked != i && x.told != i && !x.tell(i, 0, x.failed[x.asked]) {
		return false
	}
	r, out := x.shaped(i)
	if !x.tellLeftOut(i, out) {
		return false
	}
	v := x.servers[i].enter(time.Now(), st.busy)
	if v == nil {
		return true
	}
	x.asked, x.told = i, -1
	final, err := x.ask(v, i, r)
	v.end(err, x.cfg)
	switch {
	case err == nil || errors.Is(err, llm.ErrStopped):
		return false
	case final:
		x.yield(llm.Chunk{}, err)
		return false
	case x.reshape(i, err):
		return true
	}
	x.failed[i] = err
	x.attempts[i]++
	if x.since.IsZero() {
		x.since = time.Now()
	}
	return true
}

// choose returns the model to ask now, or to wait for; -1 if none of them may answer any more. The requests of its state are the most
// with which it is the one to ask.
func (x *request) choose() (best int, of state) {
	best = -1
	now := time.Now()
	for i, s := range x.servers {
		if x.failed[i] != nil && sayOf(x.failed[i]) != fails {
			continue // it will not answer this request
		}
		if st := s.state(now); best < 0 || st.better(of, x.cfg.LeastBusy) {
			best, of = i, st
		}
	}
	if !x.cfg.LeastBusy {
		of.busy = math.MaxInt
	}
	return best, of
}

// better reports whether the model in state s is to be asked before one in state o.
func (s state) better(o state, leastBusy bool) bool {
	if c := cmp.Compare(s.rank(), o.rank()); c != 0 {
		return c < 0
	}
	if s.rank() == blocked {
		return s.wait < o.wait
	}
	return leastBusy && s.busy < o.busy
}

// The ranks of servers, the best first.
const (
	ready   = iota
	avoided // it failed or refused lately
	blocked // it may not be asked now
)

func (s state) rank() int {
	switch {
	case s.wait > 0 || s.changed != nil:
		return blocked
	case s.avoided:
		return avoided
	}
	return ready
}

// others reports whether a model beside i is ready.
func (x *request) others(i int) bool {
	for j, s := range x.servers {
		if j != i && x.failed[j] == nil && s.state(time.Now()).rank() == ready {
			return true
		}
	}
	return false
}

// errSilent is the cause of a context whose model was silent for too long.
var errSilent = errors.New("silent")

// ask asks one model. An error after the first chunk is final, since another answer must not follow a part of this one.
func (x *request) ask(v *visit, i int, r llm.Request) (final bool, err error) {
	ctx, cancel := context.WithCancelCause(x.ctx)
	defer cancel(nil)
	limit, heard := time.Duration(0), func() bool { return true }
	if x.others(i) {
		limit = v.patience(x.cfg.FirstToken)
		heard = time.AfterFunc(limit, func() { cancel(errSilent) }).Stop
		defer heard()
	}
	begun := false
	for c, err := range x.models[i].Stream(ctx, r) {
		if !begun && x.ctx.Err() == nil && (context.Cause(ctx) == errSilent || err == nil && !heard()) {
			return false, &llm.Error{Model: x.models[i].Name(), Detail: fmt.Sprintf("no answer began within %v, and another model is ready", limit), Err: llm.ErrTimeout}
		}
		if err != nil {
			return begun || !canFailOver(x.ctx, err), err
		}
		if !begun && c.Retry == nil {
			begun = true
			v.begin()
			v.learn(x.forms[i])
		}
		if c.Usage != nil && len(x.models) > 1 {
			used := *c.Usage
			used.Model = cmp.Or(used.Model, x.models[i].Name())
			c.Usage = &used
		}
		if !x.yield(c, nil) {
			return true, llm.ErrStopped
		}
	}
	return true, nil
}

// waits reports whether the request may wait for that model, and else ends it.
func (x *request) waits(st state) bool {
	now := time.Now()
	if x.since.IsZero() {
		x.since = now
	}
	limit := x.cfg.Patience
	deadline, ends := x.ctx.Deadline()
	switch {
	case limit < 0 || ends && deadline.Before(now.Add(st.wait)): // the caller learns more from the failure than from the end of its time
		return x.fail(st.why)
	case retryAfter(st.why) > 0 && ends:
		return true
	case retryAfter(st.why) > 0:
		limit = max(limit, maxWait)
	case !st.reached:
		limit = min(limit, ifUnreached)
	}
	return now.Add(st.wait).Sub(x.since) <= limit || x.fail(st.why)
}

// tell yields that model i is asked after that wait, because of the last failure. It reports whether the reader goes on.
func (x *request) tell(i int, wait time.Duration, why error) bool {
	x.told = i
	next := x.models[i].Name()
	told := &llm.Retry{Model: next, Next: next, Attempt: 1, Wait: wait, Err: why}
	if x.asked >= 0 {
		told.Model, told.Attempt, told.Err = x.models[x.asked].Name(), x.attempts[x.asked], x.failed[x.asked]
	}
	x.cfg.Logger.Info("model request repeated", "model", told.Model, "next", next, "attempt", told.Attempt, "err", told.Err, "wait", wait)
	return x.yield(llm.Chunk{Retry: told}, nil)
}

// sleep waits for d, or for changed if that is not nil. It reports whether the context goes on, and else ends the request.
func (x *request) sleep(d time.Duration, changed <-chan struct{}) bool {
	if changed == nil {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-x.ctx.Done():
		}
	} else {
		select {
		case <-changed:
			return true
		case <-x.ctx.Done():
		}
	}
	x.yield(llm.Chunk{}, fmt.Errorf("model %s: %w", x.Name(), x.ctx.Err()))
	return false
}

// fail ends the request with the errors of the models, or with why if none was asked. It returns false.
func (x *request) fail(why error) bool {
	format, args := "no model of the list answered", []any(nil)
	for _, err := range x.failed {
		if err != nil {
			format, args = format+"; %w", append(args, err)
		}
	}
	switch {
	case len(x.models) == 0:
		why = &llm.Error{Model: x.Name(), Detail: "the list of models is empty", Err: llm.ErrNoModel}
	case len(args) > 0 && len(x.models) == 1:
		why = x.failed[0]
	case len(args) > 0:
		why = fmt.Errorf(format, args...)
	}
	x.yield(llm.Chunk{}, why)
	return false
}

var _ llm.Model = (*Model)(nil)
