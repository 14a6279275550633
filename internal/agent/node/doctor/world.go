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
	"symbio/discovery/dns"
	"symbio/discovery/mdns"
	"symbio/internal/agent/node/exec"
	"symbio/internal/agent/node/models"
	"symbio/internal/agent/node/peers"
	statedir "symbio/internal/agent/node/state"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// World is the machine as the checks see it. The fields that are functions are
// the parts of the machine that a test replaces; RealWorld fills them.
type World struct {
	// Options are the options of a node that would be started here now.
	Options node.Config
	// BadConfig is why the configuration cannot be used; Options then has the
	// defaults.
	BadConfig error
	// Nodes are the nodes of this user that run on this machine.
	Nodes []Node
	// Wanted is the name of the node that the person asked about; "" = all.
	Wanted string
	// Clustered reports whether this machine's node is a member of a cluster.
	Clustered bool
	// Member returns why the stored certificate of this machine's node is not
	// valid in its cluster. nil = it is valid, or there is none.
	Member func() error

	// Now returns the time; tests replace it to check dates.
	Now func() time.Time
	// Built is the time of the commit that this program was built from; zero =
	// unknown.
	Built time.Time
	// Survey, SelfTest and MDNSPort are the functions of package mdns (Port for the last). Survey and
	// MDNSPort send nothing.
	Survey   func(mdns.Config) ([]mdns.Interface, error)
	SelfTest func(context.Context, mdns.Config) (time.Duration, error)
	MDNSPort func() (v4, v6 error)
	// Listen opens a TCP address and closes it.
	Listen func(addr string) error
	// Dial opens a TCP connection, or the WebSocket of a URL, and closes it.
	Dial func(ctx context.Context, addr string) error
	// Resolver looks up the names of discovery.peers and discovery.dns.
	Resolver dns.Resolver
	// Authority returns the validity of this user's own authority;
	// fs.ErrNotExist if there is none yet.
	Authority func() (begins, ends time.Time, err error)
	// Reach returns the names of the models of a specification if their servers
	// answer.
	Reach func(ctx context.Context, spec string) (name string, err error)
	// Kept is Options.Kept: how commands are kept from denied files, and whether the operating
	// system enforces it.
	Kept func(context.Context, *permission.FileDenials) (how string, bySystem bool)
	// Sandbox probes which sandbox this machine has.
	Sandbox func(context.Context) sandbox.Status
	// Looks returns why this machine has no box for commands that only look; nil = it has.
	Looks func(context.Context) error
	// Refusing returns the configured capabilities that this sandbox cannot
	// enforce.
	Refusing func(context.Context) ([]exec.Refusal, error)
}

// Node is what a running node reports over its control socket. With Err set, the other fields after
// Name may be nil; the generated getters accept that.
type Node struct {
	Name   string
	Status *symbiov1.StatusReply
	// Peers are the known nodes; the node itself is among them, in the state "self".
	Peers []*symbiov1.Node
	// Skills has the invalid skills and the notes about others.
	Skills *symbiov1.SkillsReply
	// Err is why the node could not be asked; nil = all three calls succeeded.
	Err error
}

// askTimeout bounds the questions to one node of this machine. A healthy node
// answers in milliseconds.
const askTimeout = 2 * time.Second

// askNodes asks the running nodes of this user at the same time, or only the one called wanted. It
// takes askTimeout at most. The result has the order of the names.
func askNodes(ctx context.Context, s statedir.Dir, wanted string) []Node {
	names, err := s.Running()
	if err != nil {
		return nil // the check of the state directory reports that
	}
	if wanted != "" {
		names = slices.DeleteFunc(names, func(n string) bool { return n != wanted })
	}
	return each(names, func(name string) Node { return askNode(ctx, s, name) })
}

// askNode asks one node for its status, its peers and its skills. A node that does not answer is a
// result, too: Err says why.
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
		// The gRPC code would mean nothing to the reader of the finding.
		out.Err = errors.New(status.Convert(err).Message())
	}
	return out
}

// RealWorld returns this machine, with the running nodes of this user: the wanted one, or with ""
// all of them. It asks the nodes before it returns. The other fields are evaluated when a check
// calls them, from several goroutines at once. The sandbox is probed once, by the first check that
// needs it.
func RealWorld(ctx context.Context, o node.Config, wanted string) *World {
	// The probe takes some milliseconds, and three of the fields need it.
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
			// fs.ErrNotExist: this machine's node is in no cluster.
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
		Built:    buildTime(),
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
			c, err := peers.Dial(ctx, o.Settings.Discovery, addr)
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
			from := models.Providers(o.Settings, o.Getenv, o.Models)
			// The client is closed at the end: its idle connections would keep goroutines.
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
		Sandbox: func(ctx context.Context) sandbox.Status { return held(ctx).Status() },
		Looks:   func(ctx context.Context) error { return held(ctx).Looks() },
		Kept:    func(ctx context.Context, d *permission.FileDenials) (string, bool) { return o.Kept(held(ctx), d) },
		Refusing: func(ctx context.Context) ([]exec.Refusal, error) {
			return o.ConfiguredRunner("refusals").Refusals(o.Settings.Capabilities, func() (*sandbox.Box, error) { return held(ctx), nil })
		},
	}
}

// buildTime returns the time of the commit that this program was built from. It is zero if the
// build has no version control information, as with go run or -buildvcs=false.
func buildTime() time.Time {
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

// listensOnLAN reports whether a running node listens, or a new one is configured to listen, on an
// address that other machines reach.
func (w *World) listensOnLAN() bool {
	for _, n := range w.Nodes {
		if n.Err == nil && !onLoopback(n.Status.GetListen()) {
			return true
		}
	}
	return !onLoopback(w.Options.Settings.Node.Listen)
}

// onLoopback reports whether an address can be reached from this machine only. Names other than
// localhost and malformed addresses count as reachable from elsewhere.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
