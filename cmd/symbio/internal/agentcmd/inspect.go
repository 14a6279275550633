package agentcmd

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdAgentsInspect returns the command agents inspect, which prints what the model of a running
// agent was given in its last request. Sizes are bytes, and tokens are estimated, so they can
// differ from what a provider counts. The texts are only in the JSON.
//
// The agent can live on another node. Before its first request the parts are its instructions and
// tools. Its exit status is 4 if there is no such agent.
func cmdAgentsInspect(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:  "inspect AGENT",
		Args: command.ExactArgs(1),
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, args []string) error {
			reply, err := client.Inspect(ctx, &symbiov1.InspectRequest{Member: args[0]})
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(reply)
			}
			// total is the last element of the list, and the loop adds to it through the pointer,
			// so its own row, which comes last, has the sums of all rows before.
			rows, total := [][]string{}, &symbiov1.ShownPart{Kind: "total", Name: "estimate"}
			for _, p := range append(reply.GetParts(), total) {
				rows = append(rows, []string{p.GetKind(), p.GetName(), fmt.Sprint(p.GetCount()), fmt.Sprint(p.GetBytes()), fmt.Sprint(p.GetTokens())})
				total.Count, total.Bytes, total.Tokens = total.GetCount()+p.GetCount(), total.GetBytes()+p.GetBytes(), total.GetTokens()+p.GetTokens()
			}
			return env.Table([]string{"KIND", "NAME", "COUNT", "BYTES", "TOKENS"}, slices.Values(rows))
		}),
	}
}
