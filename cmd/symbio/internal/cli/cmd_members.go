package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	symbiov1 "symbio/proto/symbio/v1"
)

// memberJSON is a member in the output; the names are a contract.
type memberJSON struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Node      string            `json:"node"`
	NodeName  string            `json:"node_name"`
	Accepts   []string          `json:"accepts"`
	Provides  []string          `json:"provides"`
	Available bool              `json:"available"`
	Metadata  map[string]string `json:"metadata"`
	Local     bool              `json:"local"`
}

func toMember(m *symbiov1.LocatedMember) memberJSON {
	out := memberJSON{
		ID: m.GetMember().GetId(), Name: m.GetMember().GetName(), Node: m.GetMember().GetNode(), NodeName: m.GetNodeName(),
		Accepts: m.GetMember().GetAccepts(), Provides: m.GetMember().GetProvides(), Available: m.GetMember().GetAvailable(),
		Metadata: m.GetMember().GetMetadata(), Local: m.GetLocal(),
	}
	if out.Accepts == nil {
		out.Accepts = []string{}
	}
	if out.Provides == nil {
		out.Provides = []string{}
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	return out
}

func toMembers(list []*symbiov1.LocatedMember) []memberJSON {
	out := make([]memberJSON, len(list))
	for i, m := range list {
		out[i] = toMember(m)
	}
	return out
}

func (a *App) cmdMembers() *cobra.Command {
	var req symbiov1.MembersRequest
	var watch bool
	cmd := &cobra.Command{
		Use:   "members",
		Short: "Who is in the community, here and on other nodes",
		Example: `  symbio members
  symbio members --accepts task       # agents that take tasks
  symbio members --provides text.wordcount
  symbio members --watch              # then each change, until Ctrl-C`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			if watch {
				return a.watchMembers(cmd, client, &req)
			}
			reply, err := client.Members(cmd.Context(), &req)
			if err != nil {
				return err
			}
			members := toMembers(reply.GetMembers())
			if a.json {
				return a.printJSON(members)
			}
			if len(members) == 0 {
				fmt.Fprintln(a.Err, "nobody is here yet; `symbio spawn general` starts an agent, and other nodes appear by themselves")
			}
			rows := make([][]string, len(members))
			for i, m := range members {
				rows[i] = memberRow(m)
			}
			return a.table([]string{"ID", "NAME", "NODE", "ACCEPTS", "PROVIDES", "STATE"}, rows)
		},
	}
	cmd.Flags().StringVar(&req.Accepts, "accepts", "", "only members that receive signals of this perception")
	cmd.Flags().StringVar(&req.Provides, "provides", "", "only members that provide this capability")
	cmd.Flags().StringVar(&req.Node, "on", "", "only members of the node of this name or id")
	cmd.Flags().BoolVar(&watch, "watch", false, "go on with each change, until interrupted")
	return cmd
}

func memberRow(m memberJSON) []string {
	where, state := m.NodeName, "available"
	if m.Local {
		where += " (here)"
	}
	if !m.Available {
		state = "unavailable"
	}
	return []string{m.ID, m.Name, where, strings.Join(m.Accepts, ","), strings.Join(m.Provides, ","), state}
}

// changeJSON is one change of the members in the output.
type changeJSON struct {
	Type    string       `json:"type"`
	Member  *memberJSON  `json:"member,omitempty"`
	Members []memberJSON `json:"members,omitempty"`
	Missed  uint64       `json:"missed,omitempty"`
	Why     string       `json:"why,omitempty"`
}

func (a *App) watchMembers(cmd *cobra.Command, client symbiov1.ControlClient, req *symbiov1.MembersRequest) error {
	stream, err := client.WatchMembers(cmd.Context(), req)
	if err != nil {
		return err
	}
	for {
		change, err := stream.Recv()
		if err != nil {
			return endOfStream(cmd.Context(), err)
		}
		if a.json {
			err = a.printLine(toChange(change))
		} else {
			err = a.printChange(change)
		}
		if err != nil {
			return err
		}
	}
}

func toChange(c *symbiov1.MemberChange) changeJSON {
	out := changeJSON{Type: c.GetKind(), Missed: c.GetMissed(), Why: c.GetWhy()}
	if c.GetMember() != nil {
		m := toMember(c.GetMember())
		out.Member = &m
	}
	if whole := []string{"snapshot", "gap"}; slices.Contains(whole, out.Type) {
		out.Members = toMembers(c.GetMembers())
	}
	return out
}

func (a *App) printChange(c *symbiov1.MemberChange) error {
	rows := [][]string{}
	for _, m := range c.GetMembers() {
		rows = append(rows, append([]string{c.GetKind()}, memberRow(toMember(m))...))
	}
	if c.GetMember() != nil {
		rows = append(rows, append(append([]string{c.GetKind()}, memberRow(toMember(c.GetMember()))...), c.GetWhy()))
	}
	for _, row := range rows {
		if _, err := fmt.Fprintln(a.Out, strings.Join(cells(row), "\t")); err != nil {
			return err
		}
	}
	return nil
}
