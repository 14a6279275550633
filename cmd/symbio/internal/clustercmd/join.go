package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
	"symbio/discovery"
	"symbio/internal/agent/node/peers"
	"symbio/security/identity"
)

// joinJSON is the result of a join. The JSON names are a contract.
type joinJSON struct {
	// Cluster is the name of the cluster that was joined.
	Cluster string `json:"cluster"`
	// Node is the name of this node, ID its new id.
	Node string `json:"node"`
	ID   string `json:"id"`
	// Role is the role that the token gave.
	Role string `json:"role"`
	// Labels are those that the token gave.
	Labels map[string]string `json:"labels,omitempty"`
	// Expires is the end of the certificate, in UTC. The node renews it before.
	Expires time.Time `json:"expires"`
}

// cmdClusterJoin returns the command `symbio cluster join`. Its exit status is 3 when the cluster refuses the token,
// and 5 when the address cannot be reached. The membership is written only after the other side
// has proved that it is of the cluster in the token. A node that runs here then restarts as a
// member.
func cmdClusterJoin(env *command.Env) *cobra.Command {
	var listen, file string
	var ifNeeded bool
	cmd := &cobra.Command{
		Use:  "join TOKEN ADDRESS",
		Args: command.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			// The arguments are checked before the state directory is touched and before anything
			// is dialled.
			token, err := identity.ParseToken(args[0])
			if err != nil {
				return command.Usage(err)
			}
			// A name without a port would be dialled at port 0.
			if _, port, err := net.SplitHostPort(args[1]); !discovery.IsURL(args[1]) && (err != nil || port == "") {
				return command.Usage(fmt.Errorf("ADDRESS %q: want HOST:PORT, such as 192.168.1.10:7946, or wss://HOST/PATH", args[1]))
			} else if _, err := discovery.ParseURL(args[1]); discovery.IsURL(args[1]) && err != nil {
				return command.Usage(fmt.Errorf("ADDRESS %q: %w", args[1], err))
			}
			state, name, err := command.NamedNode(env, file)
			if err != nil {
				return err
			}
			// For scripts that run at each start of a machine: a second join would need a second
			// token.
			if i := state.Node(name).Belongs(token); ifNeeded && i != nil {
				env.Notef("node %s (%s) is a member of cluster %s already", name, i.ID(), i.Authority())
				return nil
			}
			// JoinCluster dials the address and redeems the token. If the answer is lost, the same
			// node may try again with the same token until it expires.
			dial, settings, err := dialer(env, file, args[1])
			if err != nil {
				return err
			}
			joined, err := state.Node(name).JoinCluster(cmd.Context(), listen, args[1], token, dial)
			if err != nil {
				return joinStatus(err)
			}
			if discovery.IsURL(args[1]) && !slices.Contains(settings.Peers, args[1]) {
				env.Notef("mDNS does not find nodes behind a proxy: write %s under discovery.peers in the configuration, or start with symbio up --peer %[1]s", args[1])
			}
			out := joinJSON{joined.Authority, name, string(joined.ID), joined.Role, joined.Labels.Map(), joined.NotAfter.UTC()}
			if env.JSON {
				if err := env.PrintJSON(out); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(env.Out, "node %s (%s) is a member of cluster %s\n", out.Node, out.ID, out.Cluster)
			}
			return activateCluster(cmd.Context(), env, state, name, joined.Authority, file)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "`HOST:PORT` on which this node listens for others (default as for symbio cluster init)")
	cmd.Flags().StringVar(&file, "config", "", "configuration `FILE` that names the node (default as for symbio up)")
	cmd.Flags().BoolVar(&ifNeeded, "if-needed", false, "do nothing if this node is a member of that cluster with a valid certificate")
	return cmd
}

// dialer returns what connects to addr, and the settings for discovery. They are read for a URL only: it may be of a
// proxy whose certificate they make count.
func dialer(env *command.Env, file, addr string) (func(context.Context, string) (net.Conn, error), config.Discovery, error) {
	if !discovery.IsURL(addr) {
		return nil, config.Discovery{}, nil
	}
	c, _, err := env.LoadConfig(file)
	return func(ctx context.Context, addr string) (net.Conn, error) { return peers.Dial(ctx, c.Discovery, addr) }, c.Discovery, err
}

// joinStatus gives the error of a join its exit status: denied if the cluster refused, unavailable
// if it did not answer. Other errors, such as a full disk, keep the exit status 1.
func joinStatus(err error) error {
	// The other side answered; trying again with the same token cannot work.
	for _, refusal := range []error{
		identity.ErrTokenUsed, identity.ErrTokenExpired, identity.ErrTokenUnknown, identity.ErrRemoved, identity.ErrWrongCluster, identity.ErrNameTaken,
	} {
		if errors.Is(err, refusal) {
			return command.Denied(err)
		}
	}
	// The net package wraps every failed dial in an OpError. The same command may succeed later, so
	// a script can repeat it.
	if lost := (&net.OpError{}); errors.As(err, &lost) || errors.Is(err, context.DeadlineExceeded) {
		return command.Unavailable(err)
	}
	return err
}
