package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/security/private"
	"symbio/transport/grpcpeer"
)

// ClusterListen is where a node of a cluster listens when it is told nothing else: on every address, so
// that the nodes on other machines reach it, and on a port that can be written down.
const ClusterListen = ":7946"

// loopbackListen is where a node listens that is in no cluster and told nothing else.
const loopbackListen = "127.0.0.1:0"

// ErrNoCluster says that a node is in no cluster, ErrNoAuthority that the authority is elsewhere.
var (
	ErrNoCluster   = errors.New("this node is in no cluster\nMake one with: symbio cluster init\nor join one with the line that that prints")
	ErrNoAuthority = errors.New("the cluster's authority is not on this machine\nRun this on the machine where `symbio cluster init` ran, or on one that was promoted")
)

// cluster is the directory of the authority of a cluster that was made here, or given to a node here.
func (s State) cluster() string { return filepath.Join(s.Dir, "cluster") }

// member is the directory of what a node has from its cluster.
func (s State) member(name string) string { return filepath.Join(s.node(name), "cluster") }

// settings are what was said when the node came to be of a cluster.
type settings struct {
	Listen string `json:"listen"`
}

func (s State) settingsFile(name string) string {
	return filepath.Join(s.member(name), "settings.json")
}

// checkListen refuses an address before anything is made that would rest on it.
func checkListen(addr string) error {
	if addr == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("listen address %q: want HOST:PORT, or :PORT for every address: %w", addr, err)
	}
	return nil
}

func (s State) saveSettings(name string, v settings) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return private.Replace(s.settingsFile(name), data)
}

// ListenOf is where the node of that name listens unless it is told otherwise.
func (s State) ListenOf(name string) (string, error) {
	data, err := os.ReadFile(s.settingsFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return loopbackListen, nil
	}
	if err != nil {
		return "", err
	}
	var v settings
	if err := json.Unmarshal(data, &v); err != nil {
		return "", fmt.Errorf("%s is damaged; move it away: %w", s.settingsFile(name), err)
	}
	if v.Listen == "" {
		return ClusterListen, nil
	}
	return v.Listen, nil
}

// OpenCluster returns the cluster whose authority is on this machine; ErrNoAuthority when it is
// elsewhere or nowhere.
func (s State) OpenCluster() (*identity.Cluster, error) {
	c, err := identity.OpenCluster(s.cluster())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoAuthority
	}
	return c, err
}

// Identity is that of the node of that name: of the cluster that the node has joined or that was made on
// this machine, else of the user's own authority on this machine.
func (s State) Identity(name string) (*identity.Identity, error) {
	key, err := identity.LoadOrCreateKey(s.Key(name))
	if err != nil {
		return nil, err
	}
	c, none := s.OpenCluster()
	if none != nil && !errors.Is(none, ErrNoAuthority) {
		return nil, none
	}
	open := identity.OpenMember
	if none == nil {
		open = c.OpenMember
	}
	i, err := open(s.member(name), key) // first: a node that has joined stays where it is
	if !errors.Is(err, fs.ErrNotExist) {
		return i, err
	}
	if none == nil {
		return c.Issue(key, name)
	}
	authority, err := identity.OpenLocalAuthority(s.Authority())
	if err != nil {
		return nil, err
	}
	return authority.Issue(key)
}

// InCluster says, as ErrNoCluster, when the node of that name is in no cluster, or when there is none
// of that name.
func (s State) InCluster(name string) error {
	if _, err := os.Stat(s.Key(name)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("node %s has not run here yet: %w", name, ErrNoCluster)
	}
	if _, err := s.OpenCluster(); !errors.Is(err, ErrNoAuthority) {
		return err
	}
	if _, _, err := identity.MemberOf(s.member(name)); errors.Is(err, fs.ErrNotExist) {
		return ErrNoCluster
	} else if err != nil {
		return err
	}
	return nil
}

// InitCluster makes a cluster on this machine, and the node of that name its first. listen is where
// that node is to listen; "" is ClusterListen.
func (s State) InitCluster(name, cluster, listen string) (*identity.Identity, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if other, _, err := identity.MemberOf(s.member(name)); err == nil {
		return nil, fmt.Errorf("node %s is a member of cluster %s already; to leave it, move %s away", name, other, s.member(name))
	}
	if err := checkListen(listen); err != nil {
		return nil, err
	}
	_, err := identity.CreateCluster(s.cluster(), cluster)
	if errors.Is(err, identity.ErrClusterExists) {
		return nil, fmt.Errorf("%w; `symbio cluster token` lets another node join it", err)
	}
	if err != nil {
		return nil, err
	}
	if err := s.saveSettings(name, settings{Listen: listen}); err != nil {
		return nil, err
	}
	return s.Identity(name)
}

// JoinCluster makes the node of that name a member of the token's cluster, whose authority is at addr.
func (s State) JoinCluster(ctx context.Context, name, listen, addr string, token identity.Token) (*identity.Admission, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := checkListen(listen); err != nil {
		return nil, err
	}
	if c, err := s.OpenCluster(); err == nil {
		return nil, fmt.Errorf("this machine holds the authority of cluster %s, and a node is in one cluster only", c.Name())
	}
	other, hash, err := identity.MemberOf(s.member(name))
	if err == nil && !token.Fits(hash) {
		return nil, fmt.Errorf("node %s is a member of another cluster, %s; to leave it, move %s away", name, other, s.member(name))
	}
	key, err := identity.LoadOrCreateKey(s.Key(name))
	if err != nil {
		return nil, err
	}
	a, err := grpcpeer.Enrol(ctx, addr, token, key, name, nil)
	if err != nil {
		return nil, err
	}
	if err := s.saveSettings(name, settings{Listen: listen}); err != nil {
		return nil, err
	}
	return a, a.Save(s.member(name))
}

// Belongs returns the identity of the node of that name when it is a member of the token's cluster
// already, with a certificate that is still good; nil when it has to join.
func (s State) Belongs(name string, token identity.Token) *identity.Identity {
	if _, hash, err := identity.MemberOf(s.member(name)); err != nil || !token.Fits(hash) {
		return nil
	}
	key, err := identity.LoadOrCreateKey(s.Key(name))
	if err != nil {
		return nil
	}
	i, err := identity.OpenMember(s.member(name), key)
	if err != nil {
		return nil
	}
	return i
}

// OwnIDs are the ids of this user's nodes on this machine.
func (s State) OwnIDs() (map[identity.NodeID]string, error) {
	files, err := filepath.Glob(filepath.Join(s.Dir, "nodes", "*", "key.pem"))
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

// reloadTimeout is how long a running node may take to read what was written.
const reloadTimeout = 5 * time.Second

// Reload makes a running node of that name read again what was written about its cluster; running says
// whether there is one.
func (s State) Reload(ctx context.Context, name string) (running bool, err error) {
	all, err := s.Running()
	if err != nil {
		return false, err
	}
	for _, one := range all {
		if one != name {
			continue
		}
		conn, err := s.Dial(name)
		if err != nil {
			return true, err
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
		defer cancel()
		_, err = symbiov1.NewControlClient(conn).Reload(ctx, &symbiov1.ReloadRequest{})
		return true, err
	}
	return false, nil
}
