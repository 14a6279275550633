package skills

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"symbio/actor"
	"symbio/security/permission"
)

// Registry hands out the skills of a node to all its agents. It is an actor, which alone changes its state; its methods
// may be called by any number of goroutines. Those that take a context wait for their turn and for the disk; besides what
// they say they return the actor's errors (actor.ErrBusy at once when too many wait, actor.ErrStopped after the end) and
// the context's.
type Registry struct {
	cfg Config
	ref *actor.Ref

	// What the actor publishes, and every goroutine may read.
	catalog atomic.Pointer[Snapshot]
	agents  sync.Map // of *agentGrants, by the agent's id
}

// Snapshot is the catalog at one moment. It is never changed; another catalog is another Snapshot.
type Snapshot struct{ Catalog }

// NewRegistry starts a registry in sys, under cfg.Name, and scans for skills before it returns. It ends with sys; all
// grants end with it.
func NewRegistry(sys *actor.System, cfg Config) (*Registry, error) {
	cfg = cfg.withDefaults()
	r := &Registry{cfg: cfg}
	r.catalog.Store(&Snapshot{})
	scanner := &scanner{cfg: cfg}
	ref, err := sys.Spawn(actor.Props{
		Name: cfg.Name,
		New: func() (actor.Behavior, error) {
			r.agents.Clear() // after a crash no skill is active: the actor does not know any more which were
			b := &behavior{
				library: library{cfg: cfg, scanner: scanner, publish: r.catalog.Store, registered: map[string]Skill{}, removed: map[string]bool{}},
				active:  activeSkills{cfg: cfg, agents: map[string]*holder{}, published: &r.agents},
			}
			return b, b.library.rescan(context.Background(), scanner.scan, "scanned")
		},
		Stopped: func(error) { r.agents.Clear() },
	})
	if err != nil {
		return nil, fmt.Errorf("start the registry of skills: %w", err)
	}
	r.ref = ref
	return r, nil
}

// Now returns the catalog as it stands, without waiting. What it holds is not to be written to; while nothing changed it
// is the same Snapshot.
func (r *Registry) Now() *Snapshot { return r.catalog.Load() }

// Catalog returns the catalog when all that was asked before is done.
func (r *Registry) Catalog(ctx context.Context) (Catalog, error) {
	return ask[Catalog](ctx, r, getCatalog{})
}

// Rescan looks for skills again and returns the new catalog. Active skills stay active.
func (r *Registry) Rescan(ctx context.Context) (Catalog, error) {
	return ask[Catalog](ctx, r, rescan{})
}

// Refresh returns the catalog as it is on the disk. It looks whether anything has changed, unless that was done within the
// last Config.Fresh. Active skills stay active.
func (r *Registry) Refresh(ctx context.Context) (Catalog, error) {
	return ask[Catalog](ctx, r, refresh{})
}

// RefreshNow is Refresh for a caller that may just have made a skill: it always looks.
func (r *Registry) RefreshNow(ctx context.Context) (Catalog, error) {
	return ask[Catalog](ctx, r, refresh{now: true})
}

// Choose replaces the configuration's choices. A skill that is off now is taken back from the agents that have it.
func (r *Registry) Choose(ctx context.Context, c Choices) (Catalog, error) {
	return ask[Catalog](ctx, r, choose{c})
}

// Register adds skills beside those that a scan finds: of Load, or of Inline. They stay until they are unregistered, over
// every Rescan. All or none: ErrAlreadyExists when a skill with one of the paths is there. A name may be there already; see
// Config.Duplicates.
func (r *Registry) Register(ctx context.Context, skills ...Skill) error {
	_, err := ask[Catalog](ctx, r, register{skills})
	return err
}

// Unregister removes a skill from the catalog, named as in Take, takes it back from all agents that have it, and returns
// it. One that a scan found stays out until it is registered.
func (r *Registry) Unregister(ctx context.Context, name string) (Skill, error) {
	return ask[Skill](ctx, r, unregister{name})
}

// Take hands a skill to an agent: it reads the instructions as they are on the disk now, and grants the
// agent what the skill may grant. Taking again reads again and grants the same. An error changes nothing:
// ErrNotFound, ErrAmbiguous, ErrUserOnly, ErrModelOnly, ErrDisabled, ErrTooMany, or a *LoadError when the
// file broke since the scan.
func (r *Registry) Take(ctx context.Context, w Want) (Activation, error) {
	return ask[Activation](ctx, r, w)
}

// Accept grants an agent what a skill proposes, until it gives the skill back: a person has said yes to the
// skill whose SKILL.md has that hash. Otherwise as Take; ErrChanged when the file has another hash now,
// and then nothing changes.
func (r *Registry) Accept(ctx context.Context, agent, name, hash string) (Activation, error) {
	return ask[Activation](ctx, r, accept{Want{Agent: agent, Name: name}, hash})
}

// Deactivate takes a skill, named as in Take, and its grants back. ErrNotActive.
func (r *Registry) Deactivate(ctx context.Context, agent, name string) error {
	_, err := ask[struct{}](ctx, r, deactivate{agent, name})
	return err
}

// EndTurn is called when a person's next message reaches the agent: with GrantTurn, the skills that it took since the
// last one end. The skills of its definition stay.
func (r *Registry) EndTurn(ctx context.Context, agent string) error {
	if r.cfg.GrantTTL != GrantTurn {
		return nil
	}
	_, err := ask[struct{}](ctx, r, endTurn{agent})
	return err
}

// Release takes back everything that an agent has. Call it when the agent has ended, after its last call. Its grants end
// at once, whatever error is returned. After an error the list of its active skills is dropped later; only after
// actor.ErrBusy, with an activation of the agent under way, the agent keeps what it is just being given.
func (r *Registry) Release(ctx context.Context, agent string) error {
	if g := r.of(agent); g != nil {
		g.gone.Store(true)
	}
	_, err := ask[struct{}](ctx, r, release{agent})
	if err != nil && r.ref.Tell(release{agent}) != nil { // such as a context that has ended
		err = fmt.Errorf("release the skills of %s: %w", agent, err)
	}
	return err
}

// Active names the skills that an agent has activated, in order.
func (r *Registry) Active(ctx context.Context, agent string) ([]string, error) {
	return ask[[]string](ctx, r, listActive{agent})
}

// IsActive reports whether the agent has activated that skill, named as Active names it.
func (r *Registry) IsActive(ctx context.Context, agent, name string) (bool, error) {
	names, err := r.Active(ctx, agent)
	return slices.Contains(names, name), err
}

// Holders returns which agents have which skills: by the skill's id, the agents in order.
func (r *Registry) Holders(ctx context.Context) (map[string][]string, error) {
	return ask[map[string][]string](ctx, r, listHolders{})
}

// ActivePrompt returns the full text of all skills that an agent has, in the form of PreloadPrompt; "" when it has none.
func (r *Registry) ActivePrompt(ctx context.Context, agent string) (string, error) {
	all, err := ask[[]Activation](ctx, r, texts{agent: agent})
	return PreloadPrompt(all), err
}

// Reattach returns what is to be shown to a model again after its conversation was shortened: the texts
// of the agent's active skills, those taken last first, as far as they fit. They count as shown in the
// epoch; of all others Take gives the text again.
func (r *Registry) Reattach(ctx context.Context, agent string, epoch int, b ReattachBudget) ([]Activation, error) {
	return ask[[]Activation](ctx, r, texts{agent: agent, shown: true, epoch: epoch, budget: b.withDefaults()})
}

// Granted returns the rules that the agent's active skills grant now: each once, in a fixed order. A grant ends at once
// when the SKILL.md is not what was read any more, or the trust in it is revoked; for that it looks at the disk. It
// never waits for the actor, so that a guard may call it for each decision. The slice is not to be written to.
func (r *Registry) Granted(agent string) []permission.Granted {
	g := r.of(agent)
	if g == nil {
		return nil
	}
	for _, s := range g.lapse() {
		_ = r.ref.Tell(lapsed{agent, s}) // it has ended without the actor, which only reports it
	}
	return g.granted()
}

// Reading returns the rules by which the agent may read the files of its active skills. It does not look at the
// disk. It is as Granted otherwise, and apart from it because no skill asked for them.
func (r *Registry) Reading(agent string) []permission.Granted {
	if g := r.of(agent); g != nil {
		return g.reading
	}
	return nil
}

// Dirs returns the directories of the agent's active skills, in order: its Read reaches them beside the workspace, and
// its commands see them. It looks at the disk, and leaves out what has become a link to elsewhere.
func (r *Registry) Dirs(agent string) []string {
	if g := r.of(agent); g != nil {
		return g.dirs()
	}
	return nil
}

// of returns what an agent was given; nil when it has nothing, or has ended.
func (r *Registry) of(agent string) *agentGrants {
	if g, ok := r.agents.Load(agent); ok && !g.(*agentGrants).gone.Load() {
		return g.(*agentGrants)
	}
	return nil
}

func ask[T any](ctx context.Context, r *Registry, msg any) (T, error) {
	var none T
	answer, err := r.ref.Ask(ctx, msg)
	if err != nil {
		return none, err
	}
	got, ok := answer.(T)
	if !ok {
		return none, fmt.Errorf("the registry of skills answered %T to %T", answer, msg)
	}
	return got, nil
}

// The messages of the actor, beside Want.
type (
	getCatalog  struct{}
	rescan      struct{}
	refresh     struct{ now bool }
	choose      struct{ choices Choices }
	register    struct{ skills []Skill }
	unregister  struct{ name string }
	deactivate  struct{ agent, name string }
	endTurn     struct{ agent string }
	release     struct{ agent string }
	listActive  struct{ agent string }
	listHolders struct{}
	lapsed      struct {
		agent string
		grant *grant
	}
	texts struct {
		agent  string
		shown  bool // they are shown in the epoch, within the budget
		epoch  int
		budget ReattachBudget
	}
	accept struct {
		Want
		hash string // that a person said yes to
	}
)

// behavior is the actor: the catalog, and which agents have taken which skills.
type behavior struct {
	library library
	active  activeSkills
}

// Receive handles one request.
func (b *behavior) Receive(ctx context.Context, msg any) (any, error) {
	switch m := msg.(type) {
	case getCatalog:
		return b.catalog(nil)
	case rescan:
		return b.catalog(b.library.rescan(ctx, b.library.scanner.scan, "scanned"))
	case refresh:
		return b.catalog(b.library.refresh(ctx, m.now))
	case choose:
		b.library.choose(m.choices)
		b.active.takeBack(func(a active) bool { return m.choices.Exposure(a.skill) == Off }, "switched off")
		return b.catalog(nil)
	case register:
		return b.catalog(b.library.register(m.skills))
	case unregister:
		skill, err := b.library.unregister(m.name)
		if err == nil {
			b.active.takeBack(func(a active) bool { return a.skill.ID == skill.ID }, "unregistered")
		}
		return skill, err
	case Want:
		return b.active.take(&b.library, m, "")
	case accept:
		return b.active.accept(&b.library, m)
	case deactivate:
		return struct{}{}, b.active.deactivate(m)
	case endTurn:
		b.active.takeBackFrom(m.agent, func(a active) bool { return a.by != ByDefinition }, "the turn ended")
		return struct{}{}, nil
	case release:
		b.active.release(m.agent)
		return struct{}{}, nil
	case lapsed:
		b.active.lapsed(m)
		return struct{}{}, nil
	case listActive:
		return b.active.labels(m.agent), nil
	case listHolders:
		return b.active.holders(), nil
	case texts:
		return b.active.texts(m), nil
	}
	return nil, fmt.Errorf("the registry of skills does not know %T", msg)
}

// catalog answers with the catalog, in lists of its own.
func (b *behavior) catalog(err error) (any, error) {
	if err != nil {
		return nil, err
	}
	c := b.library.catalog
	c.Skills, c.Errors, c.Notes = slices.Clone(c.Skills), slices.Clone(c.Errors), slices.Clone(c.Notes)
	return c, nil
}
