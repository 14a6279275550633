package doctor

import (
	"context"
	"net"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"symbio/agent/llm/provider"
	"symbio/cmd/symbio/internal/node"
	"symbio/discovery/dns"
	"symbio/discovery/mdns"
	"symbio/security/identity"
	"symbio/security/sandbox"
)

// World is what the checks ask. The fields that are functions are the parts of the machine that a test cannot have as
// it likes; RealWorld fills them.
type World struct {
	// Options are those of a node that would be started here now.
	Options node.Options
	// BadConfig is why the configuration cannot be used; Options then has the defaults.
	BadConfig error
	// Nodes are the nodes of this user that run on this machine.
	Nodes []Node
	// Wanted is the node that somebody asked about by name; "" = all.
	Wanted string
	// Clustered says that this machine's identity is of a cluster, not only of its user.
	Clustered bool

	Now func() time.Time
	// Built is when this program was made; zero = unknown.
	Built    time.Time
	Survey   func(mdns.Config) ([]mdns.Interface, error)
	SelfTest func(context.Context, mdns.Config) (time.Duration, error)
	MDNSPort func() (v4, v6 error)
	// Listen takes a TCP address and lets go of it.
	Listen func(addr string) error
	// Dial connects over TCP and hangs up.
	Dial     func(ctx context.Context, addr string) error
	Resolver dns.Resolver
	// Authority is the life of this user's own authority; fs.ErrNotExist while there is none.
	Authority func() (begins, ends time.Time, err error)
	// Reach returns the name of the model that a specification means, if its server answers.
	Reach func(ctx context.Context, spec string) (name string, err error)
	// Sandbox tries what this machine can do to hold a command.
	Sandbox func(context.Context) sandbox.Status
	// Refusing are the configured capabilities that it cannot hold.
	Refusing func(context.Context) ([]node.Refusing, error)
}

// Node is what a running node says.
type Node struct {
	Name, Listen string
	Peers        []Peer   // itself is among them
	Sources      []Source // where its hints about others come from
	Skills       []string // those left out, each with the reason
	Err          error    // it could not be asked
}

// Peer is a node as a running one sees it.
type Peer struct {
	ID, Name, State, Addr, Why string
	// Via is how it is reached: dialled or reversed; "" = not at all.
	Via string
	// Sources are what discovery sees it by.
	Sources  []string
	CertDays int
}

// Source is what finds other nodes for a running one.
type Source struct {
	Name     string
	Problems []string // none: it works
}

// RealWorld is this machine.
func RealWorld(o node.Options) *World {
	var once sync.Once
	var box *sandbox.Box
	held := func(ctx context.Context) *sandbox.Box {
		once.Do(func() { box = o.Holds(ctx) })
		return box
	}
	return &World{
		Options:   o,
		Clustered: o.State.InCluster(o.NodeName()) == nil,

		Now:      time.Now,
		Built:    built(),
		Survey:   mdns.Survey,
		SelfTest: mdns.SelfTest,
		MDNSPort: mdns.Port,
		Resolver: net.DefaultResolver,
		Listen: func(addr string) error {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				return err
			}
			return l.Close()
		},
		Dial: func(ctx context.Context, addr string) error {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			return c.Close()
		},
		Authority: func() (begins, ends time.Time, err error) { return identity.LocalAuthorityLife(o.State.Authority()) },
		Reach: func(ctx context.Context, spec string) (string, error) {
			list, err := provider.ParseList(spec)
			if err != nil {
				return "", err
			}
			from := node.Providers(o)
			web := node.WebClient()
			defer web.CloseIdleConnections()
			from.HTTP = web
			var names []string
			for _, s := range list {
				m, err := from.Reach(ctx, s)
				if err != nil {
					return strings.Join(names, ","), err
				}
				names = append(names, m.Name())
			}
			return strings.Join(names, ","), nil
		},
		Sandbox:  func(ctx context.Context) sandbox.Status { return held(ctx).Status() },
		Refusing: func(ctx context.Context) ([]node.Refusing, error) { return o.Refusing(held(ctx)) },
	}
}

// built is when the commit was made that this program is of.
func built() time.Time {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return time.Time{}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				return t
			}
		}
	}
	return time.Time{}
}

// beyond says that a node listens, or is to listen, where other machines reach it.
func (w *World) beyond() bool {
	for _, n := range w.Nodes {
		if n.Err == nil && !onLoopback(n.Listen) {
			return true
		}
	}
	return !onLoopback(w.Options.Config.Node.Listen)
}

// onLoopback says that an address can be reached from this machine only.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
