package mcp

import (
	"cmp"
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
	// ErrUnknown is returned for a server, or a tool of a server, that does not exist.
	ErrUnknown = errors.New("not known")
	// ErrNotReady is returned when a server cannot be reached now; the text says why.
	ErrNotReady = errors.New("the MCP server is not there")
)

// State is the connection state of a server.
type State string

// The states. A Stopped server starts when it is first needed. A Failed one is tried again after a
// delay.
const (
	Stopped  State = "stopped"
	Starting State = "starting"
	Ready    State = "ready"
	Failed   State = "failed"
)

// Status describes a server at one moment.
type Status struct {
	Server Server `json:"server"`
	State  State  `json:"state"`
	// Why says the fault, with the end of the program's standard error, or a note
	// that the start takes long; "" if neither.
	Why string `json:"why,omitempty"`
	// Tools is the number of tools, and Names are those that models call. Notes say what was left out
	// of the server's lists.
	Tools int      `json:"tools"`
	Names []string `json:"-"`
	Notes []string `json:"notes,omitempty"`
}

// Pins stores the hash of each tool as it was first listed or last accepted. Methods may be called
// from many goroutines.
type Pins interface {
	// Pinned returns the hash of a tool of the server with that Server.Hash; "" if there is none.
	Pinned(server, tool string) string
	// Pin stores the hashes of tools by their names.
	Pin(server string, tools map[string]string) error
}

// Config sets up a Manager. The zero value has no servers.
type Config struct {
	// Servers are the servers of all files, the user's own first. Of two with the same name the
	// first counts.
	Servers []Server
	// Trusted reports whether a person trusts an entry of a project. Default: no entry is trusted.
	Trusted func(Server) bool
	// Box returns the sandbox of a server's program. Default: sandbox.Standard in the working
	// directory of the process; an entry with a sandbox of its own is then not started.
	Box func(Server) (Box, error)
	// Root is the directory that programs are told is their root. Default: they are told of none.
	Root string
	// HTTP sends the requests of HTTP and SSE servers. Default: http.DefaultTransport.
	HTTP http.RoundTripper
	// Pins stores the hashes of tools. Default: in memory, until the Manager ends.
	Pins Pins
	// Logins keeps the logins at HTTP servers. Default: no server has one.
	Logins Logins
	// StartTimeout limits a start: the program, the handshake and the lists. Default: 30 s, which
	// the cold start of a large interpreted program needs on a small machine.
	StartTimeout time.Duration
	// CallTimeout limits a call. Default: 5 minutes, like calls between nodes.
	CallTimeout time.Duration
	// Report is called at each change of a server, from many goroutines. It must not block.
	// Default: no report.
	Report func(Status)
	// Version is the version of this program, which the handshake sends to servers.
	Version string
	// Logger gets what servers do wrong. Default: silent.
	Logger *slog.Logger
}

// Manager owns the connections to the servers. Its methods may be called from many goroutines. They
// need Run to be running, or Open to have been called. Only the owner calls Run, Open and Close.
type Manager struct {
	// cfg has all defaults set. It is not written to after New.
	cfg Config
	// open opens a connection to a server. It is dial, except in tests.
	open func(context.Context, Server) (*link, error)
	// changed holds a token when unstarted has new servers.
	changed chan struct{}
	// cancel ends Run. It is set by Open and nil without it.
	cancel func()
	// running waits for the goroutine of Open.
	running sync.WaitGroup

	// mu guards the fields below.
	mu sync.Mutex
	// servers are in the order of their entries. The slice is replaced and never written to.
	servers []*server
	// unstarted are the servers for which Run has not started a goroutine yet.
	unstarted []*server
	// ended is true when Run has ended. Servers that come later are stopped at once.
	ended bool
}

// New returns a Manager with defaults for the unset fields of cfg. It starts nothing.
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
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Box == nil {
		cfg.Box = defaultBox()
	}
	cfg.Pins = cmp.Or[Pins](cfg.Pins, new(memoryPins))
	m := &Manager{cfg: cfg, changed: make(chan struct{}, 1)}
	m.open = m.dial
	m.SetServers(cfg.Servers)
	return m
}

// Run runs the servers until ctx ends. It then stops them, and returns nil when all that they
// started has ended. It starts one goroutine for each server; SetServers adds more while Run runs.
func (m *Manager) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		m.mu.Lock()
		fresh := m.unstarted
		// Both are set under one lock: a server that comes now is either in fresh or sees ended.
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

// Status returns the state of each server, in the order of their files.
func (m *Manager) Status() []Status {
	servers := m.all()
	all := make([]Status, 0, len(servers))
	// All starts are requested before the first is awaited, so that they run in parallel.
	for _, s := range servers {
		all = append(all, s.status())
	}
	return all
}

// Start starts all stopped servers in parallel. It returns when each is ready or has failed once,
// or when ctx ends.
func (m *Manager) Start(ctx context.Context) {
	servers := m.all()
	for _, s := range servers {
		s.requestStart()
	}
	for _, s := range servers {
		s.connection.awaitStart(ctx, true)
	}
}

// Tools returns the tools that agents have now, and why the tools of other servers are missing, by their ToolPrefix. The first
// call starts the servers and waits for them up to turnWait; with wait, until each is ready or has failed. Tools of a
// slower server come with a later call; Report is then called with the state Starting. A server that is reconnecting
// keeps its tools.
func (m *Manager) Tools(ctx context.Context, wait bool) (all []tool.Tool, missing map[string]string) {
	servers := m.all()
	for _, s := range servers {
		s.requestStart()
	}
	missing = map[string]string{}
	for _, s := range servers {
		s.awaitTurn(ctx, wait)
		for _, r := range s.offered() {
			all = append(all, r)
		}
		if why := s.missing(); why != "" {
			missing[ToolPrefix(s.entry.Name)] = why
		}
	}
	return all, missing
}

// ToolsOf starts one server, waits until it is ready, and returns its tools. It returns ErrUnknown
// or ErrNotReady. name "" means all servers that are not disabled; the error then joins the reasons
// of those that are not ready, and the tools of the others are returned with it.
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
		if name == "" && s.entry.Disabled {
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

// Tool returns a tool by the server's name for it or by its full name. It starts the server and
// waits until it is ready. It returns ErrUnknown or ErrNotReady.
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

// find returns the server with that name, or with that part of tool names. It returns ErrUnknown if
// there is none.
func (m *Manager) find(name string) (*server, error) {
	for _, s := range m.all() {
		if s.entry.Name == name || ServerPart(s.entry.Name) == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%w: there is no MCP server %q", ErrUnknown, name)
}

// memoryPins are Pins that end with the program.
type memoryPins struct {
	// pins has the hashes by Server.Hash and the tool's name, separated by a NUL.
	pins sync.Map
}

func (p *memoryPins) Pinned(server, tool string) string {
	hash, _ := p.pins.Load(server + "\x00" + tool)
	text, _ := hash.(string)
	return text
}

func (p *memoryPins) Pin(server string, tools map[string]string) error {
	for tool, hash := range tools {
		p.pins.Store(server+"\x00"+tool, hash)
	}
	return nil
}
