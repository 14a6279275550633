package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdNodes returns the command nodes. It lists this node, those that are connected, and those that
// were seen but cannot be reached, with the reason. Seen means that a source of discovery named an
// address; such a node may have no id yet.
func cmdNodes(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "nodes",
		Aliases: []string{"node"}, // for symbio node drain
		Args:    command.NoArgs,
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, _ []string) error {
			reply, err := client.Nodes(ctx, &symbiov1.NodesRequest{Load: true})
			if err != nil {
				return err
			}
			return printNodes(env, reply.GetNodes())
		}),
	}
	cmd.AddCommand(cmdCapabilities(env), cmdNodesDrain(env))
	return cmd
}

// nodeHeading has the names of the columns of nodeRow.
var nodeHeading = []string{
	"ID", "NAME", "STATE", "ADDRESS", "RTT", "AGENTS", "LABELS", "MEMBERS", "PROTOCOL", "CERTIFICATE", "WHY", "VIA", "SEEN BY", "ROLE", "CERTIFIED",
}

// wideColumns is the width of a terminal from which on the labels of nodes and all else of them is shown.
const wideColumns = 120

// nodesColumns are the columns of nodeRow in the order of a terminal, which leaves out the last ones where it is narrow: short
// ones, and why a node is not connected, come first.
var nodesColumns = []int{0, 1, 2, 3, 4, 5, 10, 6, 7, 8, 9, 13, 14, 11, 12}

// printNodes prints a list of nodes.
func printNodes(env *command.Env, all []*symbiov1.Node) error {
	if !env.OutIsTerminal || env.JSON {
		return command.PrintList(env, all, nodeHeading, nodeRow)
	}
	shown := nodesColumns
	if terminal.Columns(env.Out) < wideColumns {
		shown = shown[:7]
	}
	pick := func(row []string) []string { return command.Map(shown, func(i int) string { return row[i] }) }
	return command.PrintList(env, all, pick(nodeHeading), func(n *symbiov1.Node) []string {
		row := nodeRow(n)
		row[5] = strings.TrimSuffix(row[5], ", 0 wait")
		return pick(row)
	})
}

// nodeRow returns the columns of one node; the round-trip time is empty until it is measured. WHY
// is why it is not connected, VIA the node that forwards to it, and SEEN BY the sources of
// discovery. The days of the certificate are negative after its end. The round-trip time is in
// milliseconds, with one decimal. AGENTS are those that run there, the free places, and its own tasks
// that wait for one; empty if the node does not say it. CERTIFIED are the labels of its certificate.
func nodeRow(n *symbiov1.Node) []string {
	rtt := ""
	if n.GetRttMs() > 0 {
		rtt = strconv.FormatFloat(n.GetRttMs(), 'f', 1, 64) + " ms"
	}
	agents := ""
	if n.Running != nil {
		agents = fmt.Sprintf("%d, %d free, %d wait", n.GetRunning(), n.GetFree(), n.GetWaiting())
	}
	return []string{
		n.GetId(), n.GetName(), n.GetState(), n.GetAddr(), rtt, agents, command.PairsText(n.GetLabels()), strconv.Itoa(int(n.GetMembers())),
		n.GetProtocol(), visible.Plural(int(n.GetCertDays()), "day"), n.GetWhy(), n.GetVia(), strings.Join(n.GetSources(), ","), n.GetRole(),
		command.PairsText(n.GetCertified()),
	}
}
