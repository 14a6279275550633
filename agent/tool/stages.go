package tool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"symbio/security/permission"
)

// stage is something that each call goes through. Each half may be nil.
type stage struct {
	name string
	// before is done for one call at a time, in their order, before any call of the batch runs. With false the call
	// ends there, and its result says why.
	before func(context.Context, *job) bool
	// around is put around the running of a call, which is beside that of others.
	around func(ctx context.Context, j *job, next func(context.Context) Result) Result
}

// chain is what every call goes through between the model and the tool. This is the one place that says so, and in
// which order. It begins with a decoded call; what is judged in it is what runs at its end.
func (s *Set) chain() []stage {
	all := []stage{
		{name: "events", before: s.reportCall},
		{name: "permission", before: s.judge},
		{name: "sandbox", before: s.sandboxStage},
		{name: "approval", before: s.approve},
		{name: "timeout", around: s.limit},
	}
	for _, m := range s.cfg.Middleware {
		all = append(all, stage{name: "middleware", around: func(ctx context.Context, j *job, next func(context.Context) Result) Result {
			return m(ctx, s.copyOf(j), next)
		}})
	}
	return all
}

// Call is a call as a Middleware sees it. It is a copy: writing to it changes nothing.
type Call struct {
	Agent string // whose it is
	ID    string
	Tool  string
	Args  map[string]any // decoded
	Dir   string         // what relative paths in it start from
}

// Middleware is what a Go program puts around each call that may run: inside of permission, sandbox, approval and
// timeout, around the tool. It may look at the call, answer in the tool's place (a cache, a test), change the result,
// and give the tool a context with more in it. It cannot change the call: next runs exactly what was judged, and at
// most once, because a person may have allowed it once. It calls next, if at all, before it returns. It may be called
// from many goroutines. A panic is an error result.
type Middleware func(ctx context.Context, c Call, next func(context.Context) Result) Result

// prepare takes a call through what is before its running.
func (s *Set) prepare(ctx context.Context, j *job) {
	for _, st := range s.stages {
		if st.before != nil && !st.before(ctx, j) {
			return
		}
	}
	j.ready = true
}

// run takes a call through what is around its running, to the tool.
func (s *Set) run(ctx context.Context, j *job) {
	if ctx.Err() != nil {
		j.result.Text = notRun(ctx, j.call.Name)
		return
	}
	next := s.tool(ctx, j)
	for _, st := range slices.Backward(s.stages) {
		if inner := next; st.around != nil {
			next = func(ctx context.Context) Result { return st.around(ctx, j, inner) }
		}
	}
	j.result = j.gallery.addImages(next(ctx))
}

// tool is the end of the chain. What the tool learns of its call is put into its context here, where nothing that is
// around it can have lost it.
func (s *Set) tool(from context.Context, j *job) func(context.Context) Result {
	var ran atomic.Bool
	return func(ctx context.Context) Result {
		if ran.Swap(true) {
			return Result{Text: fmt.Sprintf("The call of %s was allowed once and has run; it does not run again.", j.call.Name), IsError: true}
		}
		if b := guardrailsOf(from); len(guardrailsOf(ctx).rules) < len(b.rules) {
			ctx = context.WithValue(ctx, guardrailsKey{}, b)
		}
		return j.inv.Run(context.WithValue(ctx, currentKey{}, &current{set: s, job: j}))
	}
}

// reportCall tells that there is a call. One that was not understood ends here.
func (s *Set) reportCall(_ context.Context, j *job) bool {
	if s.cfg.OnCall != nil {
		s.cfg.OnCall(j.call)
	}
	return j.inv.Run != nil
}

// judge asks the guard.
func (s *Set) judge(ctx context.Context, j *job) bool {
	if ctx.Err() != nil {
		j.result.Text = notRun(ctx, j.call.Name)
		return false
	}
	j.verdict = permission.Verdict{Stage: permission.StageDefault, Why: "Nobody guards these tools, so none may run."}
	switch {
	case j.inv.describes:
		j.verdict = permission.Verdict{Action: permission.Allow, Why: "It only describes the tools."}
	case s.cfg.Guard != nil:
		j.verdict = s.cfg.Guard.Judge(s.callOf(ctx, j))
	}
	return true
}

// sandboxStage asks whether the call can be held as it should be, and whether the tool itself has a doubt; both may make the
// verdict stricter.
func (s *Set) sandboxStage(ctx context.Context, j *job) bool {
	j.lacking = s.checkSandbox(ctx, j, &j.verdict)
	applyDoubt(j, &j.verdict)
	return true
}

// approve asks a person if the verdict says so, and reports what was decided.
func (s *Set) approve(ctx context.Context, j *job) bool {
	if j.inv.describes {
		return true
	}
	d := Decision{Agent: s.cfg.Agent, CallID: j.call.ID, Tool: j.call.Name, Args: j.inv.Args, Within: s.within(ctx), Verdict: j.verdict}
	var answer Answer
	switch d.Verdict.Action {
	case permission.Allow:
		d.Approved = true
	case permission.Ask:
		answer.Why = "There is nobody to ask, so it is denied."
		if s.cfg.Ask != nil {
			answer = s.cfg.Ask(ctx, d)
			j.denied = nil // files may have come meanwhile
		}
		d.Approved, d.By = answer.Allow && ctx.Err() == nil, answer.By
		if d.Approved && answer.Always && j.lacking != nil {
			s.acceptLack(j, j.lacking)
		}
	}
	if s.cfg.OnDecision != nil {
		if err := s.cfg.OnDecision(d); err != nil {
			j.result.Text = fmt.Sprintf("The call of %s did not run, because the decision about it could not be recorded. Go on without tools, and say so.", d.Tool)
			return false
		}
	}
	if !d.Approved {
		change := ""
		if x, ok := s.cfg.Guard.(explainer); ok && answer.By == "" { // what a person has refused is not for a rule to allow
			change = x.Explain(s.callOf(ctx, j)).Change()
		}
		j.result.Text = refusal(d, answer, change)
	}
	return d.Approved
}

// limit ends a call that takes too long.
func (s *Set) limit(ctx context.Context, j *job, next func(context.Context) Result) Result {
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= s.cfg.Timeout {
		return next(ctx) // it ends before that anyway
	}
	tooLong := &slowError{j.call.Name, s.cfg.Timeout}
	limited, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, tooLong)
	defer cancel()
	r := next(limited)
	if r.IsError && context.Cause(limited) == tooLong {
		r.Text += "\n[" + tooLong.Error() + ".]"
	}
	return r
}

// slowError says that a call took longer than it may.
type slowError struct {
	tool  string
	limit time.Duration
}

func (e *slowError) Error() string {
	return fmt.Sprintf("%s took longer than %v, the limit of a call", e.tool, e.limit.Round(time.Second))
}

func (s *Set) callOf(ctx context.Context, j *job) permission.Call {
	call := permission.Call{Tool: j.call.Name, Args: j.inv.Args, Dir: s.cfg.Dir, Within: s.within(ctx)}
	if j.inv.Keeps != nil {
		call.Kept = func(d *permission.Denied) bool {
			return j.inv.Keeps(context.WithValue(ctx, currentKey{}, &current{set: s, job: j}), d)
		}
	}
	return call
}

// copyOf is a call for a Middleware, which is not to reach what was judged.
func (s *Set) copyOf(j *job) Call {
	args, _ := deepCopy(j.inv.Args).(map[string]any)
	return Call{Agent: s.cfg.Agent, ID: j.call.ID, Tool: j.call.Name, Args: args, Dir: s.cfg.Dir}
}

func deepCopy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := maps.Clone(v)
		for k, member := range c {
			c[k] = deepCopy(member)
		}
		return c
	case []any:
		c := slices.Clone(v)
		for i, member := range c {
			c[i] = deepCopy(member)
		}
		return c
	}
	return v
}
