package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/control"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdEvents returns the command events, which prints the events of a node until it is interrupted.
// --since and --after start with past events that the node has kept.
//
// It shows the events of one node; other nodes' events are seen there. An event of type "gap" says
// that some are missing: this reader was too slow, or they are not kept any more.
func cmdEvents(env *command.Env) *cobra.Command {
	var since time.Duration
	var after uint64
	var agent string
	var types []string
	cmd := &cobra.Command{Use: "events", Args: command.NoArgs}
	cmd.RunE = env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, _ []string) error {
		req := &symbiov1.EventsRequest{Agent: agent, Types: types}
		if cmd.Flags().Changed("after") {
			if since > 0 {
				return command.Usage(errors.New("--since and --after both say where to begin: give only one of them"))
			}
			req.After = &after
		}
		if since > 0 {
			// This process and the node have the same clock, because both are on
			// one machine.
			req.Since = timestamppb.New(time.Now().Add(-since))
		}
		stream, err := client.Events(ctx, req)
		if err != nil {
			return err
		}
		for {
			// Receive joins an event that came in several messages because it was larger than
			// one.
			e, err := control.Receive(stream.Recv)
			if err != nil {
				return endOfStream(ctx, err)
			}
			if err := printEvent(env, e); err != nil {
				return err
			}
		}
	})
	cmd.Flags().DurationVar(&since, "since", 0, "begin with the kept events of the last `DURATION`, such as 10m (default only new ones)")
	cmd.Flags().Uint64Var(&after, "after", 0, "begin with the kept events after the one with this `SEQ`")
	cmd.Flags().StringVar(&agent, "agent", "", "only events of this `MEMBER`, by id or name")
	cmd.Flags().StringSliceVar(&types, "type", nil, "only events of these `TYPES`, such as decision; separated by commas")
	return cmd
}

// printEvent prints an event as JSON, or as one line for people, with the local time. The format
// for people is no contract.
func printEvent(env *command.Env, e event.Event) error {
	if env.JSON {
		return env.PrintLine(e)
	}
	_, err := fmt.Fprintln(env.Out, e.Time.Local().Format("15:04:05.000"), command.EventLine(e))
	return err
}

// endOfStream returns the error of a stream that has no end of its own: nil when this process ended
// it or the node closed it, else err. ctx must be the context of the stream.
func endOfStream(ctx context.Context, err error) error {
	if errors.Is(err, io.EOF) || ctx.Err() != nil && status.Code(err) == codes.Canceled {
		return nil
	}
	return err
}
