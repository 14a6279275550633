package topcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/fleet"
	symbiov1 "symbio/proto/symbio/v1"
)

// options are the flags.
type options struct {
	once         bool
	filter, sort string
}

// New returns the command top. On a terminal it shows the community until the person leaves. Through a pipe it prints
// the state once, and with --json each change until it is interrupted.
func New(env *command.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:  "top",
		Args: command.NoArgs,
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, _ []string) error {
			return top(ctx, env, client, o)
		}),
	}
	names := command.Map(orders(), func(one order) string { return one.name })
	cmd.Flags().BoolVar(&o.once, "once", false, "print the state once, and end")
	cmd.Flags().StringVar(&o.filter, "filter", "", "only agents with this `TEXT` in their name, node, definition or state")
	cmd.Flags().StringVar(&o.sort, "sort", names[0], "`ORDER` of the agents: "+strings.Join(names, ", "))
	// The only error is about a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// top shows the community in the way that the flags and the terminal ask for.
func top(ctx context.Context, env *command.Env, client symbiov1.ControlClient, o options) error {
	l := &list{fleet.NewOverview(), o.filter, slices.IndexFunc(orders(), func(one order) bool { return one.name == o.sort })}
	if l.order < 0 {
		return command.Usage(fmt.Errorf("--sort %s: there is no such order", o.sort))
	}
	if env.JSON && (l.filter != "" || l.order > 0) {
		return command.Usage(errors.New("--filter and --sort are for people; with --json choose from what is printed"))
	}
	in, _ := env.In.(*os.File)
	live := !env.JSON && !o.once && env.OutIsTerminal && env.InIsTerminal && in != nil && env.Getenv("TERM") != "dumb"
	stream, first, err := watch(ctx, client, !live && (o.once || !env.JSON))
	switch {
	case err != nil:
		return err
	case env.JSON && o.once:
		return env.PrintJSON(jsonChange(first))
	case env.JSON:
		return printChanges(ctx, env, stream, first)
	}
	l.Apply(first)
	if live {
		return show(ctx, env, in, client, stream, l)
	}
	return l.print(env)
}

// receiver is the stream of WatchFleet.
type receiver interface {
	Recv() (*symbiov1.FleetChange, error)
}

// watch opens the stream of changes and returns the first, which has everything.
func watch(ctx context.Context, client symbiov1.ControlClient, once bool) (receiver, *symbiov1.FleetChange, error) {
	stream, err := client.WatchFleet(ctx, &symbiov1.FleetRequest{Once: once})
	if err != nil {
		return nil, nil, err
	}
	first, err := stream.Recv()
	return stream, first, err
}

// printChanges prints each change as JSON in a line, until the stream ends or ctx does.
func printChanges(ctx context.Context, env *command.Env, stream receiver, change *symbiov1.FleetChange) error {
	for {
		err := env.PrintLine(jsonChange(change))
		if err == nil {
			change, err = stream.Recv()
		}
		if errors.Is(err, io.EOF) || ctx.Err() != nil && status.Code(err) == codes.Canceled {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// jsonChange returns a change for --json: the names of the .proto file, and events as symbio events prints them. Lists
// without elements are [] and not null.
func jsonChange(c *symbiov1.FleetChange) any {
	return map[string]any{
		"nodes": append([]*symbiov1.FleetNode{}, c.GetNodes()...), "agents": append([]*symbiov1.FleetAgent{}, c.GetAgents()...),
		"removed_nodes": append([]string{}, c.GetRemovedNodes()...), "removed_agents": append([]string{}, c.GetRemovedAgents()...),
		"events": append([]event.Event{}, fleet.Events(c)...),
	}
}

// print prints the state once: the nodes, then the agents, with their ids. Through a pipe the first column says which of
// them a row is.
func (l *list) print(env *command.Env) error {
	k := &look{width: wideColumns}
	print := func(kind string, heads []cell, rows [][]cell, id func(i int) string) error {
		text := make([][]string, len(rows))
		for i, row := range rows {
			text[i] = append(command.Map(row, func(c cell) string { return c.text }), id(i))
			if !env.OutIsTerminal {
				text[i] = append([]string{kind}, text[i]...)
			}
		}
		if env.OutIsTerminal {
			command.ShortenIDs(text, len(heads))
		}
		return env.Table(append(command.Map(heads, func(c cell) string { return c.head }), "ID"), slices.Values(text))
	}
	nodes, agents := l.NodeRows(), l.rows()
	for i := range agents {
		if !env.OutIsTerminal {
			agents[i].Depth = 0 // a program wants the name as it is
		}
	}
	if err := print("node", k.nodeCells(nil), command.Map(nodes, k.nodeCells), func(i int) string { return nodes[i].GetId() }); err != nil {
		return err
	}
	return print("agent", k.agentCells(fleet.AgentRow{}), command.Map(agents, k.agentCells), func(i int) string { return agents[i].GetId() })
}
