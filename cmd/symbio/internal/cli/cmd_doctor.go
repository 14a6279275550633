package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/config"
	"symbio/cmd/symbio/internal/doctor"
	symbiov1 "symbio/proto/symbio/v1"
)

// askTimeout is how long the doctor waits for a node of this machine: one that is well answers in milliseconds.
const askTimeout = 2 * time.Second

func (a *App) cmdDoctor() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "What this machine can do for a node, what is wrong, and how to mend it",
		Long: `Check the network interfaces and multicast, the ports, the configured peers, the nodes that were seen
and why some cannot be reached, certificates, the clock, the model, the agents, the workspace, the sandbox, the state
directory and the skills. With a node running, it is asked what it sees; without one, what a node would find is
checked. Nothing is changed, and no key is shown. Status 1 if anything fails.`,
		Example: `  symbio doctor
  symbio doctor --config kitchen.yaml
  symbio doctor --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			world, err := a.world(cmd.Context(), file)
			if err != nil {
				return err
			}
			found, err := doctor.Examine(cmd.Context(), world)
			if err != nil {
				return err
			}
			if err := a.printFindings(found); err != nil {
				return err
			}
			if n := count(found, doctor.Fail); n > 0 {
				return fmt.Errorf("%d of %d checks failed", n, len(found))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the configuration file to check with")
	return cmd
}

// world is this machine with the nodes that run on it. A configuration that is wrong is a finding, not an end.
func (a *App) world(ctx context.Context, file string) (*doctor.World, error) {
	c, _, bad := a.loadConfig(file)
	if bad != nil {
		c = config.Default()
	}
	opts, err := a.nodeOptions(c)
	if err != nil {
		return nil, err
	}
	w := doctor.RealWorld(opts)
	w.BadConfig, w.Wanted = bad, a.node
	names, err := opts.State.Running()
	if err != nil {
		return w, nil // the state directory cannot be read, which has a check of its own
	}
	if a.node != "" {
		names = slices.DeleteFunc(names, func(n string) bool { return n != a.node })
	}
	w.Nodes = make([]doctor.Node, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() { w.Nodes[i] = a.askNode(ctx, name) })
	}
	asking.Wait()
	return w, nil
}

// askNode asks a running node what it knows.
func (a *App) askNode(ctx context.Context, name string) doctor.Node {
	out := doctor.Node{Name: name}
	state, err := a.state()
	if err != nil {
		out.Err = err
		return out
	}
	conn, err := state.Dial(name)
	if err != nil {
		out.Err = err
		return out
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client := symbiov1.NewControlClient(conn)
	status, err := client.Status(ctx, &symbiov1.StatusRequest{})
	if err == nil {
		out.Listen = status.GetListen()
		for _, s := range status.GetSources() {
			out.Sources = append(out.Sources, doctor.Source{Name: s.GetName(), Problems: s.GetProblems()})
		}
		err = a.askWhatItSees(ctx, client, &out)
	}
	if err != nil {
		out.Err = errors.New(words(ctx, err))
	}
	return out
}

func (a *App) askWhatItSees(ctx context.Context, client symbiov1.ControlClient, out *doctor.Node) error {
	nodes, err := client.Nodes(ctx, &symbiov1.NodesRequest{})
	if err != nil {
		return err
	}
	for _, n := range nodes.GetNodes() {
		out.Peers = append(out.Peers, doctor.Peer{
			ID: n.GetId(), Name: n.GetName(), State: n.GetState(), Addr: n.GetAddr(), Why: n.GetWhy(), CertDays: int(n.GetCertDays()),
			Via: n.GetVia(), Sources: n.GetSources(),
		})
	}
	skills, err := client.Skills(ctx, &symbiov1.SkillsRequest{})
	out.Skills = skills.GetErrors()
	return err
}

func count(found []doctor.Finding, s doctor.Status) (n int) {
	for _, f := range found {
		if f.Status == s {
			n++
		}
	}
	return n
}

// printFindings prints a line for each finding, and for a person its remedy on a line below.
func (a *App) printFindings(found []doctor.Finding) error {
	if a.json {
		return a.printJSON(found)
	}
	if !a.OutIsTerminal {
		rows := make([][]string, len(found))
		for i, f := range found {
			rows[i] = []string{string(f.Status), f.Check, f.Detail, f.Fix}
		}
		return a.table(nil, rows)
	}
	for _, f := range found {
		if _, err := fmt.Fprintf(a.Out, "%-4s  %-13s  %s\n", f.Status, f.Check, printable(f.Detail)); err != nil {
			return err
		}
		if f.Fix != "" {
			if _, err := fmt.Fprintf(a.Out, "%21s  to mend it: %s\n", "", printable(f.Fix)); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(a.Out, "\n%d in order, %d to look at, %d failed\n", count(found, doctor.OK), count(found, doctor.Warn), count(found, doctor.Fail))
	return err
}
