package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdMembers returns the command members. With --watch it prints the members and then each change
// until it is interrupted. Members of other nodes are what those nodes report.
//
// Agents and nodes are members. The filters must all match. A node that cannot be reached keeps its
// members in the list, as unavailable, until it is forgotten.
func cmdMembers(env *command.Env) *cobra.Command {
	// The flags write into the request.
	var req symbiov1.MembersRequest
	var watch bool
	cmd := &cobra.Command{
		Use:  "members",
		Args: command.NoArgs,
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, _ []string) error {
			if watch {
				return watchMembers(ctx, env, client, &req)
			}
			reply, err := client.Members(ctx, &req)
			if err != nil {
				return err
			}
			if len(reply.GetMembers()) == 0 && !env.JSON {
				// Only a person gets the hint: the empty list of JSON says the same.
				env.Notef("no members match; `symbio agents spawn general` starts an agent, and other nodes appear by themselves")
			}
			return printMembers(env, reply.GetMembers())
		}),
	}
	cmd.Flags().StringVar(&req.Accepts, "accepts", "", "only members that receive this `PERCEPTION`")
	cmd.Flags().StringVar(&req.Provides, "provides", "", "only members that provide this `CAPABILITY`")
	cmd.Flags().StringVar(&req.Node, "on", "", "only members of this `NODE`, by name or id")
	cmd.Flags().StringArrayVar(&req.Labels, "label", nil, "only members of nodes with this `LABEL`, such as gpu or room=kitchen; may be repeated")
	cmd.Flags().BoolVar(&watch, "watch", false, "print each later change, too, until Ctrl-C")
	return cmd
}

// printMembers prints a list of members. On a terminal, columns that matter less are last, so that a
// narrow one leaves them out, and of the capabilities that every node has there is only the number.
func printMembers(env *command.Env, all []*symbiov1.LocatedMember) error {
	if !env.OutIsTerminal || env.JSON {
		return command.PrintList(env, all, []string{"ID", "NAME", "NODE", "ACCEPTS", "PROVIDES", "STATE"}, memberRow)
	}
	return command.PrintList(env, all, []string{"ID", "NAME", "NODE", "STATE", "PROVIDES", "ACCEPTS"}, func(m *symbiov1.LocatedMember) []string {
		provides := slices.DeleteFunc(slices.Clone(m.GetProvides()), command.IsCommon)
		if common := len(m.GetProvides()) - len(provides); common > 0 {
			provides = append(provides, fmt.Sprintf("%d of each node", common))
		}
		return []string{m.GetId(), m.GetName(), nodeText(m), availabilityText(m), strings.Join(provides, ", "), strings.Join(m.GetAccepts(), ", ")}
	})
}

// memberRow returns the columns of one member. ACCEPTS and PROVIDES are lists separated by commas.
func memberRow(m *symbiov1.LocatedMember) []string {
	return []string{
		m.GetId(), m.GetName(), nodeText(m), strings.Join(m.GetAccepts(), ","), strings.Join(m.GetProvides(), ","), availabilityText(m),
	}
}

// nodeResource is a message about something on a node: a member or an offered capability. The
// generated messages LocatedMember and OfferedCapability have these getters in common.
type nodeResource interface {
	GetNodeName() string
	GetLocal() bool
	GetAvailable() bool
}

// nodeText returns the name of the node, and whether it is the one that was asked.
func nodeText(l nodeResource) string {
	if l.GetLocal() {
		return l.GetNodeName() + " (here)"
	}
	return l.GetNodeName()
}

// availabilityText returns whether the node can be reached now.
func availabilityText(l nodeResource) string {
	if l.GetAvailable() {
		return "available"
	}
	return "unavailable"
}

// watchMembers prints changes until the stream ends or ctx does; an interrupt is no error. The
// first change has type "snapshot" and holds all members. After type "gap", which means that
// changes were missed, it holds all of them again.
func watchMembers(ctx context.Context, env *command.Env, client symbiov1.ControlClient, req *symbiov1.MembersRequest) error {
	stream, err := client.WatchMembers(ctx, req)
	if err != nil {
		return err
	}
	for {
		change, err := stream.Recv()
		if err != nil {
			return endOfStream(ctx, err)
		}
		if env.JSON {
			err = env.PrintLine(change)
		} else {
			err = printChange(env, change)
		}
		if err != nil {
			return err
		}
	}
}

// printChange prints a change: all members at the start, one later. The columns are separated by
// tabs on a terminal, too, because a stream cannot be aligned. The first column is the type; a
// single change has its reason in a last column.
func printChange(env *command.Env, c *symbiov1.MemberChange) error {
	rows := [][]string{}
	for _, m := range c.GetMembers() {
		rows = append(rows, append([]string{c.GetType()}, memberRow(m)...))
	}
	// A change has either members or one member, never both.
	if c.GetMember() != nil {
		rows = append(rows, append(append([]string{c.GetType()}, memberRow(c.GetMember())...), c.GetWhy()))
	}
	for _, row := range rows {
		if _, err := fmt.Fprintln(env.Out, strings.Join(terminal.Cells(row), "\t")); err != nil {
			return err
		}
	}
	return nil
}
