package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	proto "github.com/asynkron/protoactor-go/actor"
)

// Behavior is what an actor does with a message.
//
// Receive is called for one message at a time and may block. Its result is the asker's answer; an
// error is an answer like any other, only a panic is a failure. ctx is the asker's, with its values and
// deadline; it also ends, with the cause ErrStopped, when the actor must end now, and when Receive has
// returned.
type Behavior interface {
	Receive(ctx context.Context, msg any) (any, error)
}

// Config sets up a System. The zero value is usable.
type Config struct {
	// Mailbox is how many messages may wait for one actor, not counting the one it handles.
	// Default 1024: room for a burst, and a full one still costs less than 200 KB.
	Mailbox int
	// Restarts is how many failures within Within an actor is restarted after; one more stops it.
	// Default 5; negative means that the first failure stops it.
	Restarts int
	// Within is the time in which failures count. Default 1 minute.
	Within time.Duration
	// BackOff is the pause before the first restart; each further failure within Within doubles it.
	// Default 100 ms: long enough not to spin, short enough not to be noticed.
	BackOff time.Duration
	// MaxBackOff is the longest pause. Default 5 s: what waits in the mailbox is still worth answering.
	MaxBackOff time.Duration
	// Logger receives failures and what Proto.Actor has to say. Default: silent.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Mailbox <= 0 {
		c.Mailbox = 1024
	}
	switch {
	case c.Restarts == 0:
		c.Restarts = 5
	case c.Restarts < 0:
		c.Restarts = 0
	}
	if c.Within <= 0 {
		c.Within = time.Minute
	}
	if c.BackOff <= 0 {
		c.BackOff = 100 * time.Millisecond
	}
	if c.MaxBackOff <= 0 {
		c.MaxBackOff = 5 * time.Second
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Props says what actor to spawn.
type Props struct {
	// Name is unique among living actors. Default: a generated one. It must not begin with what
	// Proto.Actor keeps for itself: $, ask/, future, guardian, deadletter, eventstream.
	Name string
	// New makes the Behavior: once in Spawn, on the caller's goroutine, and once for each restart, on the
	// actor's. An error or a panic of a later one counts as a failure.
	New func() (Behavior, error)
	// Mailbox is how many messages may wait. Default: Config.Mailbox.
	Mailbox int
	// Stopped, when set, is called once, when the actor has ended and everything queued is answered: with
	// nil when it was asked to stop, else with why (ErrFailing). Stop and Shutdown wait for it.
	Stopped func(err error)
}

// reserved are the names that Proto.Actor's own processes have, and prefixes of them.
var reserved = [...]string{"$", "ask/", "future", "guardian", "deadletter", "eventstream"}

// System runs actors. Make it with NewSystem; end it with Shutdown.
type System struct {
	cfg    Config
	engine *proto.ActorSystem
	root   *proto.RootContext
	props  *proto.Props // one for all: a Props of its own would cost each actor 300 bytes
	shut   sync.Once

	workers  *dispatcher
	running  sync.WaitGroup // the goroutines of workers
	timers   sync.WaitGroup // restarts that wait for their back-off
	spawning sync.WaitGroup // actors between admission and being in place; Add is guarded by mu

	mu     sync.RWMutex
	closed bool            // guarded by mu
	actors map[string]*Ref // by name, from reservation to the very end; guarded by mu
}

// NewSystem returns a System without actors.
func NewSystem(cfg Config) *System {
	s := &System{cfg: cfg.withDefaults(), actors: map[string]*Ref{}}
	s.workers = newDispatcher(&s.running)
	s.engine = proto.NewActorSystem(
		proto.WithLoggerFactory(func(*proto.ActorSystem) *slog.Logger { return engineLogger(s.cfg.Logger) }),
		proto.WithDeadLetterRequestLogging(false),
	)
	s.root = s.engine.Root.Copy().WithGuardian(&supervisor{s})
	s.props = proto.PropsFromProducer(func() proto.Actor { return adapter{} },
		proto.WithMailbox(func() proto.Mailbox { return newMailbox(s) }),
		proto.WithDispatcher(s.workers))
	return s
}

// Spawn starts an actor. When New fails, its error is returned (a panic as a *PanicError) and nothing
// is left behind. ErrNameTaken: a living actor, or one that is just being spawned, has the name.
// ErrStopped: Shutdown has begun. Spawn blocks only as long as New does.
func (s *System) Spawn(p Props) (*Ref, error) {
	if p.New == nil {
		return nil, errors.New("spawn actor: Props.New is missing: it says what the actor does")
	}
	for _, prefix := range reserved {
		if strings.HasPrefix(p.Name, prefix) {
			return nil, fmt.Errorf("spawn actor %q: names that begin with %q are reserved: choose another", p.Name, prefix)
		}
	}
	r := s.newRef(p)
	if err := s.reserve(r); err != nil {
		return nil, fmt.Errorf("spawn actor %s: %w", r.props.Name, err)
	}
	behavior, err := r.newBehavior()
	if err == nil {
		r.behavior = behavior
		err = s.start(r)
	}
	if err != nil {
		s.remove(r)
		return nil, fmt.Errorf("spawn actor %s: %w", r.props.Name, err)
	}
	return r, nil
}

// Lookup returns the actor that has the name, from the end of its Spawn until it has ended.
func (s *System) Lookup(name string) (*Ref, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r, ok := s.actors[name]
	if !ok || !r.registered {
		return nil, false
	}
	return r, true
}

// Shutdown stops all actors, side by side, as Ref.Stop does, refuses new ones with ErrStopped, and
// returns when everything the System started has ended. When ctx ends first, the calls in flight are
// canceled and an error is returned that wraps the cause of ctx; call Shutdown again to go on waiting.
// Shutting down twice, or at once from two goroutines, is fine.
func (s *System) Shutdown(ctx context.Context) error {
	living := s.close()
	for _, r := range living {
		r.close(nil)
	}
	for i, r := range living {
		if err := r.await(ctx); err != nil {
			for _, r := range living[i:] {
				r.kill()
			}
			return fmt.Errorf("shut down actors: %s is still at work: %w", r.props.Name, err)
		}
	}
	s.timers.Wait()
	s.running.Wait()
	s.shut.Do(s.engine.Shutdown)
	return nil
}

// close refuses further actors and returns those that have not ended.
func (s *System) close() []*Ref {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.spawning.Wait()
	s.mu.RLock()
	defer s.mu.RUnlock()
	living := make([]*Ref, 0, len(s.actors))
	for _, r := range s.actors {
		if r.registered {
			living = append(living, r)
		}
	}
	return living
}

func (s *System) newRef(p Props) *Ref {
	if p.Name == "" {
		p.Name = s.engine.ProcessRegistry.NextID()
	}
	if p.Mailbox <= 0 {
		p.Mailbox = s.cfg.Mailbox
	}
	return &Ref{sys: s, props: p, gate: gate{limit: uint32(min(p.Mailbox, gateMax))}}
}

// reserve takes the name before New runs, so that New runs for one of two rivals only.
func (s *System) reserve(r *Ref) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrStopped
	}
	if _, taken := s.actors[r.props.Name]; taken {
		return ErrNameTaken
	}
	if len(s.actors) == 0 {
		s.workers.open()
	}
	s.actors[r.props.Name] = r
	return nil
}

// start hands r to Proto.Actor. The id is the name and a number that is never used again: a Ref that
// outlived its actor must not reach the next one of that name.
func (s *System) start(r *Ref) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrStopped
	}
	s.spawning.Add(1)
	s.mu.Unlock()
	defer s.spawning.Done()
	if _, err := s.root.SpawnNamed(s.props, r.props.Name+s.engine.ProcessRegistry.NextID()); err != nil {
		return err
	}
	s.mu.Lock()
	r.registered = true
	s.mu.Unlock()
	return nil
}

// find returns the actor that has Proto.Actor's id.
func (s *System) find(id string) *Ref {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.actors[id[:strings.LastIndexByte(id, '$')]]
}

func (s *System) remove(r *Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.actors, r.props.Name); len(s.actors) == 0 {
		s.workers.close()
	}
}
