package skills

import (
	"context"
	"fmt"
	"sync/atomic"

	"symbio/actor"
	"symbio/security/permission"
)

// Registry hands out the skills of a node to all its agents. It is an actor; its methods may be
// called by any number of goroutines. Those that take a context wait for their turn and for the
// disk; besides what they say they return the actor's errors (actor.ErrBusy at once when too many
// wait, actor.ErrStopped after the end) and the context's.
type Registry struct {
	cfg   Config
	ref   *actor.Ref
	given *given
	now   atomic.Pointer[Snapshot]
}

// Snapshot is the catalog at one moment. It is never changed; another catalog is another Snapshot.
type Snapshot struct{ Catalog }

// NewRegistry starts a registry in sys, under cfg.Name, and scans for skills before it returns.
// It ends with sys; all grants end with it.
func NewRegistry(sys *actor.System, cfg Config) (*Registry, error) {
	cfg = cfg.withDefaults()
	r := &Registry{cfg: cfg, given: newGiven()}
	r.now.Store(&Snapshot{})
	scanner := NewScanner(cfg)
	ref, err := sys.Spawn(actor.Props{
		Name: cfg.Name,
		New: func() (actor.Behavior, error) {
			// After a crash nobody knows which skills are active, so none are.
			r.given.clear()
			s := &shelf{cfg: cfg, scanner: scanner, given: r.given, publish: r.now.Store, holders: map[string]*holder{}, own: map[string]Skill{}, out: map[string]bool{}, elsewhere: map[string]Catalog{}}
			return s, s.rescan(context.Background(), scanner.Scan, "scanned")
		},
		Stopped: func(error) { r.given.clear() },
	})
	if err != nil {
		return nil, fmt.Errorf("start the registry of skills: %w", err)
	}
	r.ref = ref
	return r, nil
}

// Now is the catalog as it stands, without waiting for anything. What it holds is not to be written
// to; while nothing changed it is the same Snapshot.
func (r *Registry) Now() *Snapshot { return r.now.Load() }

// Catalog returns the catalog when all that was asked before is done.
func (r *Registry) Catalog(ctx context.Context) (Catalog, error) {
	return ask[Catalog](ctx, r, getCatalog{})
}

// Rescan looks for skills again and returns the new catalog. What is active stays so.
func (r *Registry) Rescan(ctx context.Context) (Catalog, error) {
	return ask[Catalog](ctx, r, rescan{})
}

// Refresh returns the catalog as it is on the disk, for whoever is about to use it: it looks whether anything has
// changed, unless that was done within the last Config.Fresh. What is active stays so.
func (r *Registry) Refresh(ctx context.Context) (Catalog, error) {
	return ask[Catalog](ctx, r, refresh{})
}

// Choose replaces the configuration's choices. What is off now is taken back from the agents that have it.
func (r *Registry) Choose(ctx context.Context, c Choices) (Catalog, error) {
	return ask[Catalog](ctx, r, choose{c})
}

// Activate hands a skill to an agent whose model asks for it: Take with nothing but a name.
func (r *Registry) Activate(ctx context.Context, agent, name string) (Activation, error) {
	return r.Take(ctx, Want{Agent: agent, Name: name})
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

// EndTurn is called when a person's next message reaches the agent: with GrantTurn, what it took since
// the last one ends. The skills of its definition stay.
func (r *Registry) EndTurn(ctx context.Context, agent string) error {
	if r.cfg.GrantTTL != GrantTurn {
		return nil
	}
	_, err := ask[struct{}](ctx, r, endTurn{agent})
	return err
}

// Release takes back everything that an agent has. Call it when the agent has ended, after its last
// call. What it was given ends at once, whatever error is returned; the error says that the list of its
// active skills is dropped only with the next request.
func (r *Registry) Release(ctx context.Context, agent string) error {
	r.given.leave(agent)
	_, err := ask[struct{}](ctx, r, release{})
	return err
}

// Active names the skills that an agent has activated, in order.
func (r *Registry) Active(ctx context.Context, agent string) ([]string, error) {
	return ask[[]string](ctx, r, listActive{agent})
}

// IsActive reports whether the agent has activated that skill, named as in Take.
func (r *Registry) IsActive(ctx context.Context, agent, name string) (bool, error) {
	return ask[bool](ctx, r, isActive{agent, name})
}

// Holders says which agents have which skills: by the skill's id, the agents in order.
func (r *Registry) Holders(ctx context.Context) (map[string][]string, error) {
	return ask[map[string][]string](ctx, r, listHolders{})
}

// ActivePrompt is the full text of all skills that an agent has, in the form of PreloadPrompt; "" when it
// has none.
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

// Granted returns the rules that the agent's active skills grant now: each once, in a fixed order.
// It never waits for the actor or the disk, so that a guard may call it for each decision. The slice
// is not to be written to.
func (r *Registry) Granted(agent string) []permission.Granted { return r.given.rules(agent) }

// Reading returns the rules by which the agent may read the files of its active skills. It is as
// Granted, and apart from it because no skill asked for them.
func (r *Registry) Reading(agent string) []permission.Granted { return r.given.reading(agent) }

// Dirs are the directories of the agent's active skills, in order: its Read reaches them beside the workspace, and
// its commands see them. It looks at the disk, and leaves out what has become a link to elsewhere.
func (r *Registry) Dirs(agent string) []string { return r.given.dirs(agent) }

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

// What the actor is asked, beside a Want.
type (
	getCatalog struct{}
	rescan     struct{}
	refresh    struct{}
	choose     struct{ choices Choices }
	deactivate struct{ agent, name string }
	endTurn    struct{ agent string }
	release    struct{} // of whom, given.gone knows
	listActive struct{ agent string }
	isActive   struct{ agent, name string }
	texts      struct {
		agent  string
		shown  bool // they are shown in the epoch, within the budget
		epoch  int
		budget ReattachBudget
	}
	listHolders struct{}
	accept      struct {
		Want
		hash string // that a person said yes to
	}
)
