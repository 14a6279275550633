package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	symbiov1 "symbio/proto/symbio/v1"
)

// receiptJSON is what became of steering; the names are a contract.
type receiptJSON struct {
	Outcome  string `json:"outcome"` // delivered, returned, kept, sent
	Why      string `json:"why,omitempty"`
	Member   string `json:"member"`
	Name     string `json:"name"`
	Node     string `json:"node"`
	NodeName string `json:"node_name"`
}

func (a *App) cmdSteer() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "steer MEMBER TEXT",
		Short: "Say something to an agent while it works",
		Long: `Say something to an agent while it works, here or on another node. Its model is given it with the results of
the tools that it waits for, before it is asked again; the command waits until that is so, and says what became
of it: delivered, or returned when the task ended before. An agent without a task has it in front of its next
one (kept). MEMBER is an id, or a name that only one member has; - as TEXT reads it from standard input.

The status is 0 unless it was returned (1), and 5 when it was taken back because the time was over. An agent of
another node can be steered when that node's configuration lets this one invoke agents.steer.`,
		Example: `  symbio steer general "leave the tests alone"
  symbio steer general --timeout 10s --json "and be quick"`,
		Args: exactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.text("text", args[1:])
			if err != nil {
				return err
			}
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			reply, err := client.Steer(cmd.Context(), &symbiov1.SteerRequest{Member: args[0], Text: text, Timeout: durationpb.New(timeout)})
			if err != nil {
				return err
			}
			return a.printReceipt(reply)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "how long to wait for the place where it fits")
	return cmd
}

func (a *App) printReceipt(reply *symbiov1.SteerReply) error {
	m := reply.GetMember()
	r := receiptJSON{reply.GetOutcome(), reply.GetWhy(), m.GetMember().GetId(), m.GetMember().GetName(), m.GetMember().GetNode(), m.GetNodeName()}
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else if r.Outcome != "returned" {
		if _, err := fmt.Fprintf(a.Out, "%s\t%s on node %s\n", printable(r.Outcome), printable(r.Name), printable(r.NodeName)); err != nil {
			return err
		}
	}
	if r.Outcome == "returned" {
		return errors.New("it was not put to the agent: " + printable(strings.TrimSuffix(r.Why, ".")))
	}
	return nil
}
