package tool

import (
	"cmp"
	"context"
	"fmt"
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
	// Within are the guardrails around every call, outside of those that its context has. It is asked at each call.
	// Default: none.
	Within func() []permission.Guardrail
	// Hold is what is left for commands of what a policy allows, and whether that is less. Default: the policy.
	Constrain func(sandbox.Policy) (held sandbox.Policy, narrower bool)
	// Decided hears each decision before the tool runs, one at a time, in the order of the calls. It
	// must not call the Set. With an error the tool does not run: a decision that cannot be recorded is
	// none. Default: nobody.
	OnDecision func(Decision) error
	// Ask asks a person and waits for the answer; it has to return when ctx ends. It is asked one call
	// at a time. Default: nobody to ask, which is a no (security.md 8.6).
	Ask func(ctx context.Context, d Decision) Answer
	// Called hears of each call before it is judged, and Answered what became of it, in the order of the calls, one at a
	// time; neither may call the Set. Default: nobody.
	OnCall   func(llm.ToolCall)
	OnResult func(llm.ToolResult)
	// Middleware is put around the running of each call, the first outermost; see Middleware. Default: none.
	Middleware []Middleware
	// Timeout is how long a call may run. Default 30 min, as long as a task may take unless somebody says else; tools
	// have shorter ones of their own.
	Timeout time.Duration
	// Progress hears how far a call is that runs, as its tool says (Report). It may be called by many
	// goroutines at once, and must not block. Default: nobody.
	Progress func(call llm.ToolCall, p community.Progress)
	// Parallel is how many calls of a turn run at once. Default 8: enough to hide the waiting of
	// small file and network calls, few enough for a laptop.
	Parallel int
	// ReadDirs names the directories beside the workspace in which Read may read now; it is asked when a call is
	// outside of the workspace. Default: none.
	ReadDirs func() []string
	// Show says which tools the model is told of; others may be called all the same, and are judged. Default: all.
	Show func(name string) bool
	// SearchAbove is how many tools are described to a model as they are. Of more it is shown the agent's own, ToolSearch,
	// and what it has loaded by that of the tools of MCP servers. Default 40: some 10,000 tokens in each request, and models choose worse among more.
	SearchAbove int
	// MaxText is how many bytes of a result a model is shown. Default 64 KiB: some 16,000 tokens, a
	// tenth of a usual context.
	MaxText int
}

// Set is the tools of one agent behind their guard. It is safe for many goroutines.
type Set struct {
	cfg     SetConfig
	catalog *catalog
	stages  []stage
	notes   sync.Map // by type; see Notes

	mu            sync.Mutex
	acceptedLacks map[string]bool // what a person has accepted for good that a sandbox lacks; guarded by mu
}

// NewSet returns a Set. A nil guard refuses every call. Of two tools of one name the first counts.
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
	if cfg.SearchAbove <= 0 {
		cfg.SearchAbove = 40
	}
	s := &Set{cfg: cfg, catalog: newCatalog(cfg, tools)}
	s.stages = s.chain()
	return s
}

// SetDynamic replaces the dynamic tools, which come and go, as those of MCP servers do. The tools that the Set was made of
// win on a name clash, then the first of more. Specs, Names and Run use the list of the last call.
func (s *Set) SetDynamic(more []Tool) { s.catalog.setDynamic(more) }

// Names are the tools that are there now and of which the model is told, be it by ToolSearch.
func (s *Set) Names() []string { return slices.Clone(s.catalog.shown(s.catalog.kit.Load())) }

// Specs describes the tools for a model, in the order they were given; of very many only how to find them, and
// those that it has found (SetConfig.SearchAbove). It is asked in every turn, and while nothing changes the answer is the
// same slice: it is not to be written to.
func (s *Set) Specs() []llm.ToolSpec { return s.catalog.describe() }

// job is a call on its way.
type job struct {
	call    llm.ToolCall
	inv     Invocation
	verdict permission.Verdict
	lacking *sandbox.Refusal // what holds it less than it should
	denied  *sandbox.Denied  // nil = to be looked for
	result  Result
	ready   bool // it has gone through every stage, the tool may run
	gallery *gallery
}

// Run runs the calls of one turn and returns a result for each, in their order. Calls that may run
// beside others do; a call that has to be alone waits for those before it, and those after it are
// decided only when it has ended, because it may change what they are allowed. When ctx ends, what
// has not run is an error result.
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

// answer is what the model reads of a call that has ended.
func (s *Set) answer(j *job) llm.ToolResult {
	r := llm.ToolResult{CallID: j.call.ID, Name: j.call.Name, Text: Shorten(j.result.Text, s.cfg.MaxText), IsError: j.result.IsError, Images: j.result.Images}
	if s.cfg.OnResult != nil {
		s.cfg.OnResult(r)
	}
	return r
}

// runTogether takes the calls into the stages one after the other, and runs those that may at once.
func (s *Set) runTogether(ctx context.Context, jobs []*job) {
	for _, j := range jobs {
		s.recoverPanic(j, func() { s.prepare(ctx, j) })
	}
	ready := slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return !j.ready })
	if len(ready) == 1 { // a goroutine of its own would cost more than many a call; a tool that ends this one ends the task
		s.recoverPanic(ready[0], func() { s.run(ctx, ready[0]) })
		return
	}
	var group errgroup.Group
	group.SetLimit(s.cfg.Parallel)
	for _, j := range ready {
		group.Go(func() error {
			s.recoverPanic(j, func() { s.run(ctx, j) })
			return nil
		})
	}
	_ = group.Wait() // nothing in it returns an error
}

// recoverPanic makes an error result of a panic, and of a goroutine that ends itself.
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

func notRun(ctx context.Context, name string) string {
	return fmt.Sprintf("The call of %s did not run: %v.", name, context.Cause(ctx))
}
