package skills

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"symbio/actor"
	"symbio/internal/skills/search"
	"symbio/internal/skills/trigger"
	"symbio/security/permission"
)

// Registry is the one place that knows which skills there are and which agent has activated which.
// It is an actor, and only the actor changes its state. Any number of goroutines may call its
// methods. A method with a context waits for the actor and for the disk. In addition to the errors
// in its comment it returns the context's error and the actor's: actor.ErrBusy at once if the queue
// is full, actor.ErrStopped after the end.
type Registry struct {
	cfg Config
	ref *actor.Ref

	// catalog and agents are published by the actor, so that readers do not wait for it.
	catalog atomic.Pointer[Snapshot]
	agents  sync.Map // of *agentGrants, by the agent's id
}

// Snapshot is the catalog at one moment. It never changes. After a change there is another
// Snapshot, so that callers can compare pointers.
type Snapshot struct {
	Catalog

	indexing sync.Once
	index    *search.Index // of the words of Catalog; set by indexing

	readTriggers sync.Once
	triggers     *trigger.Index // of Catalog; set by readTriggers
}

// Search finds skills as Catalog.Search does. The first search makes an index, which all later ones
// share and which ends with the Snapshot. It is safe for concurrent use.
func (s *Snapshot) Search(q Query) SearchResult {
	s.indexing.Do(func() { s.index = s.newIndex() })
	return s.search(q, s.index)
}

// NewRegistry starts a registry in sys under the name cfg.Name, and scans for skills before it
// returns. The registry and all grants end with sys.
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
				active:  activeSkills{cfg: cfg, agents: map[string]*agentSkills{}, published: &r.agents},
			}
			return b, b.library.rescan(context.Background(), "scanned")
		},
		Stopped: func(error) { r.agents.Clear() },
	})
	if err != nil {
		return nil, fmt.Errorf("start the registry of skills: %w", err)
	}
	r.ref = ref
	return r, nil
}

// Now returns the present catalog without waiting. Callers must not write to it.
func (r *Registry) Now() *Snapshot { return r.catalog.Load() }

// Catalog returns the catalog after all earlier requests were handled. Callers must not write to it, nor to what Rescan
// and Refresh return.
func (r *Registry) Catalog(ctx context.Context) (Catalog, error) {
	return ask[Catalog](ctx, r, getCatalog{})
}

// Rescan looks for skills again and returns the new catalog. Active skills stay active.
func (r *Registry) Rescan(ctx context.Context) (Catalog, error) {
	return ask[Catalog](ctx, r, rescan{})
}

// Refresh returns the catalog as it is on the disk. It does not look at the disk again within
// Config.Fresh of the last time. Active skills stay active.
func (r *Registry) Refresh(ctx context.Context) (Catalog, error) {
	return ask[Catalog](ctx, r, refresh{})
}

// RefreshNow is Refresh for a caller that may just have written a skill: it always looks at the
// disk.
func (r *Registry) RefreshNow(ctx context.Context) (Catalog, error) {
	return ask[Catalog](ctx, r, refresh{now: true})
}

// Choose replaces the configuration's choices. A skill that is now off is deactivated for all
// agents.
func (r *Registry) Choose(ctx context.Context, c Choices) (Catalog, error) {
	return ask[Catalog](ctx, r, choose{c})
}

// Register adds skills made by Load or Inline to those that a scan finds. They stay until
// Unregister, also after a Rescan. It adds all or none: ErrAlreadyExists if the catalog has a skill
// with one of the paths. A name may exist already; see Config.Duplicates.
func (r *Registry) Register(ctx context.Context, skills ...Skill) error {
	_, err := ask[Catalog](ctx, r, register{skills})
	return err
}

// Unregister removes a skill from the catalog, deactivates it for all agents, and returns it. name
// is as in Activate. A skill that a scan finds stays out until it is registered.
func (r *Registry) Unregister(ctx context.Context, name string) (Skill, error) {
	return ask[Skill](ctx, r, unregister{name})
}

// Activate activates a skill for an agent: it reads the instructions as they are on the disk now,
// and grants the agent the rules that the skill may grant. A repeated activation reads the file
// again. On an error nothing changes: ErrNotFound, ErrAmbiguous, ErrUserOnly, ErrModelOnly,
// ErrDisabled, ErrTooMany, ErrUntrusted, ErrChanged, or a *LoadError if the file broke since the scan.
func (r *Registry) Activate(ctx context.Context, w ActivateRequest) (Activation, error) {
	if n := len(w.Arguments); n > MaxArguments {
		return Activation{}, fmt.Errorf("activate %.100q: %w: arguments of %d bytes; at most %d are taken", cmp.Or(w.Path, w.Name), ErrInvalid, n, MaxArguments)
	}
	return ask[Activation](ctx, r, w)
}

// Accept grants an agent the rules that a skill proposes, until the skill is deactivated. It is
// called after a person has accepted the SKILL.md with that hash. ErrChanged: the file has another
// hash now, and nothing changes. Otherwise it is as Activate.
func (r *Registry) Accept(ctx context.Context, agent, name, hash string) (Activation, error) {
	return ask[Activation](ctx, r, accept{ActivateRequest{Agent: agent, Name: name}, hash})
}

// Deactivate ends a skill and its grants for one agent. name is as in Activate. ErrNotActive: the
// agent does not have it.
func (r *Registry) Deactivate(ctx context.Context, agent, name string) error {
	_, err := ask[struct{}](ctx, r, deactivate{agent, name})
	return err
}

// EndTurn is called when a person's next message reaches the agent. With GrantTurn it ends the
// skills that were activated since the previous message. The skills of the agent's definition stay.
func (r *Registry) EndTurn(ctx context.Context, agent string) error {
	if !r.EndsWithTurn() {
		return nil
	}
	_, err := ask[struct{}](ctx, r, endTurn{agent})
	return err
}

// EndsWithTurn reports whether skills end with a person's next message; see EndTurn.
func (r *Registry) EndsWithTurn() bool { return r.cfg.GrantTTL == GrantTurn }

// Release ends everything of an agent. Call it when the agent has ended, after its last call. The
// grants end at once, whatever error is returned. After an error the actor removes the rest later.
// Only after actor.ErrBusy, during an activation for the agent, does that activation stay.
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

// Active returns the names of the agent's active skills, sorted.
func (r *Registry) Active(ctx context.Context, agent string) ([]string, error) {
	return ask[[]string](ctx, r, listActive{agent})
}

// IsActive reports whether the agent has activated the skill. name is as Active returns it.
func (r *Registry) IsActive(ctx context.Context, agent, name string) (bool, error) {
	names, err := r.Active(ctx, agent)
	return slices.Contains(names, name), err
}

// AgentsBySkill returns the agents of each active skill, sorted, by the skill's id.
func (r *Registry) AgentsBySkill(ctx context.Context) (map[string][]string, error) {
	return ask[map[string][]string](ctx, r, listAgentsBySkill{})
}

// ActivePrompt returns the full text of the agent's active skills in the form of PreloadPrompt, ""
// if there are none.
func (r *Registry) ActivePrompt(ctx context.Context, agent string) (string, error) {
	all, err := r.Activations(ctx, agent)
	return PreloadPrompt(all), err
}

// Activations returns the agent's active skills, ordered by their names in Active. Hash is the hash of the
// SKILL.md that was activated.
func (r *Registry) Activations(ctx context.Context, agent string) ([]Activation, error) {
	return ask[[]Activation](ctx, r, texts{agent: agent})
}

// Reattach returns the skill texts to show to a model again after its conversation was shortened:
// the texts of the agent's active skills, the newest first, as many as maxAllReattached allows. They count as
// shown in the epoch. Any other skill is shown in full at its next activation.
func (r *Registry) Reattach(ctx context.Context, agent string, epoch int) ([]Activation, error) {
	return ask[[]Activation](ctx, r, texts{agent: agent, shown: true, epoch: epoch})
}

// Granted returns the rules that the agent's active skills grant now, without duplicates and in a
// fixed order. A grant ends as soon as the SKILL.md differs from the one that was read, or the
// trust in it is revoked; to know that, Granted looks at the disk. It never waits for the actor, so
// that a guard can call it for each decision. Callers must not write to the slice.
func (r *Registry) Granted(agent string) []permission.Grant {
	g := r.of(agent)
	if g == nil {
		return nil
	}
	for _, s := range g.endInvalid() {
		_ = r.ref.Tell(endGrant{agent, s}) // it has ended without the actor, which only reports it
	}
	return g.granted()
}

// Reading returns the rules that let the agent read the files of its active skills. It does not
// look at the disk. The rules are separate from Granted because no skill asked for them.
func (r *Registry) Reading(agent string) []permission.Grant {
	if g := r.of(agent); g != nil {
		return g.reading
	}
	return nil
}

// Dirs returns the directories of the agent's active skills, sorted. The agent's file tools and
// sandboxed commands can read them beside the workspace. It looks at the disk, and leaves out a
// directory that a link now leads elsewhere.
func (r *Registry) Dirs(agent string) []string {
	if g := r.of(agent); g != nil {
		return g.dirs()
	}
	return nil
}

// of returns the published grants of an agent, nil if it has none or has ended.
func (r *Registry) of(agent string) *agentGrants {
	if g, ok := r.agents.Load(agent); ok && !g.(*agentGrants).gone.Load() {
		return g.(*agentGrants)
	}
	return nil
}

// ask sends a message to the actor and returns the answer as a T.
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

// The messages of the actor, besides ActivateRequest.
type (
	getCatalog        struct{}
	rescan            struct{}
	refresh           struct{ now bool }
	choose            struct{ choices Choices }
	register          struct{ skills []Skill }
	unregister        struct{ name string }
	deactivate        struct{ agent, name string }
	endTurn           struct{ agent string }
	release           struct{ agent string }
	listActive        struct{ agent string }
	listAgentsBySkill struct{}
	endGrant          struct {
		agent string
		grant *grant
	}
	texts struct {
		// agent is the agent's id.
		agent string
		shown bool // they are shown in the epoch, within the limits
		epoch int
	}
	accept struct {
		ActivateRequest
		hash string // that a person said yes to
	}
)

// behavior is the actor: the catalog, and the active skills of each agent. The actor calls it from
// one goroutine, so it needs no lock.
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
		return b.catalog(b.library.rescan(ctx, "scanned"))
	case refresh:
		return b.catalog(b.library.refresh(ctx, m.now))
	case choose:
		b.library.choose(m.choices)
		b.active.deactivateAll(func(a activeSkill) bool { return m.choices.Exposure(a.skill) == Off }, "switched off")
		return b.catalog(nil)
	case register:
		return b.catalog(b.library.register(m.skills))
	case unregister:
		skill, err := b.library.unregister(m.name)
		if err == nil {
			b.active.deactivateAll(func(a activeSkill) bool { return a.skill.ID == skill.ID }, "unregistered")
		}
		return skill, err
	case ActivateRequest:
		return b.active.activate(&b.library, m, "")
	case accept:
		return b.active.accept(&b.library, m)
	case deactivate:
		return struct{}{}, b.active.deactivate(m)
	case endTurn:
		b.active.deactivateOf(m.agent, func(a activeSkill) bool { return !a.by.AtStart() }, "the turn ended")
		return struct{}{}, nil
	case release:
		b.active.release(m.agent)
		return struct{}{}, nil
	case endGrant:
		b.active.endGrant(m)
		return struct{}{}, nil
	case listActive:
		return b.active.labels(m.agent), nil
	case listAgentsBySkill:
		return b.active.agentsBySkill(), nil
	case texts:
		return b.active.texts(m), nil
	}
	return nil, fmt.Errorf("the registry of skills does not know %T", msg)
}

// catalog returns the catalog and err.
func (b *behavior) catalog(err error) (any, error) { return b.library.catalog, err }
