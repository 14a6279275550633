package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"symbio/security/identity"
)

// joinJSON is what a join has made; the names are a contract.
type joinJSON struct {
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
	ID      string    `json:"id"`
	Role    string    `json:"role"`
	Expires time.Time `json:"expires"`
}

func (a *App) cmdJoin() *cobra.Command {
	var listen, file string
	var ifNeeded bool
	cmd := &cobra.Command{
		Use:   "join TOKEN ADDRESS",
		Short: "Make this node a member of a cluster",
		Long: `Make this node a member of a cluster, with the line that symbio cluster init or symbio cluster token has
printed. Before anything is sent, the node at ADDRESS must prove to be of the cluster that TOKEN names.
From then on symbio up runs as a node of the cluster, and listens for the nodes of other machines.`,
		Example: `  symbio join SYM1-MXZN…-25474… 192.168.1.10:7946
  symbio join --listen 192.168.1.11:7946 SYM1-MXZN…-25474… 192.168.1.10:7946`,
		Args: exactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, err := identity.ParseToken(args[0])
			if err != nil {
				return usage(err)
			}
			if _, port, err := net.SplitHostPort(args[1]); err != nil || port == "" {
				return usage(fmt.Errorf("ADDRESS %q: want HOST:PORT, such as 192.168.1.10:7946", args[1]))
			}
			state, err := a.state()
			if err != nil {
				return err
			}
			name, err := a.memberName(file)
			if err != nil {
				return err
			}
			if i := state.Belongs(name, token); ifNeeded && i != nil {
				fmt.Fprintf(a.Err, "node %s (%s) is a member of cluster %s already\n", name, i.ID(), i.Authority())
				return nil
			}
			joined, err := state.JoinCluster(cmd.Context(), name, listen, args[1], token)
			if err != nil {
				return joinStatus(err)
			}
			out := joinJSON{joined.Authority, name, string(joined.ID), joined.Role, joined.NotAfter.UTC()}
			if a.json {
				if err := a.printJSON(out); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(a.Out, "node %s (%s) is a member of cluster %s\n", out.Node, out.ID, out.Cluster)
			}
			return a.tellNode(cmd.Context(), state, name, joined.Authority)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "host:port on which this node listens for others (default as for symbio cluster init)")
	cmd.Flags().StringVar(&file, "config", "", "the configuration that names the node, as for symbio up")
	cmd.Flags().BoolVar(&ifNeeded, "if-needed", false, "do nothing when this node is a member of that cluster, with a certificate still good")
	return cmd
}

// joinStatus gives a refused join the exit status of what it is: denied, or nobody there.
func joinStatus(err error) error {
	for _, denied := range []error{
		identity.ErrTokenUsed, identity.ErrTokenExpired, identity.ErrTokenUnknown, identity.ErrRemoved, identity.ErrWrongCluster,
	} {
		if errors.Is(err, denied) {
			return &statusError{exitDenied, err}
		}
	}
	if lost := (&net.OpError{}); errors.As(err, &lost) || errors.Is(err, context.DeadlineExceeded) {
		return unavailable(err)
	}
	return err
}
