package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
)

func (a *App) cmdEvents() *cobra.Command {
	var since time.Duration
	var agent string
	var types []string
	cmd := &cobra.Command{
		Use:   "events",
		Short: "What happens on the node, live, until Ctrl-C",
		Example: `  symbio events
  symbio events --since 10m --type decision     # what was allowed and refused
  symbio events --agent general --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			req := &symbiov1.EventsRequest{Agent: agent, Types: types}
			if since > 0 {
				req.Since = timestamppb.New(time.Now().Add(-since))
			}
			stream, err := client.Events(cmd.Context(), req)
			if err != nil {
				return err
			}
			for {
				e, err := stream.Recv()
				if err != nil {
					return endOfStream(cmd.Context(), err)
				}
				if err := a.printEvent(fromWire(e)); err != nil {
					return err
				}
			}
		},
	}
	cmd.Flags().DurationVar(&since, "since", 0, "begin with what happened this long ago, such as 10m")
	cmd.Flags().StringVar(&agent, "agent", "", "only events of this member, by id or name")
	cmd.Flags().StringSliceVar(&types, "type", nil, "only events of these types, such as decision")
	return cmd
}

func fromWire(e *symbiov1.Event) node.Event {
	return node.Event{Time: e.GetTime().AsTime(), Type: e.GetType(), Node: e.GetNode(), Agent: e.GetAgent(), Data: e.GetData()}
}

// printEvent prints an event as JSON, or as one line for a person.
func (a *App) printEvent(e node.Event) error {
	if a.json {
		return a.printLine(e)
	}
	_, err := fmt.Fprintln(a.Out, e.Time.Local().Format("15:04:05.000"), eventLine(e))
	return err
}

// eventLine says an event in a line.
func eventLine(e node.Event) string {
	var f map[string]any
	if json.Unmarshal(e.Data, &f) != nil {
		f = nil
	}
	who, _ := f["name"].(string)
	if who == "" {
		who = e.Agent
	}
	parts := []string{printable(e.Node), e.Type, printable(who)}
	most := 100
	if e.Type == "warning" {
		most = 400 // what is to be mended is said whole
	}
	for _, key := range []string{"state", "on", "tool", "verdict", "rule", "skill", "rules", "listed", "capability", "perception", "count", "from", "member", "model", "next", "wait", "text", "reason", "why", "mend", "trace", "error"} {
		if v, ok := f[key]; ok && v != "" {
			parts = append(parts, key+"="+clip(printable(fmt.Sprint(v)), most))
		}
	}
	return strings.Join(parts, " ")
}

// clip shortens text to n characters for a line on a terminal.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
