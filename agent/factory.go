package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/peer"
	"symbio/community"
	"symbio/security/audit"
	"symbio/security/permission"
	"symbio/skills"
)

// Community is what agents need of the community they live in; *community.Community is one.
type Community interface {
	peer.Community
	Spawn(ctx context.Context, name string, factory func(self community.Member) (community.Agent, error), opts ...community.SpawnOption) (community.Member, error)
	Terminate(ctx context.Context, id community.MemberID) error
	Member(id community.MemberID) (community.Member, bool)
	Subscribe() *community.Subscription
}

// Config sets up a Factory.
type Config struct {
	Community Community
	// Skills is the node's registry; nil = no skills.
	Skills *skills.Registry
	// SkillUse says how agents are shown skills and take them.
	SkillUse SkillUse
	// Tools are the tools that belong to no agent in particular, such as the file tools. Each agent
	// gets those for peers, skills and replication of its own beside them.
	Tools []tool.Tool
	// More are tools that come and go, as those of MCP servers, asked for before each turn of a model. It may wait until
	// those are there that are on their way. Default: none.
	More func(ctx context.Context) []tool.Tool
	// Middleware is put around each call of a tool that may run, inside of the checks; see tool.Middleware.
	Middleware []tool.Middleware
	// SearchAbove is that of each agent's tool.Set.
	SearchAbove int
	// Model finds the model that a definition names; "" is the node's own.
	Model func(ctx context.Context, name string) (llm.Model, error)
	// Definition finds the definition that an agent names for a sub-agent. Default: nobody has any but their own.
	Definition func(name string) (Definition, error)
	// Trust keeps that a person trusts a skill, whose SKILL.md has that SHA-256, with these of its rules.
	// Default: a person's yes holds for the one activation.
	Trust func(s skills.Skill, hash string, rules []string) error
	// Dir is the working directory of all agents.
	Dir string
	// Window is how many tokens the model of a name can be given; 0 and by default that of conversation.Config.
	Window func(model string) int
	// Granted are rules that hold for every agent beside its policy, as those that a person has allowed for longer
	// than a session. It is asked at each call. Default: none.
	Granted func() []permission.Granted
	// Report gets every event, from the goroutine in which it happens: it must not block. Default: none.
	Report func(Event)
	// Record keeps each decision before its tool may run; with an error the tool does not run. Called from
	// many goroutines. Default: none.
	Record func(audit.Entry) error
	// Logger gets what goes wrong outside any task. Default: silent.
	Logger *slog.Logger
}

// Factory makes agents of definitions. It is safe for concurrent use.
type Factory struct {
	cfg      Config
	register register
}

// NewFactory returns a Factory.
func NewFactory(cfg Config) *Factory {
	if cfg.Report == nil {
		cfg.Report = func(Event) {}
	}
	if cfg.Window == nil {
		cfg.Window = func(string) int { return 0 }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Factory{cfg: cfg}
}

// Order is what a new first agent is to be.
type Order struct {
	Definition Definition
	// Name of the member; "" = the definition's.
	Name string
	// Model to use; nil = the one that the definition or the node names.
	Model llm.Model
	// Policy is what the node's configuration allows it; zero denies everything.
	Policy permission.Policy
	// Limits bound it and its descendants.
	Limits Limits
	// ForLife says that all of Limits but Wall are for all its tasks together, as in a talk with a person.
	ForLife bool
	// Ask puts a decision to a human; nil = what would be asked is denied.
	Ask func(ctx context.Context, d Asked) tool.Answer
}

// life is what belongs to an agent from its spawn to its end, over restarts.
type life struct {
	def     Definition
	bounds  bounds    // of def, since it began
	raw     llm.Model // what it pays for
	model   llm.Model // the same, metered
	policy  permission.Policy
	memory  *permission.Memory
	keep    []string // tools that its parent let it have; nil = all
	account *account
	forLife bool // the account is not renewed with each task
	parent  *life
	lent    *lent // to an agent of another node; nil = not, or its parent is
	ask     func(ctx context.Context, d Asked) tool.Answer
	factory *Factory

	leases sync.WaitGroup // the calls by which other nodes lend it agents; Go is guarded by mu

	self community.Member // set by the first awakening, then constant

	mu          sync.Mutex
	awakenings  int                        // guarded by mu
	purse       *purse                     // of the task it does; nil = none; guarded by mu
	borrowed    map[*borrowed]struct{}     // sub-agents on other nodes; guarded by mu
	children    []community.MemberID       // that live here; guarded by mu
	brood       *brood                     // all of its sub-agents, and their work; set by wake; guarded by mu
	latest      string                     // what it does now, for its parent; guarded by mu
	copies      int                        // guarded by mu
	ended       bool                       // guarded by mu
	talk        *conversation.Conversation // of the agent as it is now; guarded by mu
	stop        context.CancelFunc         // ends the task in flight; nil = none is; guarded by mu
	interrupted bool                       // the task in flight was, or the last one; guarded by mu
	masters     []*life                    // for whom it works now; guarded by mu
	strange     []string                   // and who of other nodes, for people; guarded by mu
	guests      permission.Chain           // and what those are held to; guarded by mu
	declined    map[string]bool            // of a first agent: SKILL.mds that a person would not trust; guarded by mu
}

// Spawn makes an agent that has no parent.
func (f *Factory) Spawn(ctx context.Context, o Order) (community.Member, error) {
	if f.cfg.Skills != nil && f.cfg.SkillUse.UnknownFails {
		if err := o.Definition.CheckSkills(f.cfg.Skills.Now().Catalog); err != nil {
			return community.Member{}, err
		}
	}
	model := o.Model
	if model == nil {
		var err error
		if model, err = f.cfg.Model(ctx, o.Definition.Model); err != nil {
			return community.Member{}, fmt.Errorf("a model for agent %s: %w", o.Definition.Name, err)
		}
	}
	name := o.Name
	if name == "" {
		name = o.Definition.Name
	}
	return f.begin(ctx, name, f.first(o).using(model))
}

// first is the life of an agent that has no parent here.
func (f *Factory) first(o Order) *life {
	return &life{
		def: o.Definition, policy: o.Policy, memory: new(permission.Memory),
		account: newAccount(o.Limits.Within(o.Definition.Budget)), forLife: o.ForLife, ask: o.Ask, factory: f,
	}
}

// defined finds the definition that an agent names for a sub-agent, and its model: its parent's unless it has its own.
func (f *Factory) defined(ctx context.Context, name string, parents llm.Model) (Definition, llm.Model, error) {
	if f.cfg.Definition == nil {
		return Definition{}, nil, fmt.Errorf("there is no agent definition %q: leave agent out for a copy of yourself", name)
	}
	def, err := f.cfg.Definition(name)
	if err == nil && f.cfg.Skills != nil && f.cfg.SkillUse.UnknownFails {
		err = def.CheckSkills(f.cfg.Skills.Now().Catalog)
	}
	if err != nil || def.Model == "" {
		return def, parents, err
	}
	model, err := f.cfg.Model(ctx, def.Model)
	if err != nil {
		err = fmt.Errorf("a model for agent %s: %w", name, err)
	}
	return def, model, err
}

// begin spawns the agent whose life it is given.
func (f *Factory) begin(ctx context.Context, name string, l *life, opts ...community.SpawnOption) (community.Member, error) {
	var err error
	if l.bounds, err = boundsOf(l.def, f.cfg.Dir); err != nil {
		return community.Member{}, fmt.Errorf("definition %s: %w", l.def.Name, err)
	}
	l.model = l.thinker()
	return f.cfg.Community.Spawn(ctx, name,
		func(self community.Member) (community.Agent, error) { return l.wake(self) },
		append(opts, community.WithMetadata(l.metadata()))...,
	)
}

func (l *life) metadata() map[string]string {
	m := map[string]string{community.DefinitionKey: l.def.Name, "description": l.def.Description, "model": l.model.Name()}
	switch {
	case l.parent != nil:
		m["parent"] = string(l.parent.self.ID)
	case l.lent != nil:
		m["lent_to"] = string(l.lent.node)
		if l.lent.parent != "" {
			m["parent"] = string(l.lent.parent)
		}
	}
	return m
}

// address names the agent among the requesters of what it asks for.
func (l *life) address() string { return string(l.self.Node) + "/" + string(l.self.ID) }

// wake returns the agent itself, at the spawn and after each restart. What ended with the one before
// it, its children, skills and place in the budget, is the new one's to take again; without a place it does not wake.
func (l *life) wake(self community.Member) (*Agent, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.awakenings++; l.awakenings == 1 {
		l.self = self
	} else if err := l.rejoin(); err != nil {
		return nil, fmt.Errorf("agent %s, restarted: %w", self.Name, err)
	}
	l.factory.register.enter(l)
	l.ended, l.brood = false, newBrood()
	a := newAgent(l)
	l.talk = a.talk
	return a, nil
}

// end takes an agent's children, skills and grants with it.
func (l *life) end(ctx context.Context) error {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.brood.kill()
	l.terminateChildren(ctx)
	l.endBorrowed(ctx)
	l.brood.works.Wait()
	l.factory.register.leave(l)
	l.leave()
	if l.factory.cfg.Skills == nil {
		return nil
	}
	return l.factory.cfg.Skills.Release(ctx, string(l.self.ID))
}

// leave gives back what a sub-agent has of the budget, and has its parent forget it.
func (l *life) leave() {
	l.account.close()
	if l.parent != nil {
		l.parent.forget(l.self.ID)
	}
}

// links are what the agent may do: its parents' links, then its own. more is granted to each beside what is.
func (l *life) links(more []permission.Granted) permission.Chain {
	var chain permission.Chain
	switch {
	case l.parent != nil:
		chain = slices.Clone(l.parent.links(more))
	case l.lent != nil:
		chain = slices.Clone(l.lent.fence)
	}
	own := permission.Link{Name: l.self.Name, Policy: l.policy, Memory: l.memory, Granted: func() []permission.Granted { return l.granted(more) }}
	chain = append(chain, own)
	if narrowed := l.bounds.policy; narrowed != nil {
		chain = append(chain, permission.Link{Name: l.self.Name + "'s definition", Policy: *narrowed})
	}
	if l.keep != nil {
		chain = append(chain, permission.Link{Name: l.self.Name + "'s parent", Policy: keepOnly(l.keep)})
	}
	return chain
}

// readDirs are the directories of the agent's skills. A sub-agent is handed none of its parent's.
func (l *life) readDirs() []string {
	if l.factory.cfg.Skills == nil {
		return nil
	}
	return l.factory.cfg.Skills.Dirs(string(l.self.ID))
}

// granted is what was given to the agent while it runs.
func (l *life) granted(more []permission.Granted) []permission.Granted {
	all := more
	if f := l.factory.cfg.Granted; f != nil {
		all = slices.Concat(all, f())
	}
	if registry := l.factory.cfg.Skills; registry != nil {
		id := string(l.self.ID)
		all = slices.Concat(all, registry.Granted(id), registry.Reading(id))
	}
	return all
}

// adopt notes a child, unless the agent ended meanwhile; nil is one that it knows.
func (l *life) adopt(id community.MemberID, c *child) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return community.ErrStopped
	}
	l.children = append(l.children, id)
	if c != nil {
		l.raise(c)
	}
	return nil
}

func (l *life) forget(id community.MemberID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.children = slices.DeleteFunc(l.children, func(c community.MemberID) bool { return c == id })
}

// terminateChildren ends the agent's children, and with them theirs, and waits for it.
func (l *life) terminateChildren(ctx context.Context) {
	l.mu.Lock()
	children := slices.Clone(l.children)
	l.mu.Unlock()
	var wg sync.WaitGroup
	for _, id := range children {
		wg.Go(func() {
			err := l.factory.cfg.Community.Terminate(ctx, id)
			if err != nil && !errors.Is(err, community.ErrNotFound) {
				l.factory.cfg.Logger.Warn("sub-agent not terminated", "agent", id, "err", err)
			}
		})
	}
	wg.Wait()
}
