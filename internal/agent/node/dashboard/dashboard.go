package dashboard

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/netip"
	"sync"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/session"
	"symbio/internal/agent/node/notify"
	statedir "symbio/internal/agent/node/state"
	"symbio/internal/security/audit"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/security/permission"
	"symbio/skills"
)

// Config has the parts of the node that the dashboard uses. All fields are
// required unless their comment says otherwise.
type Config struct {
	// Name is the node's name, Identity has its certificate and cluster, and Listen is the address at
	// which other nodes reach it: its host is the host of a dashboard for the LAN.
	Name     string
	Identity *identity.Identity
	Listen   string
	// Client reaches the control API of the node.
	Client symbiov1.ControlClient
	// Append records an action before it acts. If it fails, nothing is done.
	Append func(audit.Entry) error
	// Rules returns the rules that calls of agents of a definition are held to, with where they are written.
	Rules func(definition string) []permission.LocatedRule
	// Sessions keeps the conversations; nil = they are not kept.
	Sessions *session.Journal
	// Resume goes on with the interrupted task of a session, in the background.
	Resume func(ctx context.Context, id string) (session.Info, error)
	// State is the directory of the user's nodes, and Skills says where this one searches skills.
	State  statedir.Dir
	Skills func() skills.Config
	// Events and Agents say what is sent to the targets of symbio notify; messages lead to a page. Events nil = none are sent.
	Events *event.Stream
	Agents func() []agent.Activity
	Logger *slog.Logger
}

// Dashboard serves the pages at up to two addresses: one of loopback, one of
// the LAN. It serves nothing until Open is called. Its methods may be called
// concurrently.
type Dashboard struct {
	cfg       Config
	pages     []page
	templates map[string]*template.Template
	opened    chan *site // for Run

	mu    sync.Mutex
	sites map[bool]*site // guarded by mu; by whether it is for the LAN
}

// New returns a Dashboard. The caller must call Run for it to serve.
func New(cfg Config) (*Dashboard, error) {
	d := &Dashboard{cfg: cfg, pages: pages(), opened: make(chan *site), sites: map[bool]*site{}}
	var err error
	d.templates, err = parseTemplates(d.pages)
	return d, err
}

// Run serves the addresses that Open opens, and sends messages to the targets of symbio notify, until ctx ends. It returns when
// all requests have ended.
func (d *Dashboard) Run(ctx context.Context) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	if d.cfg.Events != nil {
		notifier := notify.New(notify.Config{Node: d.cfg.Name, State: string(d.cfg.State), Events: d.cfg.Events, Agents: d.cfg.Agents,
			Link: func() string { return d.pageAddress("/approvals") }, Logger: d.cfg.Logger})
		serving.Go(func() { notifier.Run(ctx) })
	}
	for {
		select {
		case s := <-d.opened:
			serving.Go(func() { s.serve(ctx) })
		case <-ctx.Done():
			return nil
		}
	}
}

// ErrListen is returned by Open for an address at which the dashboard must not
// listen.
var ErrListen = errors.New("the dashboard cannot listen there")

// Open makes the dashboard listen, if it does not yet, and returns an address
// with a token that can be used once. It waits until Run runs. The error is
// ErrListen or one of listening.
func (d *Dashboard) Open(ctx context.Context, r *symbiov1.DashboardRequest) (*symbiov1.DashboardReply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sites[r.GetLan()]
	if s == nil {
		addr, err := d.address(r)
		if err != nil {
			return nil, err
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("opening the dashboard: %w; choose another address: with --listen of `symbio dashboard`, with --dashboard of `symbio up`, or with the key dashboard", err)
		}
		if s, err = newSite(d, l, r.GetLan()); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		select {
		case d.opened <- s:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), l.Close())
		}
		d.sites[r.GetLan()] = s
	}
	return &symbiov1.DashboardReply{Url: s.origin() + "/login?token=" + s.tokens.create(""), Fingerprint: s.print}, nil
}

// pageAddress returns the address of a page, such as /approvals, which asks for a login; "" if the dashboard does not listen. Of
// two it is the one of the LAN.
func (d *Dashboard) pageAddress(page string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, lan := range []bool{true, false} {
		if s := d.sites[lan]; s != nil {
			return s.origin() + page
		}
	}
	return ""
}

// address returns where to listen: on loopback, or for the LAN on one address
// of a node that is in a cluster.
func (d *Dashboard) address(r *symbiov1.DashboardRequest) (string, error) {
	addr := r.GetListen()
	if addr == "" && r.GetLan() {
		host, _, _ := net.SplitHostPort(d.cfg.Listen)
		addr = net.JoinHostPort(host, "0")
	} else if addr == "" {
		addr = "127.0.0.1:0"
	}
	at, err := netip.ParseAddrPort(addr)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %q is not IP:PORT, such as 127.0.0.1:7950", ErrListen, addr)
	case !r.GetLan() && !at.Addr().IsLoopback():
		return "", fmt.Errorf("%w: %s is not of this machine alone; --lan serves other machines, by TLS", ErrListen, addr)
	case r.GetLan() && d.cfg.Identity.Authority() == identity.Local:
		return "", fmt.Errorf("%w: --lan needs the authority of a cluster for TLS; create one with `symbio cluster init`", ErrListen)
	case r.GetLan() && (at.Addr().IsUnspecified() || at.Addr().IsLoopback()):
		return "", fmt.Errorf("%w: --lan needs one address of this machine in the LAN; name it with --listen IP:PORT", ErrListen)
	}
	return addr, nil
}
