package agentcmd

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdSteer returns the command steer, which gives a text to an agent while it works. It waits until
// the text is delivered. Its exit status is 1 if the text came back undelivered, and 5 after
// --timeout.
//
// The agent can live on another node. An agent without a task keeps the text for its next one,
// which is no error.
func cmdSteer(env *command.Env) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:  "steer MEMBER TEXT",
		Args: command.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			// The text is read before the node is dialled: standard input can take its time.
			text, err := command.Text(env.In, "text", args[1:])
			if err != nil {
				return err
			}
			return env.Nodes().With(func(client symbiov1.ControlClient) error {
				// The timeout is the node's to keep, because only the node can withdraw the text when
				// it is over.
				reply, err := client.Steer(cmd.Context(), &symbiov1.SteerRequest{Member: args[0], Text: text, Timeout: durationpb.New(timeout)})
				if err != nil {
					return err
				}
				return printReceipt(env, reply)
			})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", command.CallTimeout, "longest `DURATION` to wait for the delivery")
	return cmd
}

// printReceipt prints what became of the text, and returns an error if it was not delivered. The
// outcome is "delivered", "kept", "sent" or "returned"; only the last is an error. --json prints
// the receipt in any case.
func printReceipt(env *command.Env, r *symbiov1.SteerReply) (err error) {
	returned := r.GetOutcome() == "returned"
	if env.JSON {
		err = env.PrintJSON(r)
	} else if !returned {
		err = env.Printf("%s\t%s on node %s\n", r.GetOutcome(), r.GetName(), r.GetNodeName())
	}
	if err == nil && returned {
		err = errors.New("the text was not delivered: " + terminal.Printable(strings.TrimSuffix(r.GetWhy(), ".")))
	}
	return err
}
