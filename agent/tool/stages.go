package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"symbio/security/permission"
)

// Call is a copy of a call for a Middleware. Writing to it has no effect.
type Call struct {
	Agent string // whose it is
	ID    string
	Tool  string
	Args  map[string]any // decoded
	Dir   string         // what relative paths in it start from
}

// Middleware wraps each call that may run. It is inside of permission, sandbox, approval and
// timeout, and directly around the tool. It may inspect the call, answer in place of the tool (a
// cache, a test), change the result, and add values to the tool's context. It cannot change the
// call: next runs exactly what was judged, at most once, because a person may have allowed it once.
// It must call next, if at all, before it returns. It may be called from many goroutines. A panic
// becomes an error result.
type Middleware func(ctx context.Context, c Call, next func(context.Context) Result) Result

// prepare takes a call through the stages before it runs, one call at a time, in their order, before any call of the batch runs. It
// sets j.ready if the call may run; else the result says why it does not. A call is reported first, then judged, then checked against
// the sandbox, then approved, so that a person is asked about the final verdict. The decoded call that is judged is the one that runs.
func (s *Set) prepare(ctx context.Context, j *job) {
	j.ready = s.reportCall(j) && s.judge(ctx, j) && s.holds(ctx, j) && s.approve(ctx, j)
}

// run runs a prepared call inside of its time limit and the middleware.
func (s *Set) run(ctx context.Context, j *job) {
	if ctx.Err() != nil {
		j.result.Text = notRun(ctx, j.call.Name)
		return
	}
	next := s.tool(ctx, j)
	for _, m := range slices.Backward(s.cfg.Middleware) {
		inner := next
		next = func(ctx context.Context) Result { return m(ctx, s.copyOf(j), inner) }
	}
	r := s.limit(ctx, j, next)
	lines := keepWhole(s.cfg, j, r)
	j.result = j.gallery.addImages(r)
	j.result.Text += lines // at the end, which Shorten leaves
}

// tool returns the innermost function, which runs the tool once. It stores the current call and the
// guardrails of from in the context, so that a Middleware that passes on another context cannot
// lose them.
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

// reportCall reports the call. A call that could not be decoded ends here with its error.
func (s *Set) reportCall(j *job) bool {
	if s.cfg.OnCall != nil {
		s.cfg.OnCall(j.call)
	}
	return j.inv.Run != nil
}

// judge asks the guard for the verdict.
func (s *Set) judge(ctx context.Context, j *job) bool {
	if ctx.Err() != nil {
		j.result.Text = notRun(ctx, j.call.Name)
		return false
	}
	j.verdict = permission.Verdict{Stage: permission.StageDefault, Why: "These tools have no guard, so none may run."}
	switch {
	case j.inv.describes:
		j.verdict = permission.Verdict{Action: permission.Allow, Why: "It only describes the tools."}
	case s.cfg.Guard != nil:
		j.verdict = s.cfg.Guard.Judge(s.callOf(ctx, j))
		if s.cfg.Artifact != nil && readsArtifact(j) && j.verdict.Stage == permission.StageDefault {
			j.verdict = permission.Verdict{Action: permission.Allow, Stage: permission.StageDefault, Why: "An artifact is read by those agents only that were given it."}
		}
	}
	if s.cfg.OnlyReads != nil && !j.inv.ReadOnly && !j.inv.describes && j.verdict.Action > permission.Deny {
		if why := s.cfg.OnlyReads(); why != "" {
			onlyLook(ctx, s, j, why)
		}
	}
	return true
}

// onlyLook makes the verdict on a call that may change something the same as where calls only read: a command runs in
// permission.BoxLook, and everything else is denied. why says why.
func onlyLook(ctx context.Context, s *Set, j *job, why string) {
	v := &j.verdict
	asks, _ := j.inv.Args[permission.AccessArg].(string)
	call := s.callOf(ctx, j)
	switch {
	case call.HasBox != nil && asks != "" && asks != "look":
		*v = permission.Verdict{Action: permission.Deny, Stage: permission.StageMode, Source: "mode", Why: fmt.Sprintf("It asks for access to %s, and commands only look now. %s", asks, why)}
		return
	case call.HasBox == nil || !call.HasBox(permission.BoxLook):
		*v = permission.Verdict{Action: permission.Deny, Stage: permission.StageMode, Source: "mode", Why: why}
		return
	case v.Action == permission.Ask && v.Stage == permission.StageDefault && v.Source == "":
		v.Action, v.Stage, v.Source, v.Why = permission.Allow, permission.StageMode, "mode", "It runs in a box that only looks: it changes no file and has no network."
	}
	v.Box = permission.BoxLook
}

// holds checks whether the sandbox can hold the call, and whether the tool itself asks for a
// person's decision. Both can only make the verdict stricter.
func (s *Set) holds(ctx context.Context, j *job) bool {
	j.lacking = s.checkSandbox(ctx, j, &j.verdict)
	applyDoubt(j, &j.verdict)
	return true
}

// NoPerson is the reason of a no where there is no person to ask.
const NoPerson = "There is no person to ask, so it is denied."

// Unanswered returns the reason of a no where the error came before the answer of a person.
func Unanswered(err error) string {
	if errors.Is(err, context.Canceled) {
		return "It was denied, because its task ended before there was an answer."
	}
	return fmt.Sprintf("It was denied, because %v.", err)
}

// approve asks a person if the verdict requires it, and reports the decision.
func (s *Set) approve(ctx context.Context, j *job) bool {
	if j.inv.describes {
		return true
	}
	d := Decision{Agent: s.cfg.Agent, CallID: j.call.ID, Tool: j.call.Name, Args: j.inv.Args, Within: s.within(ctx), Verdict: j.verdict, Judged: s.callOf(ctx, j)}
	var answer Answer
	switch d.Verdict.Action {
	case permission.Allow:
		d.Approved = true
	case permission.Ask:
		preview := previewOf(ctx, s, j)
		if unfit := preview().Unfit; unfit != nil {
			j.result.Text = unfit.Error()
			return false
		}
		d.Diff = func() string { return preview().Diff }
		answer = s.ask(ctx, j, &d)
	}
	change := ""
	// what a person has refused is not for a rule to allow
	if x, ok := s.cfg.Guard.(explainer); ok && !d.Approved && answer.By == "" && d.Verdict.Stage != permission.StageMode {
		e := x.Explain(s.callOf(ctx, j))
		change, d.Missing = e.Change(), e.Allow()
	}
	if j.inv.noted != nil {
		d.Args = j.inv.noted
	}
	if s.cfg.OnDecision != nil {
		if err := s.cfg.OnDecision(d); err != nil {
			j.result.Text = fmt.Sprintf("The call of %s did not run, because the decision about it could not be recorded. Go on without tools, and say so.", d.Tool)
			return false
		}
	}
	if !d.Approved {
		j.result.Text = refusal(d, answer, change)
	} else if j.consent != nil { // not before the decision is recorded
		j.inv.OnConsent(j.consent)
	}
	return d.Approved
}

// ask asks a person about a call, and sets in d what became of it.
func (s *Set) ask(ctx context.Context, j *job, d *Decision) Answer {
	answer := Answer{Why: NoPerson}
	if s.cfg.Ask != nil {
		answer = s.question(ctx, j, *d)
		j.denied = nil // files may have come meanwhile
	}
	d.Approved, d.By, d.Reason = answer.Allow && ctx.Err() == nil, answer.By, answer.Reason
	d.Unasked = !answer.Allow && answer.Why == NoPerson
	if d.Approved && answer.Advance {
		j.verdict.Action = permission.Allow // see MayFollowLink
	}
	if d.Approved && answer.Always && j.lacking != nil {
		s.lacks.add(j, j.lacking)
	}
	return answer
}

// previewOf returns the function that computes the change of a file for Decision.Diff.
func previewOf(ctx context.Context, s *Set, j *job) func() FileDiff {
	if j.inv.Preview == nil {
		return func() FileDiff { return FileDiff{} }
	}
	ctx = context.WithValue(ctx, currentKey{}, &current{set: s, job: j})
	return sync.OnceValue(func() FileDiff { return j.inv.Preview(ctx) })
}

// limit ends a call after SetConfig.Timeout.
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

// slowError is the cause of a context that ended because a call took too long.
type slowError struct {
	tool  string
	limit time.Duration
}

func (e *slowError) Error() string {
	return fmt.Sprintf("%s took longer than %v, the limit of a call", e.tool, e.limit.Round(time.Second))
}

// callOf returns the call for the guard.
func (s *Set) callOf(ctx context.Context, j *job) permission.Call {
	call := permission.Call{Tool: j.call.Name, Args: j.inv.Args, Dir: s.cfg.Dir, Within: s.within(ctx)}
	if j.inv.Keeps == nil && j.inv.HasBox == nil {
		return call
	}
	ctx = context.WithValue(ctx, currentKey{}, &current{set: s, job: j})
	if j.inv.Keeps != nil {
		call.Kept = func(d *permission.FileDenials) bool { return j.inv.Keeps(ctx, d) }
	}
	if j.inv.HasBox != nil {
		call.HasBox = func(b permission.Box) bool { return j.inv.HasBox(ctx, b) }
	}
	return call
}

// copyOf returns a copy of the call for a Middleware, so that it cannot change the value that was
// judged.
func (s *Set) copyOf(j *job) Call {
	args, _ := deepCopy(j.inv.Args).(map[string]any)
	return Call{Agent: s.cfg.Agent, ID: j.call.ID, Tool: j.call.Name, Args: args, Dir: s.cfg.Dir}
}

// deepCopy copies a decoded JSON value with all its members.
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
