package cli

import (
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	symbiov1 "symbio/proto/symbio/v1"
)

func (a *App) cmdInvoke() *cobra.Command {
	var timeout time.Duration
	var on string
	var stream bool
	cmd := &cobra.Command{
		Use:   "invoke CAPABILITY [DATA]",
		Short: "Have another node do what it offers, and print the result",
		Long: `Invoke a capability of another node and print the result. DATA is JSON, or text; - reads it from
standard input. Without --on, any available node that provides the capability is asked.

With --stream, what the other node says before its result is shown when it comes: how far it is on
standard error, parts of its output on standard output; with --json as lines with a type, progress or
output, the last one result. Ctrl-C ends the work there.`,
		Example: `  symbio invoke node.info
  symbio invoke text.wordcount "how many words are these" --on kitchen
  symbio invoke backup.run --stream            # how far it is, while it is
  symbio capabilities text.wordcount --json    # who provides it, and what it takes`,
		Args: rangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := a.payload(append(args, "")[1])
			if err != nil {
				return err
			}
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			req := &symbiov1.CallRequest{
				Capability: args[0], On: on, Data: data, Timeout: durationpb.New(timeout),
				Traceparent: a.Getenv("TRACEPARENT"), Tracestate: a.Getenv("TRACESTATE"),
			}
			if stream {
				return a.invokeStream(cmd.Context(), client, req)
			}
			reply, err := client.Call(cmd.Context(), req)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(invokedOf(reply))
			}
			return a.printAnswer(reply.GetData())
		},
	}
	cmd.Flags().StringVar(&on, "on", "", "the member or node that is to do it, by id or name")
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "how long to wait for the result")
	cmd.Flags().BoolVar(&stream, "stream", false, "show progress and output as they come")
	return cmd
}
