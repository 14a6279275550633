package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/agent/tool/security"
	"symbio/community"
	"symbio/internal/agent/team"
	"symbio/internal/agent/tool/peer"
	"symbio/security/permission"
	"symbio/skills"
)

// Community is the part of *community.Community that agents use. It is an interface so that tests
// can replace it.
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
	// Tools are the tools that all agents share, such as the file tools. The tools for peers,
	// skills and replication are added for each agent.
	Tools []tool.Tool
	// DynamicTools returns the tools that change while agents run, such as the tools of MCP servers. It is
	// called before each turn of a model and may block for some seconds, with wait until all servers that
	// are starting have listed their tools. missing says why tools are not there, by the beginning of their
	// names; tool.Starting if waiting may help. Default: none.
	DynamicTools func(ctx context.Context, wait bool) (tools []tool.Tool, missing map[string]string)
	// Middleware is put around the stages of each agent's turns. Default: none.
	Middleware Middleware
	// SearchAbove is tool.CatalogConfig.SearchAbove: with more tools than that, models search for them.
	SearchAbove int
	// Model finds the model that a definition names; "" is the node's own.
	Model func(ctx context.Context, name string) (llm.Model, error)
	// Programs makes the programs of definitions that have one. Default: such a definition is refused.
	Programs func(ProgramConfig) Program
	// Effort is how much models think for agents without an effort of their own (llm.Request.Effort).
	Effort string
	// Definition finds the definition that an agent names for a sub-agent. Default: agents can only
	// spawn copies of themselves.
	Definition func(name string) (definition.Definition, error)
	// Chooser gives sub-agents their places, on this node and on others. Default: they run on this node
	// unless the model names another one, and do not wait.
	Chooser Chooser
	// Dir is the working directory of all agents that have no workspace of their own.
	Dir string
	// Workspaces makes sub-agents copies of the files to work in. Default: sub-agents get none.
	Workspaces *team.Workspaces
	// WorkContext says what agents are told of the place in which they work. Default: nothing.
	WorkContext WorkContext
	// Window returns the context window of the named model, in tokens. 0, and the default: the window of
	// conversation.Config.
	Window func(model string) int
	// Approvals has the rules that people have allowed to agents in addition to their policies. Default: none.
	Approvals Approvals
	// Report gets every event, from the goroutine in which it happens: it must not block. Default:
	// none.
	Report func(event.Event)
	// OnAsk is called when a person is asked about a call, and the function that it returns when there is an
	// answer. Default: not called.
	OnAsk func(ctx context.Context, r ApprovalRequest) func(tool.Answer)
	// Record writes a decision to the audit log before the tool runs. If it returns an error, the
	// tool does not run. It is called from many goroutines. Default: no audit log.
	Record func(RecordedDecision) error
	// Journal keeps the agents' conversations. Default: they are not kept.
	Journal *session.Journal
	// Artifacts keeps what is too large for a model. Default: nothing does.
	Artifacts Artifacts
	// OnResume is called when an agent that goes on with a session has started, before its first task.
	// Default: not called.
	OnResume func(session string)
	// Logger receives failures outside any task. Default: silent.
	Logger *slog.Logger
}

// Approvals are the rules that people have allowed to agents.
type Approvals interface {
	// Granted returns those that are allowed from now on, or for the session of root, an agent without a parent. It is called at
	// each tool call, so that a revoked rule ends at once.
	Granted(root string) []permission.Grant
	// End ends the session of root, which has ended.
	End(root string)
}

// Factory makes agents of definitions. It is safe for concurrent use.
type Factory struct {
	cfg       Config
	instances instances
	used      activity // only the sum of all agents' spending
}

// NewFactory returns a Factory. It starts nothing.
func NewFactory(cfg Config) *Factory {
	if cfg.Report == nil {
		cfg.Report = func(event.Event) {}
	}
	if cfg.Chooser == nil {
		cfg.Chooser = localChooser{}
	}
	if cfg.OnAsk == nil {
		cfg.OnAsk = func(context.Context, ApprovalRequest) func(tool.Answer) { return func(tool.Answer) {} }
	}
	if cfg.OnResume == nil {
		cfg.OnResume = func(string) {}
	}
	if cfg.Window == nil {
		cfg.Window = func(string) int { return 0 }
	}
	if cfg.Definition == nil {
		cfg.Definition = func(name string) (definition.Definition, error) {
			return definition.Definition{}, fmt.Errorf("there is no agent definition %q: leave agent out for a copy of yourself", name)
		}
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Factory{cfg: cfg}
}

// Order describes an agent to spawn that has no parent.
type Order struct {
	Definition definition.Definition
	// Name of the member; "" = the definition's.
	Name string
	// Model to use; nil = the one that the definition or the node names.
	Model llm.Model
	// Policy is what the node's configuration allows the agent; the zero Policy denies everything.
	Policy permission.Policy
	// Rules returns the policy and is called at each tool call, so that rules can change while the
	// agent runs. Default: Policy.
	Rules func() permission.Policy
	// Limits bound it and its descendants.
	Limits budget.Limits
	// LifetimeBudget applies Limits, except Wall, to all tasks of the agent together, as in a chat
	// with a person. Default: each task starts with the full Limits.
	LifetimeBudget bool
	// Session describes the agent's session if the factory keeps sessions. With an ID the agent goes
	// on with that one, and the caller chooses Definition, Model and Limits as they were. Without one
	// a session begins with its Model, Limits and Keep.
	Session session.Info
	// Mode is the agent's mode until ChangeSettings changes it. Default: ModeAsk.
	Mode Mode
	// Ask puts a decision to a person and blocks until the answer. nil = calls that need approval
	// are denied.
	Ask func(ctx context.Context, d ApprovalRequest) tool.Answer
	// Attended is set if a person waits for the agent's answers.
	Attended bool

	// Workspace is where it and its descendants work. Default: Config.Dir and Config.Tools.
	Workspace *Workspace

	security *security.Config        // whose sandbox holds it; nil = the workspace of its tools
	forked   *skills.ActivateRequest // the skill for which a sub-agent was spawned; nil = none
}

// Workspace is where an agent works: its directory, and the tools for what is in it.
type Workspace struct {
	Dir   string
	Tools []tool.Tool
}

// WithSecurity returns the order with the rules and the handler of s. Commands are held to its
// sandbox, too, beside what holds the tools: it makes nothing wider. The error says what is wrong
// with the rules.
func (o Order) WithSecurity(s security.Config) (_ Order, err error) {
	if o.Policy, err = s.Permissions.Policy(); err != nil {
		return Order{}, err
	}
	o.Rules, o.Ask, o.security = nil, nil, &s
	if s.Handler != nil {
		o.Ask = func(ctx context.Context, d ApprovalRequest) tool.Answer {
			d.Agent = d.Name // a person knows it by that
			return s.Handler(ctx, d.Decision)
		}
	}
	return o, nil
}

// Spawn starts an agent that has no parent and returns its member. The error names an unknown
// skill, a model that cannot be opened, or a constraint of the definition that cannot be enforced
// here. An agent with Session.Keep is durable when Spawn returns; it needs Config.Journal.
func (f *Factory) Spawn(ctx context.Context, o Order) (community.Member, error) {
	if f.cfg.Skills != nil && f.cfg.SkillUse.UnknownFails {
		if err := o.Definition.CheckSkills(f.cfg.Skills.Now().Catalog); err != nil {
			return community.Member{}, err
		}
	}
	if o.Session.Keep && f.cfg.Journal == nil {
		return community.Member{}, fmt.Errorf("agent %s is to live again after a restart: %w", o.Definition.Name, ErrNoSessions)
	}
	if o.Model == nil && o.Definition.Program.IsZero() {
		var err error
		if o.Model, err = f.cfg.Model(ctx, o.Definition.Model); err != nil {
			return community.Member{}, fmt.Errorf("a model for agent %s: %w", o.Definition.Name, err)
		}
	}
	i := f.newInstance(o)
	err := i.record.open(ctx, o)
	if err == nil && o.LifetimeBudget && o.Session.ID != "" {
		err = i.chargePast(ctx, 0)
	}
	if err != nil {
		i.record.log.Load().Close() // it may be open, and what was spent not be known
		return community.Member{}, err
	}
	var opts []community.SpawnOption
	if o.Session.Keep && o.Session.ID != "" {
		opts = append(opts, community.WithID(community.MemberID(o.Session.Member)))
	}
	m, err := f.begin(ctx, cmp.Or(o.Name, o.Definition.Name), i, opts...)
	if err == nil && o.Session.Keep {
		if err = i.record.Commit(); err != nil { // it lives again even if it never gets a task
			err = errors.Join(err, f.cfg.Community.Terminate(ctx, m.ID))
		}
	}
	if err == nil && o.Session.ID != "" {
		f.cfg.OnResume(o.Session.ID)
	}
	return m, err
}

func (o Order) rules() func() permission.Policy {
	if o.Rules != nil {
		return o.Rules
	}
	return func() permission.Policy { return o.Policy }
}

// newInstance returns an instance without a parent on this node.
func (f *Factory) newInstance(o Order) *instance {
	o.Workspace = cmp.Or(o.Workspace, &Workspace{f.cfg.Dir, f.cfg.Tools})
	i := &instance{
		factory: f, order: o, settings: settings{spec: o.Session.Model, effort: cmp.Or(o.Definition.Effort, f.cfg.Effort), mode: o.Mode},
		permissions: newPermissions(f, o.rules(), o.Workspace.Dir), task: runningTask{account: budget.New(o.Limits.Within(o.Definition.Budget))},
	}
	i.artifacts = newArtifacts(f.cfg.Artifacts, &i.record)
	return i.connect()
}

// definition finds the definition that an agent names for a sub-agent, and its model: the
// definition's own, else the parent's, or the node's if a program does the parent's work (parents is nil).
func (f *Factory) definition(ctx context.Context, name string, parents llm.Model) (definition.Definition, llm.Model, error) {
	def, err := f.cfg.Definition(name)
	if err == nil && f.cfg.Skills != nil && f.cfg.SkillUse.UnknownFails {
		err = def.CheckSkills(f.cfg.Skills.Now().Catalog)
	}
	if err != nil || !def.Program.IsZero() || def.Model == "" && parents != nil {
		return def, parents, err
	}
	model, err := f.cfg.Model(ctx, def.Model)
	if err != nil {
		err = fmt.Errorf("a model for agent %s: %w", name, err)
	}
	return def, model, err
}

// begin registers an instance with the community, which starts it. If that fails, its account is closed. The constraints are resolved
// before that, so that no agent ever runs without them.
func (f *Factory) begin(ctx context.Context, name string, i *instance, opts ...community.SpawnOption) (m community.Member, err error) {
	defer func() {
		if err != nil {
			i.record.log.Load().Close() // so that a later agent can go on with the session
			i.task.account.Close()
		}
	}()
	if !i.order.Definition.Program.IsZero() && i.program == nil {
		return community.Member{}, fmt.Errorf("definition %s: this node starts no programs of agents", i.order.Definition.Name)
	}
	if i.permissions.own, err = ownConstraints(i); err != nil {
		return community.Member{}, fmt.Errorf("definition %s: %w", i.order.Definition.Name, err)
	}
	if i.record.journal != nil && i.record.log.Load() == nil { // else it goes on with one
		i.record.create(i.newSession())
	}
	return f.cfg.Community.Spawn(ctx, name,
		func(self community.Member) (community.Agent, error) {
			a, err := i.start(self)
			if err == nil {
				a.skills.takeLent()
			}
			return a, err
		},
		append(opts, community.WithMetadata(i.metadata()))...,
	)
}
