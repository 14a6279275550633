package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/tasks"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdNodesDrain returns the command nodes drain. It prints what still runs, after each change, and ends when nothing does.
// Its exit status is 5 when the time of --timeout passes before; the node drains on then, also when the command is
// interrupted.
func cmdNodesDrain(env *command.Env) *cobra.Command {
	var undo, stop bool
	var timeout time.Duration
	cmd := &cobra.Command{Use: "drain", Args: command.NoArgs}
	cmd.RunE = env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, _ []string) error {
		if timeout < 0 {
			return command.Usage(fmt.Errorf("--timeout %v: want a duration above 0, or 0 for no limit", timeout))
		}
		status, err := client.Status(ctx, &symbiov1.StatusRequest{})
		if err != nil {
			return err
		}
		// The first state is not bound by the limit, so that the node drains in any case.
		limit, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if timeout > 0 {
			defer time.AfterFunc(timeout, func() { cancel(context.DeadlineExceeded) }).Stop()
		}
		stream, err := client.Drain(limit, &symbiov1.DrainRequest{Undo: undo, Stop: stop})
		if err != nil {
			return err
		}
		var last *symbiov1.DrainState
		for {
			state, err := stream.Recv()
			switch {
			case err == nil:
			case errors.Is(err, io.EOF), last.GetDone(): // with --stop the node may be gone before it ends the call
				return nil
			case context.Cause(limit) == context.DeadlineExceeded:
				return command.Unavailable(fmt.Errorf("after %v there still runs on node %s: %s\nIt takes no new work; wait on with symbio nodes drain, or let it take work again with --undo",
					timeout, status.GetName(), works(last.GetRunning())))
			default:
				return err
			}
			last = state
			if err := printDrain(env, status.GetName(), state, stop); err != nil {
				return err
			}
		}
	})
	cmd.Flags().BoolVar(&stop, "stop", false, "stop the node when nothing runs any more")
	cmd.Flags().BoolVar(&undo, "undo", false, "let the node take work again")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "wait for `DURATION` at most, such as 10m; the node drains on after it (default no limit)")
	cmd.MarkFlagsMutuallyExclusive("stop", "undo")
	cmd.MarkFlagsMutuallyExclusive("timeout", "undo")
	return cmd
}

// printDrain prints one state: as JSON, or as a line for people.
func printDrain(env *command.Env, node string, s *symbiov1.DrainState, stop bool) error {
	switch {
	case env.JSON:
		return env.PrintLine(s)
	case !s.GetDraining():
		return env.Printf("node %s takes work again\n", node)
	case s.GetDone() && stop:
		return env.Printf("node %s is drained and stops\n", node)
	case s.GetDone():
		return env.Printf("node %s is drained: it can be stopped, or take work again with symbio nodes drain --undo\n", node)
	case len(s.GetRunning()) > 0:
		env.Notef("node %s is draining; there still runs: %s", node, works(s.GetRunning()))
	}
	return nil
}

// works names what runs, for people.
func works(all []*symbiov1.Work) string {
	words := map[string]string{
		tasks.WorkCall: "call of", tasks.WorkLent: "agent lent to",
		tasks.WorkAgent: "agent at work:", tasks.WorkCommand: "command of this machine:",
	}
	commands := map[string]string{"RunTask": "task", "Converse": "conversation", "Send": "send", "Call": "invoke", "CallStream": "invoke", "Spawn": "spawn"}
	var texts []string
	for _, w := range all {
		name := w.GetName()
		if w.GetKind() == tasks.WorkCommand && commands[name] != "" {
			name = commands[name]
		}
		texts = append(texts, fmt.Sprintf("%d %s %s", w.GetCount(), words[w.GetKind()], name))
	}
	return strings.Join(texts, ", ")
}
