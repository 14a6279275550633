package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	"symbio/agent/llm/provider"
	"symbio/agent/node"
	"symbio/agent/node/exec"
	"symbio/agent/node/models"
	statedir "symbio/agent/node/state"
	"symbio/discovery/dns"
	"symbio/discovery/mdns"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// World is what the checks ask. The fields that are functions are the parts of the machine that a test cannot have as
// it likes; RealWorld fills them.
type World struct {
	// Options are those of a node that would be started here now.
	Options node.Config
	// BadConfig is why the configuration cannot be used; Options then has the defaults.
	BadConfig error
	// Nodes are the nodes of this user that run on this machine.
	Nodes []Node
	// Wanted is the node that somebody asked about by name; "" = all.
	Wanted string
	// Clustered says that this machine's identity is of a cluster, not only of its user.
	Clustered bool
	// Member is why the certificate of this machine's node, as it is kept, is not good in its cluster; nil = it is, or
	// there is none.
	Member func() error

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
	// Kept is Options.Kept.
	Kept func(context.Context, *permission.Denied) (how string, bySystem bool)
	// Sandbox tries what this machine can do to hold a command.
	Sandbox func(context.Context) sandbox.Status
	// Refusing are the configured capabilities that it cannot hold.
	Refusing func(context.Context) ([]exec.Refusal, error)
}

// Node is what a running node says.
type Node struct {
	Name   string
	Status *symbiov1.StatusReply
	Peers  []*symbiov1.Node // the node itself is among them
	Skills *symbiov1.SkillsReply
	Err    error // why it could not be asked
}

// askTimeout is how long a node of this machine has to answer: a healthy one does in milliseconds.
const askTimeout = 2 * time.Second

// askNodes asks the running nodes of this user what they know, all at the same time: those that are wanted, or every one.
func askNodes(ctx context.Context, s statedir.Dir, wanted string) []Node {
	names, err := s.Running()
	if err != nil {
		return nil // the state directory cannot be read, which has a check of its own
	}
	if wanted != "" {
		names = slices.DeleteFunc(names, func(n string) bool { return n != wanted })
	}
	nodes := make([]Node, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() { nodes[i] = askNode(ctx, s, name) })
	}
	asking.Wait()
	return nodes
}

func askNode(ctx context.Context, s statedir.Dir, name string) Node {
	out := Node{Name: name}
	conn, err := s.Node(name).Dial()
	if err != nil {
		out.Err = err
		return out
	}
	defer conn.Close()
	client := symbiov1.NewControlClient(conn)
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if out.Status, err = client.Status(ctx, &symbiov1.StatusRequest{}); err == nil {
		var nodes *symbiov1.NodesReply
		nodes, err = client.Nodes(ctx, &symbiov1.NodesRequest{})
		out.Peers = nodes.GetNodes()
	}
	if err == nil {
		out.Skills, err = client.Skills(ctx, &symbiov1.SkillsRequest{})
	}
	if err != nil {
		out.Err = errors.New(status.Convert(err).Message())
	}
	return out
}

// RealWorld is this machine, with the running nodes of this user: the wanted one, or with "" all of them.
func RealWorld(ctx context.Context, o node.Config, wanted string) *World {
	var once sync.Once
	var box *sandbox.Box
	held := func(ctx context.Context) *sandbox.Box {
		once.Do(func() { box = o.Holds(ctx) })
		return box
	}
	return &World{
		Options:   o,
		Wanted:    wanted,
		Nodes:     askNodes(ctx, o.State, wanted),
		Clustered: o.State.Node(o.NodeName()).InCluster() == nil,
		Member: func() error {
			i, err := o.State.Node(o.NodeName()).Membership()
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			}
			return i.Overdue()
		},

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
			from := o.Providers()
			web := models.WebClient()
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
		Kept:     func(ctx context.Context, d *permission.Denied) (string, bool) { return o.Kept(held(ctx), d) },
		Refusing: func(ctx context.Context) ([]exec.Refusal, error) { return o.Refusals(held(ctx)) },
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
		if n.Err == nil && !onLoopback(n.Status.GetListen()) {
			return true
		}
	}
	return !onLoopback(w.Options.Settings.Node.Listen)
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
