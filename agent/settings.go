package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/community"
	"symbio/internal/agent/lending"
)

// Mode says which calls of an agent a person has answered in advance.
type Mode string

// The modes. The zero Mode is ModeAsk.
const (
	// ModeAsk leaves each call to the rules and to a person.
	ModeAsk Mode = "ask"
	// ModeEdits answers yes in the person's place where an edit of a file in the working directory
	// would be asked about; see editsAnswer. It holds for the agent itself, not for its sub-agents.
	ModeEdits Mode = "edits"
	// ModePlan denies all tools that do not declare that they only read, also to sub-agents.
	ModePlan Mode = "plan"
)

// Settings are what a person may change while an agent runs.
type Settings struct {
	// Model is the name of the model; in a change, its specification (Config.Model).
	Model string `json:"model"`
	// Effort is how much the model thinks (llm.Request.Effort); "" = as it is configured.
	Effort string `json:"effort,omitempty"`
	Mode   Mode   `json:"mode"`
	// Window is how many tokens the model can be given, and Sandbox the sandbox level of commands. They
	// cannot be changed.
	Window  int    `json:"window,omitempty"`
	Sandbox string `json:"sandbox,omitempty"`
}

// Check returns an error that wraps community.ErrInvalid if the effort or the mode is none; "" is one.
func (s Settings) Check() error {
	switch s.Mode {
	case "", ModeAsk, ModeEdits, ModePlan:
	default:
		return fmt.Errorf("%w: mode %.40q: want ask, edits or plan", community.ErrInvalid, s.Mode)
	}
	if !slices.Contains([]string{"", "low", "medium", "high"}, s.Effort) {
		return fmt.Errorf("%w: effort %.40q: want low, medium or high", community.ErrInvalid, s.Effort)
	}
	return nil
}

// settings are the present settings of an instance. They are safe for concurrent use.
type settings struct {
	parent   *settings      // the settings of the agent's parent on this node; nil = it has none
	task     *runningTask   // pays for the model
	borrower *lending.Lease // set if the agent is lent to another node
	warned   atomic.Bool    // that the model shows no thoughts

	mu        sync.Mutex
	unmetered llm.Model // the model before metering; sub-agents get it and meter it with their own account; guarded by mu
	model     llm.Model // the same, metered; guarded by mu
	spec      string    // the model that a person asked for; "" = the definition's; guarded by mu
	effort    string    // guarded by mu
	mode      Mode      // guarded by mu
}

// setModel sets the agent's model, metered: each call is paid from the running task's budget.
func (s *settings) setModel(m llm.Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unmetered, s.model = m, budget.Meter(m, s.task.currentBudget)
}

// models returns the present model, and the same before metering.
func (s *settings) models() (metered, unmetered llm.Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model, s.unmetered
}

// modelName returns the name of the present model.
func (s *settings) modelName() string {
	m, _ := s.models()
	return m.Name()
}

// currentEffort returns the present effort, which is the definition's, the parent's or the node's until
// a person changes it.
func (s *settings) currentEffort() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effort
}

// ownMode returns the mode that was set for this agent.
func (s *settings) ownMode() Mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.mode, ModeAsk)
}

// currentMode returns the mode in which the agent's calls are judged. Plan holds for all descendants of
// an agent, because it only denies. Edits holds for the agent of the person's conversation alone.
func (s *settings) currentMode() Mode {
	for up := s; up != nil; up = up.parent {
		if up.ownMode() == ModePlan || up.borrower.OnlyReads() {
			return ModePlan
		}
	}
	return s.ownMode() // a sub-agent's is ModeAsk: only agents without a parent are given one
}

// change sets what is not empty in to.
func (s *settings) change(to Settings) (spec string, mode Mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spec, s.effort, s.mode = cmp.Or(to.Model, s.spec), cmp.Or(to.Effort, s.effort), cmp.Or(to.Mode, s.mode)
	return s.spec, s.mode
}

// Settings returns the present settings of an agent of this node. The error is community.ErrNotFound
// if there is no such agent.
func (f *Factory) Settings(id community.MemberID) (Settings, error) {
	i := f.instances.byID(id)
	if i == nil {
		return Settings{}, notFoundError(id)
	}
	s := &i.settings
	level, _ := f.cfg.WorkContext.sandboxOf(i.permissions)
	return Settings{Model: i.settings.modelName(), Effort: s.currentEffort(), Mode: s.ownMode(), Window: i.agent.Load().conversation.Limit(),
		Sandbox: level}, nil
}

// ChangeSettings changes the settings of an agent of this node; empty fields stay as they are. The
// model and the effort hold from the next request to the model on, the mode from the next call that is
// judged. With an error nothing has changed: it wraps community.ErrNotFound if there is no such agent
// or community.ErrInvalid, or says why the model cannot be opened.
func (f *Factory) ChangeSettings(ctx context.Context, id community.MemberID, to Settings) error {
	i := f.instances.byID(id)
	if i == nil {
		return notFoundError(id)
	}
	if err := to.Check(); err != nil {
		return err
	}
	if to.Model != "" && i.program != nil {
		return fmt.Errorf("%w: the agent %s has a program of its own, whose model is set in its definition: acp: {model: …}", community.ErrInvalid, i.self.Name)
	}
	if to.Model != "" {
		m, err := f.cfg.Model(ctx, to.Model)
		if err != nil {
			return fmt.Errorf("the model %s: %w", to.Model, err)
		}
		i.settings.setModel(m)
	}
	spec, mode := i.settings.change(to)
	i.record.log.Load().SetSettings(spec, string(mode))
	return nil
}

// idle returns an agent with its lock held, which the caller must release, for what must not run beside a task.
func (f *Factory) idle(id community.MemberID) (*Agent, error) {
	i := f.instances.byID(id)
	if i == nil {
		return nil, notFoundError(id)
	}
	a := i.agent.Load()
	if !a.working.TryLock() {
		return nil, fmt.Errorf("agent %s: something is in flight; wait for its end, or interrupt it: %w", i.self.Name, community.ErrBusy)
	}
	return a, nil
}

// Compact makes room in the conversation of an agent of this node, as before a request that nearly
// fills the model's context, and reports that as an event: compacted, or a notice that there was
// nothing to leave out. The summary is paid like a task, and Interrupt ends it. Errors: community.ErrNotFound if there is no
// such agent, community.ErrBusy if a task runs, budget.ErrExceeded, or the error of ctx or the record.
func (f *Factory) Compact(ctx context.Context, id community.MemberID) error {
	a, err := f.idle(id)
	if err != nil {
		return err
	}
	i := a.instance
	defer a.working.Unlock()
	ctx, done, err := i.startTask(ctx, community.Signal{}, false)
	if err != nil {
		return err
	}
	defer done()
	gained, err := a.conversation.Compact(ctx)
	switch {
	case err != nil && i.task.wasInterrupted():
		return interruptedError{}
	case err == nil && !gained:
		i.events.notice("There is nothing in the conversation that could be left out.")
	}
	return err
}

// Clear begins a new session of an agent of this node, without messages, and returns its description.
// The session before stays as it is, and can be resumed when the agent has ended. Sub-agents and active
// skills stay. Errors: community.ErrNotFound if there is no such agent, community.ErrBusy if a task
// runs.
func (f *Factory) Clear(id community.MemberID) (session.Info, error) {
	a, err := f.idle(id)
	if err != nil {
		return session.Info{}, err
	}
	i := a.instance
	defer a.working.Unlock()
	if old := i.record.log.Load(); old != nil {
		i.record.create(i.newSession())
		i.record.log.Load().SetMember(i.self.Name, string(i.self.ID))
		old.Close()
	}
	a.conversation.Clear()
	return i.record.info(), nil
}
