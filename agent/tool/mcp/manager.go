package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"symbio/agent/tool"
)

var (
	// ErrUnknown is that there is no such server, or no such tool of it.
	ErrUnknown = errors.New("not known")
	// ErrNotReady is that a server cannot be talked to now; the text says why.
	ErrNotReady = errors.New("the MCP server is not there")
)

// State is where a server is in its life.
type State string

// The states. A server that is Stopped starts when it is first needed; one that Failed is tried again.
const (
	Stopped  State = "stopped"
	Starting State = "starting"
	Ready    State = "ready"
	Failed   State = "failed"
)

// Status is how a server is.
type Status struct {
	Server Server `json:"server"`
	State  State  `json:"state"`
	// Why says what is wrong, with what its program said, or that it takes long to start; "" if neither.
	Why string `json:"why,omitempty"`
	// Tools is how many it has. Notes are what was left out of its lists.
	Tools int      `json:"tools"`
	Notes []string `json:"notes,omitempty"`
}

// Pins remember what tools were when they were first listed, or last accepted. Methods may be called from many goroutines.
type Pins interface {
	// Pinned is the hash of a tool of the server with that Server.Hash; "" = none.
	Pinned(server, tool string) string
	// Pin keeps the hashes of tools by their names.
	Pin(server string, tools map[string]string) error
}

// Config sets up a Manager. The zero value has no servers.
type Config struct {
	// Servers are those of all files, the user's own first: of two with one name the first counts.
	Servers []Server
	// Trusted says whether a person trusts an entry of a project. Default: none is trusted.
	Trusted func(Server) bool
	// Box says how a server's program is held. Default: by sandbox.Standard in the working directory of the process; an
	// entry with a sandbox of its own is not started then.
	Box func(Server) (Box, error)
	// HTTP makes the requests. Default: http.DefaultTransport.
	HTTP http.RoundTripper
	// Pins outlive the Manager. Default: what it remembers itself.
	Pins Pins
	// StartTimeout bounds a start: the program, the handshake and its lists. Default 30 s, which a cold start of an
	// interpreter with a large program needs on a small machine.
	StartTimeout time.Duration
	// CallTimeout bounds a call. Default 5 minutes: as long as calls between nodes may take.
	CallTimeout time.Duration
	// Report hears each change of a server, from many goroutines; it must not block. Default: nobody.
	Report func(Status)
	// Version is this program's, which servers are told.
	Version string
	// Logger gets what servers do wrong. Default: silent.
	Logger *slog.Logger
}

// Manager talks to the servers. Its methods may be called from many goroutines; they need Run to be running, or Open to
// have been called. Open and Close are for its owner.
type Manager struct {
	cfg     Config
	open    func(context.Context, Server) (*link, error)
	changed chan struct{} // servers have come
	cancel  func()        // ends Run; set by Open
	running sync.WaitGroup

	mu        sync.Mutex
	servers   []*server // in the order of their files; guarded by mu
	unstarted []*server // of them those that Run has not begun with; guarded by mu
	ended     bool      // Run has ended; guarded by mu
}

// New returns a Manager. It starts nothing.
func New(cfg Config) *Manager {
	if cfg.StartTimeout <= 0 {
		cfg.StartTimeout = 30 * time.Second
	}
	if cfg.CallTimeout <= 0 {
		cfg.CallTimeout = 5 * time.Minute
	}
	if cfg.Report == nil {
		cfg.Report = func(Status) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Box == nil {
		cfg.Box = defaultBox()
	}
	if cfg.Pins == nil {
		cfg.Pins = new(memoryPins)
	}
	m := &Manager{cfg: cfg, changed: make(chan struct{}, 1)}
	m.open = m.dial
	m.SetServers(cfg.Servers)
	return m
}

// Run keeps the servers until ctx ends, and then ends them with all that they started.
func (m *Manager) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		m.mu.Lock()
		fresh := m.unstarted
		m.unstarted, m.ended = nil, ctx.Err() != nil
		m.mu.Unlock()
		for _, s := range fresh {
			wg.Go(func() { s.run(ctx) })
		}
		if ctx.Err() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-m.changed:
		}
	}
}

// Status is how the servers are, in the order of their files.
func (m *Manager) Status() []Status {
	servers := m.all()
	all := make([]Status, 0, len(servers))
	for _, s := range servers {
		all = append(all, s.status())
	}
	return all
}

// Start starts the servers that were not yet, all at once, and waits until each is ready or has failed.
func (m *Manager) Start(ctx context.Context) {
	servers := m.all()
	for _, s := range servers {
		s.requestStart()
	}
	for _, s := range servers {
		s.awaitStart(ctx, true)
	}
}

// Tools are those that agents have now. The first call starts the servers, and waits some seconds for them; the tools of
// those that take longer come with a later call, and Report hears of them with the state Starting.
func (m *Manager) Tools(ctx context.Context) []tool.Tool {
	servers := m.all()
	for _, s := range servers {
		s.requestStart()
	}
	var all []tool.Tool
	for _, s := range servers {
		s.awaitStartBriefly(ctx)
		for _, r := range s.offered() {
			all = append(all, r)
		}
	}
	return all
}

// ToolsOf are the tools of one server, once it is ready; "" = of all, with an error about those that are not.
func (m *Manager) ToolsOf(ctx context.Context, name string) ([]*Tool, error) {
	from := m.all()
	if name != "" {
		s, err := m.find(name)
		if err != nil {
			return nil, err
		}
		from = []*server{s}
	} else {
		m.Start(ctx)
	}
	all := []*Tool{}
	var problems []error
	for _, s := range from {
		if name == "" && s.Disabled {
			continue
		}
		if _, err := s.session(ctx); err != nil {
			problems = append(problems, err)
			continue
		}
		all = append(all, s.offered()...)
	}
	if name != "" && len(problems) > 0 {
		return nil, problems[0]
	}
	return all, errors.Join(problems...)
}

// Tool finds a tool by its own name, once its server is ready.
func (m *Manager) Tool(ctx context.Context, server, name string) (*Tool, error) {
	s, err := m.find(server)
	if err != nil {
		return nil, err
	}
	if _, err := s.session(ctx); err != nil {
		return nil, err
	}
	for _, t := range s.offered() {
		if t.Name == name || t.spec.Name == name {
			return t, nil
		}
	}
	return nil, fmt.Errorf("%w: the server %s has no tool %q", ErrUnknown, server, name)
}

func (m *Manager) find(name string) (*server, error) {
	for _, s := range m.all() {
		if s.Name == name || ServerPart(s.Name) == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%w: there is no MCP server %q", ErrUnknown, name)
}

// memoryPins are Pins that end with the program.
type memoryPins struct {
	mu   sync.Mutex
	pins map[string]string // guarded by mu
}

func (p *memoryPins) Pinned(server, tool string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pins[server+"\x00"+tool]
}

func (p *memoryPins) Pin(server string, tools map[string]string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pins == nil {
		p.pins = map[string]string{}
	}
	for tool, hash := range tools {
		p.pins[server+"\x00"+tool] = hash
	}
	return nil
}
