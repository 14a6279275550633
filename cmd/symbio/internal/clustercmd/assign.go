package clustercmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/clusterinfo"
	"symbio/internal/agent/placement"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// cmdClusterRole returns the command cluster role, which gives a node another role.
func cmdClusterRole(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "role NODE ROLE", Args: command.ExactArgs(2)}
	return assignCommand(env, cmd, func(r *identity.Record, args []string) ([]string, error) {
		r.Role = args[0]
		return r.Labels.List(), nil
	})
}

// cmdClusterLabel returns the command cluster label, which changes the certified labels of a node.
func cmdClusterLabel(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "label NODE LABEL...", Args: command.RangeArgs(2, 17)}
	return assignCommand(env, cmd, func(r *identity.Record, args []string) ([]string, error) {
		all := r.Labels.Map()
		if all == nil {
			all = map[string]string{}
		}
		for _, arg := range args {
			key, value, isSet := strings.Cut(arg, "=")
			if name, taken := strings.CutSuffix(arg, "-"); taken && !isSet {
				delete(all, name)
				continue
			}
			all[key] = value
		}
		return strings.Fields(command.PairsText(all)), placement.CheckLabels(all)
	})
}

// assignCommand makes cmd, whose first argument is a node, change what the authority says of it: change returns its labels, and sets the
// role in the record. It works on files, where the authority is, and tells the nodes that run here, as cluster remove does.
func assignCommand(env *command.Env, cmd *cobra.Command, change func(r *identity.Record, args []string) ([]string, error)) *cobra.Command {
	secret := command.NewPassphrase(env, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		state := env.State()
		c, err := state.OpenCluster()
		if err != nil {
			return err
		}
		live := func() ([]*symbiov1.Node, error) { return liveNodes(cmd.Context(), env) }
		r, err := clusterinfo.Find(c, args[0], live)
		switch {
		case err != nil:
			return err
		case r.Removed:
			return fmt.Errorf("node %s was removed from the cluster", r.ID)
		case r.Role == "":
			return command.NotFound(fmt.Errorf("what node %s is now is not known here: run this while it is connected", r.ID))
		}
		labels, err := change(&r, args[1:])
		if err != nil {
			return command.Usage(err)
		}
		if err := useLocked(c, state, secret); err != nil {
			return err
		}
		if err := c.Ledger().Assign(r.ID, r.Role, labels); errors.Is(err, identity.ErrRole) || errors.Is(err, identity.ErrLabel) {
			return command.Usage(err)
		} else if err != nil {
			return err
		}
		r.Labels, _ = identity.ParseLabels(labels)
		if env.JSON {
			err = env.PrintJSON(clusterinfo.NodeOf(r, clusterinfo.Unknown))
		} else {
			err = env.Printf("assigned\t%s\t%s\t%s\t%s\n", r.ID, r.Name, r.Role, command.PairsText(r.Labels.Map()))
		}
		return errors.Join(err, reloadNodes(cmd.Context(), env, state))
	}
	return cmd
}
