package clustercmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// cmdClusterDemote returns the command cluster demote, with which this machine gives the authority up. It needs a running
// node, which knows whether another holder can be reached; without one the exit status is 5. It refuses when no other
// holder is connected, because a cluster without the authority lets no node in and ends with its certificates.
func cmdClusterDemote(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:  "demote",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state := env.State()
			c, err := state.OpenCluster()
			if err != nil {
				return err
			}
			own, err := state.OwnIDs()
			if err != nil {
				return err
			}
			live, err := liveNodes(cmd.Context(), env)
			if err != nil {
				return err
			}
			holders := otherHolders(live, own)
			if len(holders) == 0 {
				return fmt.Errorf("this machine is the last one with the authority of cluster %s that can be reached, and without it no node is let in, renewed or removed; "+
					"give it to another first: symbio cluster promote NODE", c.Name())
			}
			tokens, err := c.Ledger().OpenTokens()
			if err != nil {
				return err
			}
			if err := state.Demote(c); err != nil {
				return err
			}
			if env.JSON {
				err = env.PrintJSON(demotion{Cluster: c.Name(), Holders: holders, Tokens: len(tokens)})
			} else {
				err = env.Printf("the authority of cluster %s is not on this machine any more; it is on node %s\n", c.Name(), strings.Join(holders, ", "))
				env.Notef("the nodes of this machine stay in the cluster and are renewed by others; %d open tokens of this machine are void; a backup of this machine still has the key", len(tokens))
			}
			return errors.Join(err, restartNodes(cmd, env))
		},
	}
}

// demotion is the result of cluster demote. The JSON names are a contract.
type demotion struct {
	Cluster string `json:"cluster"`
	// Holders are the connected nodes that hold the authority now.
	Holders []string `json:"holders"`
	// Tokens is how many open tokens became void.
	Tokens int `json:"tokens"`
}

// otherHolders returns the names of the connected nodes of other machines that hold the authority, as they say.
func otherHolders(live []*symbiov1.Node, own map[identity.NodeID]string) (names []string) {
	for _, n := range live {
		if _, mine := own[identity.NodeID(n.GetId())]; !mine && n.GetState() == "connected" && n.GetAuthority() {
			names = append(names, n.GetName())
		}
	}
	return names
}

// restartNodes makes every running node of this machine start again without the authority. Nodes that do not are named in
// the error: they use the authority until a person stops them.
func restartNodes(cmd *cobra.Command, env *command.Env) error {
	names, err := env.State().Running()
	if err != nil {
		return err
	}
	var failed []string
	for _, name := range names {
		if _, err := env.State().Node(name).Reload(cmd.Context()); err != nil {
			failed = append(failed, name+" ("+command.ErrorText(cmd.Context(), err)+")")
		}
	}
	if len(failed) > 0 {
		return errors.New("the authority is gone from the disk, but nodes of this machine use it until they are started again: " + strings.Join(failed, ", "))
	}
	return nil
}
