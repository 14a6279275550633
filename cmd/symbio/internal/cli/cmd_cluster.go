package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

func (a *App) cmdCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "The identity that machines share: make it, let nodes in, see and remove them",
		Long: `A cluster is an authority that vouches for its nodes: a node with its certificate is let in, on whatever
machine it is, and a node without is not. The authority's key is on the machine where the cluster was
made, and on those that are promoted; they let nodes join, and renew the certificates of all, which last
7 days.

That nodes know each other does not let them ask anything of each other: that is for the rules under
authorize in the configuration, by a node's id, by "role/NAME", or for every node by "*".`,
		Example: `  symbio cluster init                       # prints the line to paste on another machine
  symbio cluster token --role worker        # one more, for a node that authorize calls role/worker
  symbio cluster promote kitchen            # a second machine that can let nodes in
  symbio cluster remove 0350081d            # and nobody talks to it any more`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.cmdClusterInit(), a.cmdClusterToken(), a.cmdClusterStatus(), a.cmdClusterNodes(), a.cmdClusterPromote(), a.cmdClusterRemove())
	return cmd
}

// memberName is the name of the node that joining is about: --node, else the configured one, else the
// machine's, as `symbio up` has it.
func (a *App) memberName(file string) (string, error) {
	if a.node != "" {
		return a.node, nil
	}
	c, _, err := a.loadConfig(file)
	if err != nil || c.Node.Name != "" {
		return c.Node.Name, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return node.NameOf(host), nil
}

// tokenJSON is a token in the output; the names are a contract.
type tokenJSON struct {
	Cluster string    `json:"cluster"`
	Tag     string    `json:"tag"`
	Node    string    `json:"node"`
	ID      string    `json:"id,omitempty"`
	Token   string    `json:"token"`
	Address string    `json:"address"`
	Join    string    `json:"join"`
	Expires time.Time `json:"expires"`
}

func (a *App) cmdClusterInit() *cobra.Command {
	var name, listen, file string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a cluster, with this node as its first",
		Long: `Make a cluster: its authority, on this machine, and a certificate for this node. What is printed at the
end is all that another machine needs. A node that runs here starts again as a node of the cluster;
from then on it listens for the nodes of other machines.`,
		Example: `  symbio cluster init
  symbio cluster init --name lab --listen 192.168.1.10:7946`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := a.state()
			if err != nil {
				return err
			}
			member, err := a.memberName(file)
			if err != nil {
				return err
			}
			id, err := state.InitCluster(member, name, listen)
			if err != nil {
				return err
			}
			if !a.json {
				fmt.Fprintf(a.Out, "cluster %s is made; node %s (%s) is its first\n", id.Authority(), member, id.ID())
			}
			if err := a.tellNode(cmd.Context(), state, member, id.Authority()); err != nil {
				return err
			}
			return a.offerToken(cmd.Context(), state, member, identity.TokenLife, "", string(id.ID()))
		},
	}
	cmd.Flags().StringVar(&name, "name", "lan", "what to call the cluster")
	cmd.Flags().StringVar(&listen, "listen", "", "host:port on which this node listens for others (default "+node.ClusterListen+", every address)")
	cmd.Flags().StringVar(&file, "config", "", "the configuration that names the node, as for symbio up")
	return cmd
}

func (a *App) cmdClusterToken() *cobra.Command {
	var life time.Duration
	var role, file string
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make a token that lets one more node join",
		Long: `Make a token, and print the line to paste on the other machine. It is good for one node and, unless told
otherwise, for one hour. Whoever has it can join: hand it over as you would a password.`,
		Example: `  symbio cluster token
  symbio cluster token --for 10m --role worker`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if life <= 0 || life > identity.MaxTokenLife {
				return usage(fmt.Errorf("--for %v: want more than nothing, and %v at most", life, identity.MaxTokenLife))
			}
			state, err := a.state()
			if err != nil {
				return err
			}
			member, err := a.memberName(file)
			if err != nil {
				return err
			}
			return a.offerToken(cmd.Context(), state, member, life, role, "")
		},
	}
	cmd.Flags().DurationVar(&life, "for", identity.TokenLife, "how long it is good")
	cmd.Flags().StringVar(&role, "role", "", "the role of the node that joins, for authorize rules (default node)")
	cmd.Flags().StringVar(&file, "config", "", "the configuration that names the node, as for symbio up")
	return cmd
}

// offerToken makes a token and prints the line that joins with it.
func (a *App) offerToken(ctx context.Context, state node.State, member string, life time.Duration, role, id string) error {
	c, err := state.OpenCluster()
	if err != nil {
		return err
	}
	token, err := c.NewToken(life, role)
	if err != nil {
		return usage(err)
	}
	addr, up, err := a.joinAddress(ctx, state, member)
	if err != nil {
		return err
	}
	out := tokenJSON{
		Cluster: c.Name(), Tag: c.Tag(), Node: member, ID: id, Token: token.Text(), Address: addr,
		Join: "symbio join " + token.Text() + " " + addr, Expires: time.Now().Add(life).UTC().Truncate(time.Second),
	}
	if a.json {
		return a.printJSON(out)
	}
	if !up && strings.HasSuffix(addr, ":PORT") {
		fmt.Fprintf(a.Err, "node %s is not running, and takes any port: PORT is the one that symbio up then prints\n", member)
	} else if !up {
		fmt.Fprintf(a.Err, "node %s is not running, and the one that joins needs it\n", member)
	}
	fmt.Fprintf(a.Err, "on the other machine, once, within %v:\n", life)
	_, err = fmt.Fprintln(a.Out, out.Join)
	return err
}

// joinAddress is where others reach the node: where it listens, or will.
func (a *App) joinAddress(ctx context.Context, state node.State, member string) (addr string, up bool, err error) {
	addr, err = state.ListenOf(member)
	if err != nil {
		return "", false, err
	}
	if conn, err := state.Dial(member); err == nil {
		defer conn.Close()
		ask, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if s, err := symbiov1.NewControlClient(conn).Status(ask, &symbiov1.StatusRequest{}); err == nil {
			addr, up = s.GetListen(), true
		}
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", up, err
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = lanAddress()
	}
	if port == "0" {
		port = "PORT" // the one that `symbio up` says it listens on
	}
	return net.JoinHostPort(host, port), up, nil
}

// lanAddress is this machine's address for others on its LAN: the one from which it would reach the rest
// of the world, else a private IPv4 one if there is one.
func lanAddress() string {
	if c, err := net.Dial("udp4", "192.0.2.1:9"); err == nil { // asks the routing table; nothing is sent
		defer c.Close()
		if a, ok := c.LocalAddr().(*net.UDPAddr); ok && !a.IP.IsLoopback() && !a.IP.IsLinkLocalUnicast() {
			return a.IP.String()
		}
	}
	best, rank := "127.0.0.1", 0
	all, err := net.InterfaceAddrs()
	if err != nil {
		return best
	}
	for _, one := range all {
		prefix, err := netip.ParsePrefix(one.String())
		ip := prefix.Addr().Unmap()
		r := 0
		switch {
		case err != nil || ip.IsLoopback() || ip.IsLinkLocalUnicast():
		case ip.Is4() && ip.IsPrivate():
			r = 4
		case ip.Is4():
			r = 3
		case ip.IsGlobalUnicast():
			r = 2
		}
		if r > rank {
			best, rank = ip.String(), r
		}
	}
	return best
}

// tellNode makes the node of that name, if it runs, one of the cluster, and waits until it is.
func (a *App) tellNode(ctx context.Context, state node.State, name, cluster string) error {
	running, err := state.Reload(ctx, name)
	if err != nil {
		return fmt.Errorf("what was written is kept, but node %s, which is running, could not take it up: %s", name, words(ctx, err))
	}
	if !running {
		flag := ""
		if a.node != "" {
			flag = " --name " + name
		}
		if !a.json {
			fmt.Fprintf(a.Err, "start it with: symbio up%s\n", flag)
		}
		return nil
	}
	conn, err := state.Dial(name)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	look := time.NewTicker(restartLook)
	defer look.Stop()
	for {
		s, err := symbiov1.NewControlClient(conn).Status(ctx, &symbiov1.StatusRequest{})
		if err == nil && s.GetAuthority() == cluster {
			if !a.json {
				fmt.Fprintf(a.Err, "node %s, which is running, is a node of the cluster now, listening on %s\n", name, s.GetListen())
			}
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return unavailable(fmt.Errorf("what was written is kept, but node %s did not come back within %v: start it again with symbio up", name, restartTimeout))
		}
	}
}

const (
	restartTimeout = 10 * time.Second
	restartLook    = 50 * time.Millisecond
)

// tellNodes makes every running node read again who was removed.
func (a *App) tellNodes(ctx context.Context, state node.State) error {
	names, err := state.Running()
	if err != nil {
		return err
	}
	var late []string
	for _, name := range names {
		if _, err := state.Reload(ctx, name); err != nil {
			late = append(late, name+" ("+words(ctx, err)+")")
		}
	}
	if len(late) > 0 {
		return errors.New("it is written, but nodes here did not take it up: " + strings.Join(late, ", "))
	}
	if len(names) == 0 {
		fmt.Fprintln(a.Err, "no node runs here; the others hear of it when one does: symbio up")
	}
	return nil
}
