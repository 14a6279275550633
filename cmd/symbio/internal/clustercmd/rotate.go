package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// A rotation of a cluster whose nodes are all on takes some seconds. rotateTime is how long the command waits for it; it goes on
// without the command. rotateNowTime is for --now, with which the node goes on only when it is asked.
const (
	rotateTime         = 15 * time.Second
	rotateNowTime      = time.Minute
	rotatePollInterval = 200 * time.Millisecond
)

// rotation is the result of cluster rotate. The JSON names are a contract.
type rotation struct {
	// Cluster is the cluster of the authority.
	Cluster string `json:"cluster"`
	// Done says that it is over.
	Done bool `json:"done"`
	// Waiting are the nodes that it waits for.
	Waiting []string `json:"waiting"`
}

// cmdClusterRotate returns the command cluster rotate, which replaces the authority. The running node does it, since it has the
// connections. It refuses while a machine with the authority is not connected, because that would lose the authority. Its
// exit status is 5 when no node runs, or with --now nodes are not ready in time.
func cmdClusterRotate(env *command.Env) *cobra.Command {
	var now bool
	var without []string
	cmd := &cobra.Command{
		Use:  "rotate",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.State().OpenCluster()
			if err != nil {
				return err
			}
			return env.Nodes().With(func(client symbiov1.ControlClient) error {
				before, err := client.Rotate(cmd.Context(), &symbiov1.RotateRequest{})
				if err != nil {
					return err
				}
				if s := identity.Stage(before.GetStage()); s == identity.StageNone || s == identity.StageDone {
					if err := checkHolders(cmd.Context(), env, c, without); err != nil {
						return err
					}
					if _, err := client.Rotate(cmd.Context(), &symbiov1.RotateRequest{Begin: true, Now: now}); err != nil {
						return err
					}
				} else if !now && !env.JSON {
					env.Notef("the authority is being replaced already")
				}
				out, err := followRotation(cmd.Context(), client, now)
				if err != nil {
					return err
				}
				out.Cluster = c.Name()
				return showRotation(env, out, now)
			})
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "do not wait for nodes that are off")
	cmd.Flags().StringSliceVar(&without, "without", nil, "`NODE` with the authority whose machine is lost; more than one: repeat it")
	return cmd
}

// checkHolders returns an error unless all machines with the authority are connected, but those of without, which are recorded
// as having given it up.
func checkHolders(ctx context.Context, env *command.Env, c *identity.Cluster, without []string) error {
	own, err := env.State().OwnIDs()
	if err != nil {
		return err
	}
	for _, what := range without {
		_, r, err := findRemoteNode(ctx, env, env.State(), what, "")
		if err == nil {
			err = c.Ledger().NoteGivenUp(r.ID, true)
		}
		if err != nil {
			return err
		}
	}
	live, err := liveNodes(ctx, env)
	if err != nil {
		return err
	}
	all, err := c.Nodes()
	if err != nil {
		return err
	}
	var away []string
	for _, r := range all {
		connected := slices.ContainsFunc(live, func(n *symbiov1.Node) bool { return n.GetId() == string(r.ID) && n.GetState() == "connected" })
		if _, mine := own[r.ID]; r.IsHolder() && !mine && !connected {
			away = append(away, r.Name)
		}
	}
	if len(away) > 0 {
		return command.Unavailable(fmt.Errorf("%s holds the authority and is not connected, and would be without the new one; start it, "+
			"or if its machine is lost: symbio cluster rotate --without %s", strings.Join(away, ", "), strings.Join(away, " --without ")))
	}
	return nil
}

// followRotation waits until the rotation is over, as long as it goes on by itself. With now it makes the node go on.
func followRotation(ctx context.Context, client symbiov1.ControlClient, now bool) (rotation, error) {
	limit := rotateTime
	if now {
		limit = rotateNowTime
	}
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(rotatePollInterval)
	defer ticker.Stop()
	for {
		reply, err := client.Rotate(ctx, &symbiov1.RotateRequest{Now: now})
		if err != nil {
			return rotation{}, err
		}
		out := rotation{Done: identity.Stage(reply.GetStage()) == identity.StageDone, Waiting: append([]string{}, reply.GetWaiting()...)}
		if out.Done {
			return out, nil
		}
		select {
		case <-ticker.C:
		case <-wait.Done():
			return out, ctx.Err()
		}
	}
}

// showRotation prints where the rotation stands, and what is left to do.
func showRotation(env *command.Env, out rotation, now bool) (err error) {
	switch {
	case env.JSON:
		err = env.PrintJSON(out)
	case out.Done:
		until := time.Now().Add(identity.LateRenewal).Format(time.DateOnly)
		env.Notef("nodes that were off get a certificate of the new authority when they meet a machine that holds it, until %s", until)
		err = env.Printf("cluster %s has a new authority; nothing trusts the old one any more\n", out.Cluster)
	case !now:
		env.Notef("it goes on by itself, without nodes that are off once their certificates have ended; symbio cluster status shows it, symbio cluster rotate --now does not wait for them")
		err = env.Printf("the authority of cluster %s is being replaced; waiting for %s\n", out.Cluster, strings.Join(out.Waiting, ", "))
	}
	if now && !out.Done {
		err = errors.Join(err, command.Unavailable(fmt.Errorf("the authority of cluster %s is being replaced, and these connected nodes are not ready: %s; "+
			"see symbio doctor there; a node of an older version is not: upgrade it, or stop it and try again", out.Cluster, strings.Join(out.Waiting, ", "))))
	}
	return err
}
