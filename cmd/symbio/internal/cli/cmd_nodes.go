package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	symbiov1 "symbio/proto/symbio/v1"
)

// nodeJSON is a node in the output; the names are a contract.
type nodeJSON struct {
	ID       string  `json:"id"`
	Name     string  `json:"name"`
	State    string  `json:"state"`
	Addr     string  `json:"addr"`
	RTT      float64 `json:"rtt_ms"`
	Members  uint32  `json:"members"`
	Protocol string  `json:"protocol"`
	CertDays int     `json:"cert_days"`
	Why      string  `json:"why,omitempty"`
	// Refused counts the calls of that node that this one refused, by the reason; on the line of this
	// node, of all nodes.
	Refused map[string]uint64 `json:"refused"`
	// Process is what this node takes of its machine; the other lines have none.
	Process *processJSON `json:"process,omitempty"`
	// Via is dialled, or reversed = over a connection that the node opened; "" = not connected.
	Via string `json:"via,omitempty"`
	// Sources are what discovery sees it by: mdns, static, dns, introduced.
	Sources []string `json:"sources"`
	// Authority says that it holds the cluster's authority; of another node, as it says.
	Authority bool `json:"authority,omitempty"`
}

// processJSON is in bytes; heap is what was in use after the latest garbage collection.
type processJSON struct {
	Goroutines uint64 `json:"goroutines"`
	Heap       uint64 `json:"heap"`
	Memory     uint64 `json:"memory"`
}

func (a *App) cmdNodes() *cobra.Command {
	return &cobra.Command{
		Use:     "nodes",
		Short:   "Machines: who they are, how they are reached, and why one is not",
		Example: "  symbio nodes\n  symbio nodes --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			reply, err := client.Nodes(cmd.Context(), &symbiov1.NodesRequest{})
			if err != nil {
				return err
			}
			nodes := make([]nodeJSON, len(reply.GetNodes()))
			for i, n := range reply.GetNodes() {
				nodes[i] = toNode(n)
			}
			if a.json {
				return a.printJSON(nodes)
			}
			rows := make([][]string, len(nodes))
			for i, n := range nodes {
				rtt := ""
				if n.RTT > 0 {
					rtt = strconv.FormatFloat(n.RTT, 'f', 1, 64) + " ms"
				}
				rows[i] = []string{n.ID, n.Name, n.State, n.Addr, rtt, strconv.Itoa(int(n.Members)), n.Protocol, fmt.Sprintf("%d days", n.CertDays), n.Why, n.Via, strings.Join(n.Sources, ",")}
			}
			return a.table([]string{"ID", "NAME", "STATE", "ADDRESS", "RTT", "MEMBERS", "PROTOCOL", "CERTIFICATE", "WHY", "VIA", "SEEN BY"}, rows)
		},
	}
}

func toNode(n *symbiov1.Node) nodeJSON {
	out := nodeJSON{
		ID: n.GetId(), Name: n.GetName(), State: n.GetState(), Addr: n.GetAddr(), Members: n.GetMembers(), Protocol: n.GetProtocol(), Why: n.GetWhy(),
		RTT: float64(n.GetRtt().AsDuration().Microseconds()) / 1000, CertDays: int(n.GetCertDays()), Refused: n.GetRefused(),
		Via: n.GetVia(), Sources: n.GetSources(), Authority: n.GetHoldsAuthority(),
	}
	if out.Refused == nil {
		out.Refused = map[string]uint64{}
	}
	if p := n.GetProcess(); p != nil {
		out.Process = &processJSON{p.GetGoroutines(), p.GetHeap(), p.GetMemory()}
	}
	if out.Sources == nil {
		out.Sources = []string{}
	}
	return out
}
