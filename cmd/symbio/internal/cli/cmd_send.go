package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdSend returns the command send, which sends a perception to a member and prints the reply. Its
// exit status is 4 if there is no such member, and 5 if it cannot be reached or does not answer in
// time.
//
// DATA is JSON, other text that becomes a JSON string, or - for standard input. With --no-reply it
// returns as soon as the node has sent the perception; it is delivered at most once
// (community/design 0010).
func cmdSend(env *command.Env) *cobra.Command {
	var timeout time.Duration
	var noReply bool
	cmd := &cobra.Command{
		Use:  "send MEMBER PERCEPTION [DATA]",
		Args: command.RangeArgs(2, 3),
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, args []string) error {
			// Without DATA the perception carries null.
			data, err := command.Payload(env.In, append(args, "")[2])
			if err != nil {
				return err
			}
			reply, err := client.Send(ctx, &symbiov1.SendRequest{
				Member: args[0], Perception: args[1], Data: data, Timeout: durationpb.New(timeout), NoReply: noReply,
			})
			if err != nil {
				return err
			}
			// The node has accepted the perception; that it cannot be delivered later is an event.
			if noReply {
				return nil
			}
			if env.JSON {
				return env.PrintJSON(map[string]json.RawMessage{"reply": command.PayloadJSON(reply.GetData())})
			}
			return env.PrintPayload(reply.GetData())
		}),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", command.CallTimeout, "longest `DURATION` to wait for the reply")
	cmd.Flags().BoolVar(&noReply, "no-reply", false, "do not wait for a reply")
	return cmd
}
