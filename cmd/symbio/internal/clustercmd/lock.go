package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	statedir "symbio/internal/agent/node/state"
	"symbio/internal/security/passphrase"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// lockJSON is the result of lock and unlock. The JSON names are a contract.
type lockJSON struct {
	// Cluster is the cluster of the authority.
	Cluster string `json:"cluster"`
	// Encrypted says whether its key is encrypted on the disk.
	Encrypted bool `json:"encrypted"`
	// Nodes are the running nodes of this machine that were told.
	Nodes []string `json:"nodes"`
}

// cmdClusterLock returns the command cluster lock, which encrypts the key of the authority on this
// machine. Its exit status is 2 when there is no passphrase.
func cmdClusterLock(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "lock", Args: command.NoArgs}
	secret := command.NewPassphrase(env, cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := env.State().OpenCluster()
		if err != nil {
			return err
		}
		if c.Key().Locked() {
			return fmt.Errorf("the authority of cluster %s is locked already; for another passphrase: symbio cluster unlock --permanent, then lock", c.Name())
		}
		text, err := secret.New("the authority of cluster " + c.Name())
		if err != nil {
			return err
		}
		if err := env.State().LockAuthority(text); err != nil {
			return err
		}
		told, err := tellNodes(cmd.Context(), env.State(), &symbiov1.AuthorityRequest{Change: &symbiov1.AuthorityRequest_Lock{Lock: true}})
		if err != nil {
			return fmt.Errorf("the key is encrypted on the disk, but %w\nRestart them: until then they have it", err)
		}
		if env.JSON {
			return env.PrintJSON(lockJSON{c.Name(), true, told})
		}
		env.Notef("until `symbio cluster unlock`, no node is let in, renewed or removed on this machine; without the passphrase the key is lost")
		return env.Printf("locked the authority of cluster %s\n", c.Name())
	}
	return cmd
}

// cmdClusterUnlock returns the command cluster unlock, which gives the key to the nodes that run
// here, or with --permanent puts it back on the disk. Its exit status is 3 for a wrong passphrase,
// and 5 when no node runs.
func cmdClusterUnlock(env *command.Env) *cobra.Command {
	var permanent bool
	cmd := &cobra.Command{Use: "unlock", Args: command.NoArgs}
	secret := command.NewPassphrase(env, cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		state := env.State()
		running, err := state.Running()
		if err != nil {
			return err
		}
		if len(running) == 0 && !permanent {
			return command.Unavailable(errors.New("no node is running here, and a node has the key only until it ends; start it with symbio up, or unlock with --permanent"))
		}
		c, key, err := openLocked(state, secret)
		if err != nil {
			return err
		}
		if permanent {
			if err := c.Key().RemoveLock(key); err != nil {
				return err
			}
		}
		told, err := tellNodes(cmd.Context(), state, &symbiov1.AuthorityRequest{Change: &symbiov1.AuthorityRequest_Unlock{Unlock: key}})
		if err != nil {
			return err
		}
		if env.JSON {
			return env.PrintJSON(lockJSON{c.Name(), !permanent, told})
		}
		where := "on the disk, for good"
		if !permanent {
			where = "until they end, for: " + strings.Join(told, ", ")
		}
		return env.Printf("unlocked the authority of cluster %s %s\n", c.Name(), where)
	}
	cmd.Flags().BoolVar(&permanent, "permanent", false, "store the key without encryption again")
	return cmd
}

// openLocked asks for the passphrase and returns the cluster and the key of its authority.
func openLocked(state statedir.Dir, secret *command.Passphrase) (*identity.Cluster, []byte, error) {
	c, err := state.OpenCluster()
	if err != nil {
		return nil, nil, err
	}
	if !c.Key().Locked() {
		return nil, nil, statedir.ErrNotLocked
	}
	text, err := secret.Ask("the authority of cluster " + c.Name())
	if err != nil {
		return nil, nil, err
	}
	c, key, err := state.UnlockAuthority(text)
	if errors.Is(err, passphrase.ErrWrong) {
		err = command.Denied(err)
	}
	return c, key, err
}

// useLocked gives c the key for this command if it is locked.
func useLocked(c *identity.Cluster, state statedir.Dir, secret *command.Passphrase) error {
	if !c.Key().Locked() {
		return nil
	}
	_, key, err := openLocked(state, secret)
	if err != nil {
		return err
	}
	return c.Key().Use(key)
}

// tellNodes sends a request about the authority to all running nodes of this machine that hold it, and returns
// their names. All are tried; those that fail are named in the error.
func tellNodes(ctx context.Context, state statedir.Dir, r *symbiov1.AuthorityRequest) (told []string, err error) {
	told = []string{}
	names, err := state.Running()
	if err != nil {
		return told, err
	}
	for _, name := range names {
		held, fail := tellNode(ctx, state.Node(name), r)
		if fail != nil {
			err = errors.Join(err, fmt.Errorf("node %s: %s", name, command.ErrorText(ctx, fail)))
		} else if held {
			told = append(told, name)
		}
	}
	return told, err
}

// tellNode is tellNodes for one node. held is false, and nothing is done, if it does not hold the authority.
func tellNode(ctx context.Context, n statedir.Node, r *symbiov1.AuthorityRequest) (held bool, err error) {
	conn, err := n.Dial()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	client := symbiov1.NewControlClient(conn)
	now, err := client.Authority(ctx, &symbiov1.AuthorityRequest{})
	if err != nil || !now.GetHeld() {
		return false, err
	}
	_, err = client.Authority(ctx, r)
	return true, err
}
