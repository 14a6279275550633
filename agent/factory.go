package agent

import (
	"context"
	"fmt"
	"log/slog"

	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/peer"
	"symbio/agent/tool/security"
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
	Definition func(name string) (definition.Definition, error)
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
	cfg       Config
	instances instances
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
	Definition definition.Definition
	// Name of the member; "" = the definition's.
	Name string
	// Model to use; nil = the one that the definition or the node names.
	Model llm.Model
	// Policy is what the node's configuration allows it; zero denies everything.
	Policy permission.Policy
	// Rules is asked at each call, in place of Policy: rules may change while the agent lives. Default: Policy.
	Rules func() permission.Policy
	// Limits bound it and its descendants.
	Limits budget.Limits
	// ForLife says that all of Limits but Wall are for all its tasks together, as in a talk with a person.
	ForLife bool
	// Ask puts a decision to a human; nil = what would be asked is denied.
	Ask func(ctx context.Context, d Asked) tool.Answer

	security *security.Config // whose sandbox holds it; nil = that of its tools
}

// WithSecurity returns the order with the rules and the handler of s. Commands are held to its sandbox, too, beside what
// holds the tools: it makes nothing wider. The error says what is wrong with the rules.
func (o Order) WithSecurity(s security.Config) (_ Order, err error) {
	if o.Policy, err = s.Permissions.Policy(); err != nil {
		return Order{}, err
	}
	o.Rules, o.Ask, o.security = nil, nil, &s
	if s.Handler != nil {
		o.Ask = func(ctx context.Context, d Asked) tool.Answer {
			d.Agent = d.Name // a person knows it by that
			return s.Handler(ctx, d.Decision)
		}
	}
	return o, nil
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
	return f.begin(ctx, name, f.newInstance(o).withModel(model))
}

func (o Order) rules() func() permission.Policy {
	if o.Rules != nil {
		return o.Rules
	}
	return func() permission.Policy { return o.Policy }
}

// newInstance returns an agent that has no parent here, without its model.
func (f *Factory) newInstance(o Order) *instance {
	return &instance{
		factory: f, def: o.Definition, permissions: newPermissions(f, o.rules()),
		account: budget.New(o.Limits.Within(o.Definition.Budget)), keepAccount: o.ForLife, ask: o.Ask, security: o.security, declined: new(declinedSkills),
	}
}

// definition finds the definition that an agent names for a sub-agent, and its model: its parent's unless it has its own.
func (f *Factory) definition(ctx context.Context, name string, parents llm.Model) (definition.Definition, llm.Model, error) {
	if f.cfg.Definition == nil {
		return definition.Definition{}, nil, fmt.Errorf("there is no agent definition %q: leave agent out for a copy of yourself", name)
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

// begin spawns an agent.
func (f *Factory) begin(ctx context.Context, name string, i *instance, opts ...community.SpawnOption) (community.Member, error) {
	var err error
	if i.permissions.own, err = constraintsOf(i.def, i.security, f.cfg.Dir); err != nil {
		return community.Member{}, fmt.Errorf("definition %s: %w", i.def.Name, err)
	}
	i.model = i.thinkingModel()
	return f.cfg.Community.Spawn(ctx, name,
		func(self community.Member) (community.Agent, error) { return i.start(self) },
		append(opts, community.WithMetadata(i.metadata()))...,
	)
}
