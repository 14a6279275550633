package state

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"symbio/internal/security/private"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// ClusterListen is the default listen address of a node of a cluster: all
// addresses, so that other machines reach it, and a fixed port, so that it can
// be written into configurations.
const ClusterListen = ":7946"

// loopbackListen is the default listen address of a node outside of clusters.
const loopbackListen = "127.0.0.1:0"

// ErrNoCluster says that a node is in no cluster, ErrNoAuthority that the
// authority is elsewhere.
var (
	ErrNoCluster   = errors.New("this node is in no cluster\nCreate one with `symbio cluster init`, or join one with the line that `symbio cluster token` prints")
	ErrNoAuthority = errors.New("the cluster's authority is not on this machine\nRun this on the machine where `symbio cluster init` ran, or on one that was promoted")
)

// Cluster returns the directory of the authority of a cluster that was made, or
// promoted, on this machine.
func (s Dir) Cluster() string { return filepath.Join(string(s), "cluster") }

// member returns the directory with the node's certificate of its cluster.
func (n Node) member() string { return filepath.Join(n.path(), "cluster") }

// clusterSettings are the flags of the init or join that made the node a
// member.
type clusterSettings struct {
	Listen string `json:"listen"`
}

// settingsFile returns the file of clusterSettings.
func (n Node) settingsFile() string { return filepath.Join(n.member(), "settings.json") }

// checkListen returns an error unless addr can be a listen address. It runs
// before anything is written that depends on the address.
func checkListen(addr string) error {
	if addr == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("listen address %q: want HOST:PORT, or :PORT for every address: %w", addr, err)
	}
	return nil
}

// saveSettings writes the settings in one step, so that a crash leaves the old
// or the new ones.
func (n Node) saveSettings(v clusterSettings) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return private.Replace(n.settingsFile(), data)
}

// ListenAddr returns where the node listens if neither configuration nor flags
// say: the address of init or join in a cluster, else loopback.
func (n Node) ListenAddr() (string, error) {
	data, err := os.ReadFile(n.settingsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return loopbackListen, nil
	}
	if err != nil {
		return "", err
	}
	var v clusterSettings
	if err := json.Unmarshal(data, &v); err != nil {
		return "", fmt.Errorf("%s is damaged; move it away: %w", n.settingsFile(), err)
	}
	if v.Listen == "" {
		return ClusterListen, nil
	}
	return v.Listen, nil
}

// OpenCluster returns the cluster whose authority is on this machine, or
// ErrNoAuthority.
func (s Dir) OpenCluster() (*identity.Cluster, error) {
	c, err := identity.OpenCluster(s.Cluster())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoAuthority
	}
	return c, err
}

// Identity returns the identity of the node: the identity in the cluster which it has
// joined, or whose authority is on this machine, else one of the user's own
// authority. It makes key and certificate if they are missing.
func (n Node) Identity() (*identity.Identity, error) {
	key, err := identity.LoadOrCreateKey(n.Key())
	if err != nil {
		return nil, err
	}
	c, none := n.dir.OpenCluster()
	if none != nil && !errors.Is(none, ErrNoAuthority) {
		return nil, none
	}
	open := identity.OpenMember
	if none == nil {
		open = c.OpenMember
	}
	i, err := open(n.member(), key) // first: a joined membership wins over a local authority
	if !errors.Is(err, fs.ErrNotExist) {
		return i, err
	}
	if none == nil {
		return c.Issue(key, n.name)
	}
	authority, err := identity.OpenLocalAuthority(n.dir.Authority())
	if err != nil {
		return nil, err
	}
	return authority.Issue(key)
}

// InCluster returns nil if the node is a member of a cluster, and ErrNoCluster
// if it is not or does not exist.
func (n Node) InCluster() error {
	if _, err := os.Stat(n.Key()); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("node %s has not run here yet: %w", n.name, ErrNoCluster)
	}
	if _, err := n.dir.OpenCluster(); !errors.Is(err, ErrNoAuthority) {
		return err
	}
	_, err := identity.MemberOf(n.member())
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoCluster
	}
	return err
}

// InitCluster makes a cluster on this machine with this node as its first
// member. listen is where the node listens; "" is ClusterListen. It returns an
// error if the node is a member already, or the machine has an authority.
func (n Node) InitCluster(cluster, listen string) (*identity.Identity, error) {
	if err := checkName(n.name); err != nil {
		return nil, err
	}
	if other, err := identity.MemberOf(n.member()); err == nil {
		return nil, fmt.Errorf("node %s is a member of cluster %s already; to leave it: symbio cluster leave --node %s", n.name, other, n.name)
	}
	if err := checkListen(listen); err != nil {
		return nil, err
	}
	_, err := identity.CreateCluster(n.dir.Cluster(), cluster)
	if errors.Is(err, identity.ErrClusterExists) {
		return nil, fmt.Errorf("%w; `symbio cluster token` lets another node join it", err)
	}
	if err != nil {
		return nil, err
	}
	if err := n.saveSettings(clusterSettings{Listen: listen}); err != nil {
		return nil, err
	}
	return n.Identity()
}

// JoinCluster makes the node a member of the cluster of the token. addr is where
// dial reaches a node that holds the authority. Joining the same cluster again renews the
// membership; another cluster is an error.
func (n Node) JoinCluster(ctx context.Context, listen, addr string, token identity.Token,
	dial func(ctx context.Context, addr string) (net.Conn, error)) (*identity.Admission, error) {
	if err := checkName(n.name); err != nil {
		return nil, err
	}
	if err := checkListen(listen); err != nil {
		return nil, err
	}
	if c, err := n.dir.OpenCluster(); err == nil {
		return nil, fmt.Errorf("this machine holds the authority of cluster %s, and a node is in one cluster only", c.Name())
	}
	other, err := identity.MemberOf(n.member())
	if err == nil && !token.Fits(n.member()) {
		return nil, fmt.Errorf("node %s is a member of another cluster, %s; to leave it: symbio cluster leave --node %s", n.name, other, n.name)
	}
	key, err := identity.LoadOrCreateKey(n.Key())
	if err != nil {
		return nil, err
	}
	a, err := grpcpeer.Enrol(ctx, addr, token, key, n.name, dial)
	if err != nil {
		return nil, err
	}
	if err := n.saveSettings(clusterSettings{Listen: listen}); err != nil {
		return nil, err
	}
	return a, a.Save(n.member())
}

// LeaveCluster makes the node, which must not run, a node outside of clusters
// again, with a new key. The old key and certificate are moved to the directory
// kept, so that a mistake can be undone. The authority of a machine stays while
// another node of it is of the cluster. Else it goes there, too, if another
// machine holds it or no other node is left, and if not that machine cannot
// leave. advice says where it is, and how to join.
func (n Node) LeaveCluster() (cluster, kept, advice string, err error) {
	cluster, err = identity.MemberOf(n.member())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", "", err
	}
	advice = "the node gets a new key when it starts or joins; to join, run `symbio cluster token` where the authority is, and here the line that it prints"
	var moves [][2]string
	var left *identity.Cluster // whose authority stays here
	switch c, err := n.dir.OpenCluster(); {
	case errors.Is(err, ErrNoAuthority) && cluster == "":
		return "", "", "", ErrNoCluster
	case errors.Is(err, ErrNoAuthority) || err == nil && cluster != "" && cluster != c.Name(): // it has no part in it
	case err != nil:
		return "", "", "", err
	default:
		cluster = c.Name()
		switch holder, err := n.dir.mayGiveUp(c, n.name); {
		case err != nil:
			return "", "", "", err
		case holder != "":
			left = c
			advice = fmt.Sprintf("the authority of cluster %s stays on this machine, for node %s; as long as it is here, a node that starts here is of that cluster, and so this one again, with a new key", cluster, holder)
		default:
			advice = "the authority that was on this machine is kept with the old key, in authority; " + advice
			moves = append(moves, [2]string{n.dir.Cluster(), "authority"})
		}
	}
	release, err := n.Lock()
	if err != nil {
		return "", "", "", fmt.Errorf("%w; stop it first", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	if left != nil {
		if err := n.dir.noteLeft(left, n.name); err != nil {
			return "", "", "", err
		}
	}
	kept = filepath.Join(n.path(), "left-"+cluster+"-"+time.Now().UTC().Format("20060102T150405Z"))
	if err := os.Mkdir(kept, 0o700); err != nil {
		return "", "", "", err
	}
	// The authority goes first, since with it the node would get a certificate at
	// its start. Without its key a node can do nothing with the rest, and a second
	// try takes that.
	for _, move := range append(moves, [2]string{n.Key(), filepath.Base(n.Key())}, [2]string{n.member(), filepath.Base(n.member())}) {
		if err := os.Rename(move[0], filepath.Join(kept, move[1])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", "", "", err
		}
	}
	return cluster, kept, advice, nil
}

// noteLeft records in a cluster whose authority is on this machine that the node of that name leaves it.
func (s Dir) noteLeft(c *identity.Cluster, name string) error {
	key, err := identity.LoadOrCreateKey(s.Node(name).Key())
	if err != nil {
		return err
	}
	return c.Ledger().NoteLeft(key.ID())
}

// Demote takes the authority of a cluster from this machine, whose nodes stay members. Those that run have to reload. The
// caller makes sure that another machine holds it.
func (s Dir) Demote(c *identity.Cluster) error {
	keys := map[string]*identity.Key{}
	for _, name := range s.names() {
		key, err := identity.LoadOrCreateKey(s.Node(name).Key())
		if err != nil {
			return err
		}
		keys[s.Node(name).member()] = key
	}
	return c.Ledger().GiveUp(keys)
}

// mayGiveUp returns the other node of this machine that is of the cluster, for which the authority stays when that node leaves.
// Without one it returns an error unless another machine holds the authority, or the cluster has no other node.
func (s Dir) mayGiveUp(c *identity.Cluster, leaving string) (holder string, err error) {
	nodes, err := c.Nodes()
	own, ownErr := s.OwnIDs()
	if err = errors.Join(err, ownErr); err != nil {
		return "", err
	}
	others, held := 0, false
	for _, r := range nodes {
		name, mine := own[r.ID]
		if r.Removed || mine && name == leaving {
			continue
		}
		if mine {
			return name, nil
		}
		held = held || r.IsHolder()
		if !r.IsGone(time.Now(), AddressLife) {
			others++
		}
	}
	if held || others == 0 {
		return "", nil
	}
	return "", fmt.Errorf("this machine holds the authority of cluster %s, and without it no node is let in, renewed or removed; give it to another with `symbio cluster promote NODE`, then leave", c.Name())
}

// Outsider returns advice if other machines do not reach this node though a
// cluster is on this one: it is in no cluster while another node here is, or it
// listens on loopback because the cluster was made for another node. That is
// mostly a mistake in a name, so the advice names the other node and how to
// start it. It returns "" otherwise.
func (n Node) Outsider(listens string) string {
	if n.InCluster() == nil {
		at, err := netip.ParseAddrPort(listens)
		own, ownErr := n.ListenAddr()
		if err != nil || ownErr != nil || !at.Addr().IsLoopback() || own != loopbackListen {
			return ""
		}
		advice := fmt.Sprintf("node %s listens on this machine only, so other machines do not reach it: start it with --listen %s, or the key node.listen", n.name, ClusterListen)
		for _, other := range n.dir.names() {
			c, err := n.dir.OpenCluster()
			if at, bad := n.dir.Node(other).ListenAddr(); err == nil && bad == nil && at != loopbackListen {
				return fmt.Sprintf("this machine is node %s of cluster %s: %s; %s", other, c.Name(), control{n.dir.Node(other)}.start(), advice)
			}
		}
		return advice
	}
	for _, other := range n.dir.names() {
		if cluster, err := identity.MemberOf(n.dir.Node(other).member()); err == nil {
			return fmt.Sprintf("this machine is node %s of cluster %s, and node %s is not of that cluster: %s; to make %[3]s one of its nodes, run `symbio cluster token` where the authority is, then here: symbio --node %[3]s cluster join TOKEN ADDRESS",
				other, cluster, n.name, control{n.dir.Node(other)}.start())
		}
	}
	return ""
}

// Process returns which process runs a node, in which cluster and since when, for people; "" if none answers within
// controlTimeout.
func (s Dir) Process(node string) string { return control{s.Node(node)}.process() }

// control calls a node, if it runs.
type control struct{ node Node }

// start returns how to start the node, or that it runs.
func (c control) start() string {
	return cmp.Or(c.process(), fmt.Sprintf("to be %s, run `symbio up --name %[1]s`", c.node.name))
}

func (c control) process() string {
	var r *symbiov1.StatusReply
	err := c.call(context.Background(), func(ctx context.Context, to symbiov1.ControlClient) (err error) {
		r, err = to.Status(ctx, &symbiov1.StatusRequest{})
		return err
	})
	if err != nil {
		return ""
	}
	cluster := "cluster " + r.GetAuthority()
	if r.GetAuthority() == identity.Local {
		cluster = "no cluster"
	}
	return fmt.Sprintf("it runs as process %d, in %s, since %s", r.GetPid(), cluster, r.GetStarted().AsTime().Local().Format(time.DateTime))
}

// call ends after controlTimeout.
func (c control) call(ctx context.Context, f func(context.Context, symbiov1.ControlClient) error) error {
	conn, err := c.node.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	return f(ctx, symbiov1.NewControlClient(conn))
}

// names returns the names of this user's nodes on this machine, sorted; none if a key cannot be read.
func (s Dir) names() []string {
	own, _ := s.OwnIDs()
	return slices.Sorted(maps.Values(own))
}

// Belongs returns the identity of the node if it is a member of the token's
// cluster with a valid certificate, and nil if it has to join.
func (n Node) Belongs(token identity.Token) *identity.Identity {
	if !token.Fits(n.member()) {
		return nil
	}
	i, err := n.Membership()
	if err != nil || i.Expired() {
		return nil
	}
	return i
}

// Membership returns the stored identity of a node that has joined a cluster;
// fs.ErrNotExist if it has joined none. The certificate may have expired.
func (n Node) Membership() (*identity.Identity, error) {
	if _, err := identity.MemberOf(n.member()); err != nil {
		return nil, err
	}
	key, err := identity.LoadOrCreateKey(n.Key())
	if err != nil {
		return nil, err
	}
	return identity.OpenMember(n.member(), key)
}

// OwnIDs returns the names of this user's nodes on this machine by their ids.
func (s Dir) OwnIDs() (map[identity.NodeID]string, error) {
	files, err := filepath.Glob(filepath.Join(string(s), "nodes", "*", "key.pem"))
	if err != nil {
		return nil, err
	}
	own := map[identity.NodeID]string{}
	for _, f := range files {
		k, err := identity.LoadOrCreateKey(f)
		if err != nil {
			return nil, err
		}
		own[k.ID()] = filepath.Base(filepath.Dir(f))
	}
	return own, nil
}

// controlTimeout bounds a call of a running node.
const controlTimeout = 5 * time.Second

// Reload makes the running node read its cluster files again. running reports
// whether the node runs at all.
func (n Node) Reload(ctx context.Context) (running bool, err error) {
	all, err := n.dir.Running()
	if err != nil || !slices.Contains(all, n.name) {
		return false, err
	}
	return true, control{n}.call(ctx, func(ctx context.Context, c symbiov1.ControlClient) error {
		_, err := c.Reload(ctx, &symbiov1.ReloadRequest{})
		return err
	})
}
