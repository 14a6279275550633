package tool

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent/llm"
	"symbio/community"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// Guard decides whether a call may run; a permission.Chain is one. It may be called from many
// goroutines and by several Sets.
type Guard interface {
	Judge(permission.Call) permission.Verdict
}

// explainer is a Guard that can say what would have to change for a call to be allowed. A
// permission.Chain can.
type explainer interface {
	Explain(permission.Call) permission.Explanation
}

// Decision is the verdict about one call, and whether the call will run.
type Decision struct {
	Agent   string // whose call
	CallID  string
	Tool    string
	Args    map[string]any // decoded; not to be written to
	Within  []permission.Guardrail
	Verdict permission.Verdict
	// Judged is the call that Verdict is about, as the guard saw it.
	Judged permission.Call
	// Approved is true if the tool will run: the guard allowed it, or a person did.
	Approved bool
	// By names the person's way of answering, such as "terminal". It is "" if no person was asked
	// or none answered.
	By string
	// Reason is why the person said no, in the person's words; "" = not given.
	Reason string
	// Diff returns the change that an edit would make to its file now, while a person is asked; nil for
	// other calls. It may be called by several goroutines.
	Diff func() string
	// Unasked is true if a person should have been asked and there was none.
	Unasked bool
	// Missing are the rules whose addition to allow would let a denied call run; nil if such rules
	// alone would not.
	Missing []string
}

// Shown returns the arguments for people. For a script they show the command that was judged and
// will run, not the text that the model wrote.
func (d Decision) Shown() map[string]any {
	p := d.Verdict.Plan
	if p == nil || p.Script == "" {
		return d.Args
	}
	shown := maps.Clone(d.Args)
	shown["command"] = strings.TrimSuffix(p.Script, "\n")
	return shown
}

// Answer is a person's answer. The zero Answer means no.
type Answer struct {
	Allow bool
	// Always is true if the answer holds for the same call from now on. The code behind
	// SetConfig.Ask stores that, not the Set.
	Always bool
	// Lasting is true if the permission is kept across restarts, that for the call or the Offer. SetConfig.Ask stores that, too.
	Lasting bool
	// Offer is which offer of the question the answer takes, counted from 1; 0 = none.
	Offer  int
	By     string // who said so; see Decision.By
	Reason string // of a no, see Decision.Reason; the model reads it
	// Advance is true if the person gave the answer before the call was made, for what a rule would
	// allow. Then nothing runs that rules would not allow, such as a link made meanwhile.
	Advance bool
	Why     string // of a no, one sentence for the model; "" = the person said no
}

// SetConfig sets up a Set. The zero value refuses every call.
type SetConfig struct {
	// Guard decides about calls. Default: nil, which refuses every call.
	Guard Guard
	// Dir is the absolute working directory. The guard resolves relative paths to it; tools get it
	// from Dir(ctx).
	Dir string
	// Agent names the owner of the calls in decisions.
	Agent string
	// Within returns the guardrails around every call, outside of those that the call's context
	// has. It is called for each call. Default: none.
	Within func() []permission.Guardrail
	// OnlyReads returns why only calls run now that declare to change nothing (Invocation.ReadOnly); ""
	// = all may. The guard judges them all the same. It is called for each call. Default: all may.
	OnlyReads func() string
	// Constrain returns the part of a policy that commands get, and whether it is less. Default:
	// the whole policy.
	Constrain func(sandbox.Policy) (held sandbox.Policy, narrower bool)
	// OnDecision is called with each decision before the tool runs, one at a time, in the order of
	// the calls; calls for Sample come from the goroutine of the call that runs. It must not call the Set. If it
	// returns an error the tool does not run, because a decision that cannot be recorded must not take effect.
	// Default: not called.
	OnDecision func(Decision) error
	// Ask asks a person and waits for the answer. It must return when ctx ends. It is called for
	// one call at a time. Default: no person, which means no.
	Ask func(ctx context.Context, d Decision) Answer
	// Sample asks the agent's model for an MCP server, paid by the agent's task. It may be called by many goroutines.
	// Default: nil, no model.
	Sample func(ctx context.Context, server string, r llm.Request) (llm.Response, error)
	// OnCall is called with each call before it is judged, and OnResult with its result and the file
	// that it changed, in the order of the calls, one at a time. Neither may call the Set. Default: not called.
	OnCall   func(llm.ToolCall)
	OnResult func(llm.ToolResult, FileDiff)
	// OnStart is called with the calls that are about to run at once, before the first of them. If it
	// returns an error none of them runs: a call without a record must not happen. Default: not called.
	OnStart func(calls []llm.ToolCall) error
	// OnEnd is called with each result as soon as there is one, by the goroutine of its call. others
	// is true if other calls may still run. Default: not called.
	OnEnd func(r llm.ToolResult, others bool)
	// OnEdit is called before a tool changes a file, by the goroutine of its call. If it returns an
	// error the file is not changed: a change without a record could not be undone. Default: not called.
	OnEdit func(c llm.ToolCall, e FileEdit) error
	// OnFile is called with the content that a file has when the agent has read or written it, as a
	// SHA-256 in hex. KnownFile returns what OnFile was called with last in an earlier life of the
	// agent; "" = nothing. Default: neither is called.
	OnFile    func(path, hash string)
	KnownFile func(path string) (hash string)
	// Keep stores the whole of a result that is too long for the model, or a picture, and returns a line
	// that tells the model how to read it; "" = it is not kept. Artifact opens what was kept, by its
	// hash. Default: nothing is kept.
	Keep     func(name string, data []byte) string
	Artifact func(ctx context.Context, hash string) (io.ReadSeekCloser, error)
	// Middleware is put around the running of each call, the first outermost; see Middleware.
	// Default: none.
	Middleware []Middleware
	// Timeout limits a call. Default: 30 minutes, the default limit of a task. Tools have shorter
	// limits of their own.
	Timeout time.Duration
	// Progress is called with the progress that a running tool reports (Report). It may be called
	// by many goroutines at once and must not block. Default: not called.
	Progress func(call llm.ToolCall, p community.Progress)
	// Parallel is how many calls of a turn run at once. Default: 8, enough to hide the latency of
	// small file and network calls, and few enough for a laptop.
	Parallel int
	// ReadDirs returns the directories outside the workspace that Read may read now. It is called
	// when a call's path is outside the workspace. Default: none.
	ReadDirs func() []string
	// Catalog sets up what the model is told of the tools.
	Catalog CatalogConfig
	// MaxText limits the bytes of a result that the model is shown. Default: 64 KiB, about 16,000
	// tokens, a tenth of a usual context.
	MaxText int
}

// Set holds the tools of one agent behind their guard. It is safe for concurrent use.
type Set struct {
	cfg     SetConfig
	catalog *catalog
	notes   sync.Map // by type; see Notes
	lacks   acceptedLacks
}

// NewSet returns a Set of tools. A nil guard refuses every call. Of two tools with the same name
// the first counts.
func NewSet(cfg SetConfig, tools ...Tool) *Set {
	if cfg.Parallel <= 0 {
		cfg.Parallel = 8
	}
	if cfg.MaxText <= 0 {
		cfg.MaxText = 64 << 10
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Minute
	}
	return &Set{cfg: cfg, catalog: newCatalog(cfg.Catalog, tools)}
}

// Starting is why dynamic tools are missing that may come soon.
const Starting = "still starting"

// SetDynamic replaces the dynamic tools, which come and go, such as the tools of MCP servers. On a name
// clash the tools given to NewSet win, then the first of more. Later calls of Specs, Names and Run
// use the new list.
func (s *Set) SetDynamic(more []Tool) { s.catalog.setDynamic(more) }

// Names returns the names of the tools that the model can find now, described or through
// ToolSearch.
func (s *Set) Names() []string { return slices.Clone(s.catalog.shown(s.catalog.kit.Load())) }

// Specs describes the tools for a model, in the order they were given. If there are very many, it
// describes ToolSearch and the loaded tools only (CatalogConfig.SearchAbove). It returns the same slice
// as long as nothing changes, so that requests stay cacheable; callers must not write to it.
func (s *Set) Specs() []llm.ToolSpec {
	specs := s.catalog.describe()
	if s.catalog.cfg.Brief() {
		specs = s.catalog.describeBriefly(specs)
	}
	return specs
}

// job is one call on its way through the stages. One goroutine at a time uses it.
type job struct {
	call    llm.ToolCall
	inv     Invocation
	verdict permission.Verdict
	lacking *sandbox.Refusal     // what holds it less than it should
	denied  *sandbox.DeniedFiles // nil = to be looked for
	result  Result
	ended   bool     // OnEnd has the result
	ready   bool     // it has gone through every stage, the tool may run
	consent *Consent // of a person to it, for OnConsent; nil = none
	gallery *gallery
}

// Run runs the calls of one turn and returns a result for each, in their order. Calls run in
// parallel unless one must run alone. That one waits for those before it, and those after it are
// judged only when it has ended, because it may change what they are allowed. When ctx ends, the
// calls that have not run get an error result.
func (s *Set) Run(ctx context.Context, calls []llm.ToolCall) []llm.ToolResult {
	jobs := make([]*job, len(calls))
	shown := new(gallery)
	for i, c := range calls {
		jobs[i] = &job{call: c, gallery: shown}
		jobs[i].result.IsError = true
		s.recoverPanic(jobs[i], func() { s.decode(jobs[i]) })
	}
	results := make([]llm.ToolResult, 0, len(jobs))
	for rest := jobs; len(rest) > 0; {
		n := 1
		if !rest[0].inv.Alone {
			n = slices.IndexFunc(rest, func(j *job) bool { return j.inv.Alone })
			if n < 0 {
				n = len(rest)
			}
		}
		s.runTogether(ctx, rest[:n])
		for _, j := range rest[:n] {
			results = append(results, s.answer(j))
		}
		rest = rest[n:]
	}
	return results
}

// answer returns the result that the model reads, and reports it.
func (s *Set) answer(j *job) llm.ToolResult {
	s.end(j, false)
	r := s.resultOf(j)
	if s.cfg.OnResult != nil {
		s.cfg.OnResult(r, j.result.Change)
	}
	return r
}

// resultOf returns the result that the model reads.
func (s *Set) resultOf(j *job) llm.ToolResult {
	return llm.ToolResult{CallID: j.call.ID, Name: j.call.Name, Text: Shorten(j.result.Text, s.cfg.MaxText), IsError: j.result.IsError, Images: j.result.Images}
}

// end calls OnEnd with the result of a call, once.
func (s *Set) end(j *job, others bool) {
	if s.cfg.OnEnd != nil && !j.ended {
		j.ended = true
		s.cfg.OnEnd(s.resultOf(j), others)
	}
}

// start calls OnStart with the calls that are about to run, and returns false if none of them may.
func (s *Set) start(ready []*job) bool {
	if s.cfg.OnStart == nil || len(ready) == 0 {
		return true
	}
	calls := make([]llm.ToolCall, len(ready))
	for i, j := range ready {
		calls[i] = j.call
	}
	err := s.cfg.OnStart(calls)
	for _, j := range ready {
		if err != nil {
			j.result = Result{Text: fmt.Sprintf("The call of %s did not run: %v.", j.call.Name, err), IsError: true}
		}
	}
	return err == nil
}

// IsReadOnly reports whether a call would change nothing, by what its tool declares; see
// Invocation.ReadOnly.
func (s *Set) IsReadOnly(c llm.ToolCall) bool {
	t := s.catalog.find(c.Name)
	if t == nil {
		return false
	}
	inv, err := t.Decode(c.Args)
	return err == nil && inv.ReadOnly
}

// runTogether prepares the calls one after the other, and runs those that are ready in parallel, at
// most SetConfig.Parallel at a time.
func (s *Set) runTogether(ctx context.Context, jobs []*job) {
	for _, j := range jobs {
		s.recoverPanic(j, func() { s.prepare(ctx, j) })
	}
	ready := slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return !j.ready })
	if !s.start(ready) {
		return
	}
	if len(ready) == 1 { // a goroutine of its own would cost more than many a call; a tool that ends this one ends the task
		s.recoverPanic(ready[0], func() { s.run(ctx, ready[0]) })
		return
	}
	var group errgroup.Group
	group.SetLimit(s.cfg.Parallel)
	for _, j := range ready {
		group.Go(func() error {
			s.recoverPanic(j, func() { s.run(ctx, j) })
			s.end(j, true)
			return nil
		})
	}
	_ = group.Wait() // nothing in it returns an error
}

// recoverPanic calls do. It turns a panic, and a runtime.Goexit of the tool, into an error result,
// so that a faulty tool does not end the agent.
func (s *Set) recoverPanic(j *job, do func()) {
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

// decode finds the tool of a call and decodes its arguments. On failure the result tells the model
// what to correct.
func (s *Set) decode(j *job) {
	t := s.catalog.find(j.call.Name)
	if t == nil {
		j.result.Text = fmt.Sprintf("There is no tool %q. The tools are: %s.", j.call.Name, strings.Join(s.catalog.kit.Load().available(), ", "))
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

// refusal returns the result of a denied call: why it was denied, what a person would have to
// change, and that the model must not try the same again.
func refusal(d Decision, answer Answer, change string) string {
	why := d.Verdict.Why
	if d.Verdict.Action == permission.Ask {
		said := "The person said no."
		if answer.Reason != "" {
			said = "The person said no: " + strings.TrimSuffix(answer.Reason, ".") + "."
		}
		why = strings.TrimSpace(why + " " + cmp.Or(answer.Why, said))
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

// notRun returns the result of a call that did not run because ctx had ended.
func notRun(ctx context.Context, name string) string {
	return fmt.Sprintf("The call of %s did not run: %v.", name, context.Cause(ctx))
}
