package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

func (a *App) cmdClusterPromote() *cobra.Command {
	return &cobra.Command{
		Use:   "promote NODE",
		Short: "Give the cluster's authority to a second node as well",
		Long: `Give the cluster's authority to a node that is connected, by its id or the beginning of it, or by its name
when only one has it. From then on its machine lets nodes join, renews certificates and removes nodes as
this one does, also when this one is off. Both keep the key in a file that only the user who runs the node can read.

The key crosses the network encrypted to that node alone. It cannot be taken back: a machine that is lost
while it holds the key can let in whomever it likes, so promote one that you would trust with that.`,
		Example: "  symbio cluster promote kitchen\n  symbio cluster status           # on which machines the authority is",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			state, err := a.state()
			if err != nil {
				return err
			}
			c, err := state.OpenCluster()
			if err != nil {
				return err
			}
			r, err := a.oneNode(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			own, err := state.OwnIDs()
			if err != nil {
				return err
			}
			if name, ok := own[r.ID]; ok {
				return fmt.Errorf("node %s is of this machine, which holds the authority already", name)
			}
			if r.Removed {
				return fmt.Errorf("node %s was removed from the cluster", r.ID)
			}
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			if _, err := client.Promote(cmd.Context(), &symbiov1.PromoteRequest{Node: string(r.ID)}); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(clusterNodeJSON{ID: string(r.ID), Name: r.Name, Role: r.Role, State: "connected", Authority: true, Joined: known(r.Joined), Expires: known(r.Expires)})
			}
			_, err = fmt.Fprintf(a.Out, "promoted\t%s\t%s\n", r.ID, printable(r.Name))
			return err
		},
	}
}

// holderJSON is a node that holds the authority; the names are a contract.
type holderJSON struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"` // as in symbio cluster nodes
}

// holders are the nodes that hold the authority, as far as it is known here: by the records where it is
// held, and by what the connected nodes say.
func (a *App) holders(ctx context.Context, state node.State, name string, id *identity.Identity) ([]holderJSON, error) {
	out := []holderJSON{}
	add := func(h holderJSON) {
		for i := range out {
			if out[i].ID == h.ID {
				out[i].State = h.State
				return
			}
		}
		out = append(out, h)
	}
	if c := id.Cluster(); c != nil {
		add(holderJSON{string(id.ID()), name, stateUnknown})
		records, err := c.Nodes()
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if r.Holds && !r.Removed {
				add(holderJSON{string(r.ID), r.Name, stateUnknown})
			}
		}
	}
	conn, err := state.Dial(name)
	if err != nil {
		return out, nil // it does not run: nothing is known of who is connected
	}
	defer conn.Close()
	reply, err := symbiov1.NewControlClient(conn).Nodes(ctx, &symbiov1.NodesRequest{})
	if err != nil {
		return out, nil
	}
	for _, n := range reply.GetNodes() {
		if n.GetHoldsAuthority() {
			add(holderJSON{n.GetId(), n.GetName(), n.GetState()})
		}
	}
	return out, nil
}

// authorityRow says for people where the authority is.
func (s clusterJSON) authorityRow() string {
	var on []string
	if s.Authority {
		on = append(on, "on this machine")
	}
	for _, h := range s.Holders {
		if h.ID != s.ID {
			on = append(on, fmt.Sprintf("on node %s (%s)", printable(h.Name), h.State))
		}
	}
	if len(on) == 0 {
		return "on another machine"
	}
	return strings.Join(on, ", ")
}

// errHolderRemoved is said when a node that holds the authority was removed.
var errHolderRemoved = errors.New("it holds the authority's key, which this does not take back: with it that machine can let in nodes under other ids; " +
	"if somebody else may have it, make a new cluster")
