package tool

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"symbio/agent/llm"
	"symbio/community"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// Guard says whether a call may run; a permission.Chain is one. It may be called from many
// goroutines, of several Sets.
type Guard interface {
	Judge(permission.Call) permission.Verdict
}

// explainer is a Guard that can say what would change a verdict, as a permission.Chain can.
type explainer interface {
	Explain(permission.Call) permission.Explanation
}

// Decision is a verdict about one call, and what came of it.
type Decision struct {
	Agent   string // whose call
	CallID  string
	Tool    string
	Args    map[string]any // decoded; not to be written to
	Within  []permission.Guardrail
	Verdict permission.Verdict
	// Approved says whether the tool will run: the guard allowed it, or a person did when asked.
	Approved bool
	// By is who a person was that answered, such as "terminal"; "" when nobody was asked, or nobody answered.
	By string
}

// Shown is the arguments as they would be carried out, for people: of a script what was judged, in place of
// what was written.
func (d Decision) Shown() map[string]any {
	p := d.Verdict.Plan
	if p == nil || p.Script == "" {
		return d.Args
	}
	shown := maps.Clone(d.Args)
	shown["command"] = strings.TrimSuffix(p.Script, "\n")
	return shown
}

// Answer is what a person says when asked. The zero Answer is a no.
type Answer struct {
	Allow bool
	// Always: it holds for the same call from now on. The Set leaves that to who asked.
	Always bool
	// Lasting: what it allows is allowed from now on, also after a restart. The Set leaves that, too.
	Lasting bool
	By      string // who said so; see Decision.By
	Why     string // of a no, one sentence for the model; "" = the person said no
}

// SetConfig sets up a Set. The zero value refuses every call.
type SetConfig struct {
	// Guard decides. Default: nil, which refuses every call.
	Guard Guard
	// Dir is the working directory, absolute: what relative paths in arguments mean to the guard
	// and, by way of Dir(ctx), to the tools.
	Dir string
	// Agent is whose calls these are, for the decisions.
	Agent string
	// Decided hears each decision before the tool runs, one at a time, in the order of the calls. It
	// must not call the Set. With an error the tool does not run: a decision that cannot be recorded is
	// none. Default: nobody.
	Decided func(Decision) error
	// Ask asks a person and waits for the answer; it has to return when ctx ends. It is asked one call
	// at a time. Default: nobody to ask, which is a no (security.md 8.6).
	Ask func(ctx context.Context, d Decision) Answer
	// Progress hears how far a call is that runs, as its tool says (Report). It may be called by many
	// goroutines at once, and must not block. Default: nobody.
	Progress func(call llm.ToolCall, p community.Progress)
	// Parallel is how many calls of a turn run at once. Default 8: enough to hide the waiting of
	// small file and network calls, few enough for a laptop.
	Parallel int
	// ReadDirs names the directories beside the workspace in which Read may read now; it is asked when a call is
	// outside of the workspace. Default: none.
	ReadDirs func() []string
	// MostText is how many bytes of a result a model is shown. Default 64 KiB: some 16,000 tokens, a
	// tenth of a usual context.
	MostText int
}

// Set is the tools of one agent behind their guard. It is safe for many goroutines.
type Set struct {
	cfg   SetConfig
	tools map[string]Tool
	names []string // in the order given

	mu    sync.Mutex
	more  []Tool          // those that come and go; guarded by mu
	lacks map[string]bool // what a person has accepted for good that a sandbox lacks; guarded by mu
}

// NewSet returns a Set. A nil guard refuses every call. Of two tools of one name the first counts.
func NewSet(cfg SetConfig, tools ...Tool) *Set {
	if cfg.Parallel <= 0 {
		cfg.Parallel = 8
	}
	if cfg.MostText <= 0 {
		cfg.MostText = 64 << 10
	}
	s := &Set{cfg: cfg, tools: map[string]Tool{}}
	for _, t := range tools {
		name := t.Spec().Name
		if s.tools[name] == nil {
			s.tools[name] = t
			s.names = append(s.names, name)
		}
	}
	return s
}

// Take has these behind the tools that the Set was made of, in the place of those that it took before: for tools that come
// and go. One with the name of another before it does not count. What a model is shown, and what a call means, is as of
// the last Take.
func (s *Set) Take(more []Tool) {
	var kept []Tool
	seen := map[string]bool{}
	for _, t := range more {
		if name := t.Spec().Name; s.tools[name] == nil && !seen[name] {
			seen[name] = true
			kept = append(kept, t)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.more = kept
}

func (s *Set) taken() []Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.more
}

// find is the tool of that name; nil = none.
func (s *Set) find(name string) Tool {
	if t := s.tools[name]; t != nil {
		return t
	}
	for _, t := range s.taken() {
		if t.Spec().Name == name {
			return t
		}
	}
	return nil
}

// Specs describes the tools for a model, in the order they were given.
func (s *Set) Specs() []llm.ToolSpec {
	more := s.taken()
	specs := make([]llm.ToolSpec, 0, len(s.names)+len(more))
	for _, n := range s.offered() {
		specs = append(specs, s.tools[n].Spec())
	}
	for _, t := range more {
		if !absent(t) {
			specs = append(specs, t.Spec())
		}
	}
	return specs
}

// offered names those of the tools that the Set was made of that are there now.
func (s *Set) offered() []string {
	missing := func(n string) bool { return absent(s.tools[n]) }
	if !slices.ContainsFunc(s.names, missing) {
		return s.names
	}
	return slices.DeleteFunc(slices.Clone(s.names), missing)
}

func absent(t Tool) bool {
	c, conditional := t.(Conditional)
	return conditional && !c.Offered()
}

// job is a call on its way.
type job struct {
	call    llm.ToolCall
	inv     Invocation
	verdict permission.Verdict
	lacking *sandbox.Refusal // what a person has accepted
	result  Result
	ready   bool // decided and approved, the tool may run
}

// Run runs the calls of one turn and returns a result for each, in their order. Calls that may run
// beside others do; a call that has to be alone waits for those before it, and those after it are
// decided only when it has ended, because it may change what they are allowed. When ctx ends, what
// has not run is an error result.
func (s *Set) Run(ctx context.Context, calls []llm.ToolCall) []llm.ToolResult {
	jobs := make([]*job, len(calls))
	for i, c := range calls {
		jobs[i] = &job{call: c}
		jobs[i].result.IsError = true
		s.guarded(jobs[i], func() { s.decode(jobs[i]) })
	}
	for rest := jobs; len(rest) > 0; {
		n := 1
		if !rest[0].inv.Alone {
			n = slices.IndexFunc(rest, func(j *job) bool { return j.inv.Alone })
			if n < 0 {
				n = len(rest)
			}
		}
		s.runTogether(ctx, rest[:n])
		rest = rest[n:]
	}
	results := make([]llm.ToolResult, len(jobs))
	for i, j := range jobs {
		text := Shorten(j.result.Text, s.cfg.MostText)
		results[i] = llm.ToolResult{CallID: j.call.ID, Name: j.call.Name, Text: text, IsError: j.result.IsError}
	}
	return results
}

// runTogether decides the calls one after the other, and runs those that may at once.
func (s *Set) runTogether(ctx context.Context, jobs []*job) {
	for _, j := range jobs {
		if j.inv.Run != nil {
			s.guarded(j, func() { s.decide(ctx, j) })
		}
	}
	var group errgroup.Group
	group.SetLimit(s.cfg.Parallel)
	for _, j := range jobs {
		if j.ready {
			group.Go(func() error {
				s.guarded(j, func() { s.run(ctx, j) })
				return nil
			})
		}
	}
	_ = group.Wait() // nothing in it returns an error
}

// guarded makes an error result of a panic, and of a goroutine that ends itself.
func (s *Set) guarded(j *job, do func()) {
	returned := false
	defer func() {
		if p := recover(); p != nil || !returned {
			j.ready = false
			j.result = Result{Text: fmt.Sprintf("The tool %s broke down: %v. Do not repeat the same call; try another way.", j.call.Name, p), IsError: true}
		}
	}()
	do()
	returned = true
}

func (s *Set) decode(j *job) {
	t := s.find(j.call.Name)
	if t == nil || absent(t) {
		var names []string
		for _, spec := range s.Specs() {
			names = append(names, spec.Name)
		}
		j.result.Text = fmt.Sprintf("There is no tool %q. The tools are: %s.", j.call.Name, strings.Join(names, ", "))
		return
	}
	inv, err := t.Decode(j.call.Args)
	if err != nil {
		j.result.Text = fmt.Sprintf("The call of %s was not understood: %v. Mend the arguments and call it again.", j.call.Name, err)
		return
	}
	if inv.Run == nil {
		j.result.Text = fmt.Sprintf("The tool %s cannot be run.", j.call.Name)
		return
	}
	j.inv = inv
}

// decide asks the guard, and a person if the guard says so, and reports what was decided.
func (s *Set) decide(ctx context.Context, j *job) {
	if err := ctx.Err(); err != nil {
		j.result.Text = ended(ctx, j.call.Name)
		return
	}
	d := Decision{Agent: s.cfg.Agent, CallID: j.call.ID, Tool: j.call.Name, Args: j.inv.Args, Within: boundsOf(ctx).rules}
	d.Verdict = permission.Verdict{Stage: permission.StageDefault, Why: "Nobody guards these tools, so none may run."}
	if s.cfg.Guard != nil {
		d.Verdict = s.cfg.Guard.Judge(s.callOf(ctx, j))
	}
	var answer Answer
	lacking := s.held(ctx, j, &d.Verdict)
	doubted(j, &d.Verdict)
	switch d.Verdict.Action {
	case permission.Allow:
		d.Approved = true
	case permission.Ask:
		answer.Why = "There is nobody to ask, so it is denied."
		if s.cfg.Ask != nil {
			answer = s.cfg.Ask(ctx, d)
		}
		d.Approved, d.By = answer.Allow && ctx.Err() == nil, answer.By
		if d.Approved && answer.Always && lacking != nil {
			s.see(j, lacking)
		}
	}
	if s.cfg.Decided != nil {
		if err := s.cfg.Decided(d); err != nil {
			j.result.Text = fmt.Sprintf("The call of %s did not run, because the decision about it could not be recorded. Go on without tools, and say so.", d.Tool)
			return
		}
	}
	if !d.Approved {
		change := ""
		if x, ok := s.cfg.Guard.(explainer); ok && answer.By == "" { // what a person has refused is not for a rule to allow
			change = x.Explain(s.callOf(ctx, j)).Change()
		}
		j.result.Text = refusal(d, answer, change)
		return
	}
	j.verdict, j.lacking, j.ready = d.Verdict, lacking, true
}

func (s *Set) callOf(ctx context.Context, j *job) permission.Call {
	return permission.Call{Tool: j.call.Name, Args: j.inv.Args, Dir: s.cfg.Dir, Within: boundsOf(ctx).rules}
}

func (s *Set) run(ctx context.Context, j *job) {
	if ctx.Err() != nil {
		j.result.Text = ended(ctx, j.call.Name)
		return
	}
	ctx = context.WithValue(ctx, dirKey{}, s.cfg.Dir)
	ctx = context.WithValue(ctx, agentKey{}, s.cfg.Agent)
	ctx = context.WithValue(ctx, verdictKey{}, j.verdict)
	ctx = context.WithValue(ctx, lackingKey{}, j.lacking)
	if s.cfg.ReadDirs != nil {
		ctx = context.WithValue(ctx, readDirsKey{}, s.cfg.ReadDirs)
	}
	if s.cfg.Progress != nil {
		ctx = context.WithValue(ctx, progressKey{}, func(p community.Progress) { s.cfg.Progress(j.call, p) })
	}
	j.result = j.inv.Run(ctx)
}

// refusal tells the model why, what a person would have to change, and not to try the same again.
func refusal(d Decision, answer Answer, change string) string {
	why := d.Verdict.Why
	if d.Verdict.Action == permission.Ask {
		why = strings.TrimSpace(why + " " + cmp.Or(answer.Why, "The person said no."))
	}
	who := ""
	if d.Verdict.Link != "" {
		who = " (permissions of " + d.Verdict.Link + ")"
	}
	switch {
	case strings.HasPrefix(change, "To "):
		change = " " + change + " Only a person can do that."
	case change != "":
		change = " " + change
	}
	return fmt.Sprintf("Denied%s: %s%s Do not repeat this call or try to get around it; go on without it, or say what you could not do.", who, why, change)
}

func ended(ctx context.Context, name string) string {
	return fmt.Sprintf("The call of %s did not run: %v.", name, context.Cause(ctx))
}

type (
	dirKey      struct{}
	readDirsKey struct{}
	agentKey    struct{}
	verdictKey  struct{}
	progressKey struct{}
)

// Dir is the working directory that the guard took a call's relative paths to be relative to; a tool
// has to do the same. "" outside a Set.
func Dir(ctx context.Context) string {
	dir, _ := ctx.Value(dirKey{}).(string)
	return dir
}

// ReadDirs are the directories beside the workspace in which a tool may read for this call's agent, and do
// nothing else. What it may read there the guard has said.
func ReadDirs(ctx context.Context) []string {
	if dirs, _ := ctx.Value(readDirsKey{}).(func() []string); dirs != nil {
		return dirs()
	}
	return nil
}

// AgentOf is whose call it is, SetConfig.Agent: a tool that several agents share may ask. "" outside a Set.
func AgentOf(ctx context.Context) string {
	agent, _ := ctx.Value(agentKey{}).(string)
	return agent
}

// Except is what a tool that walks directories has to leave out. nil is nothing.
func Except(ctx context.Context) *permission.Except { return verdictOf(ctx).Except }

// Reach is where a tool that makes requests may connect to; it has to ask for each connection. nil is
// the web ports of public addresses.
func Reach(ctx context.Context) *permission.Dial { return verdictOf(ctx).Dial }

// Plan is what a tool that runs commands has to run: what was judged. nil outside a Set.
func Plan(ctx context.Context) *permission.Plan { return verdictOf(ctx).Plan }

func verdictOf(ctx context.Context) permission.Verdict {
	v, _ := ctx.Value(verdictKey{}).(permission.Verdict)
	return v
}

// Report tells whoever watches the agent how far the call is that ctx was given to. It does not reach the
// model: that reads the result alone.
func Report(ctx context.Context, p community.Progress) {
	if tell, _ := ctx.Value(progressKey{}).(func(community.Progress)); tell != nil {
		tell(p)
	}
}
