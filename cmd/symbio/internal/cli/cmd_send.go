package cli

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	symbiov1 "symbio/proto/symbio/v1"
)

// defaultTimeout is how long a call waits that was given no --timeout: long enough for an agent's
// task on a slow model.
const defaultTimeout = 5 * time.Minute

func (a *App) cmdSend() *cobra.Command {
	var timeout time.Duration
	var noReply bool
	cmd := &cobra.Command{
		Use:   "send MEMBER PERCEPTION [DATA]",
		Short: "Send a signal to a member and print its answer",
		Long: `Send a signal to a member, here or on another node, and print its answer. MEMBER is an id, or a name
that only one member has. DATA is JSON, or text; - reads it from standard input. With --no-reply it ends as
soon as the signal is on its way; if it comes to nothing later, an event "undelivered" says so.`,
		Example: `  symbio send general task "what is in this directory?"
  echo '{"url":"x"}' | symbio send crawler work -
  symbio send crawler work --no-reply '{"url":"x"}'`,
		Args: rangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := a.payload(append(args, "")[2])
			if err != nil {
				return err
			}
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			reply, err := client.Send(cmd.Context(), &symbiov1.SendRequest{
				Member: args[0], Perception: args[1], Data: data, Timeout: durationpb.New(timeout), NoReply: noReply,
			})
			if err != nil {
				return err
			}
			if noReply {
				return nil
			}
			if a.json {
				return a.printJSON(map[string]json.RawMessage{"reply": asJSON(reply.GetData())})
			}
			return a.printAnswer(reply.GetData())
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "how long to wait for the answer")
	cmd.Flags().BoolVar(&noReply, "no-reply", false, "do not wait for an answer")
	return cmd
}
