package sessioncmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"symbio/agent/session"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/sessions"
	symbiov1 "symbio/proto/symbio/v1"
)

// New returns the command `symbio sessions` with all commands below it.
func New(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "sessions", Args: command.NoArgs, RunE: command.RequireSubcommand}
	cmd.PersistentFlags().StringVar(&env.Node, "node", "", "only sessions of the node `NAME` on this machine; with --on, the node that asks (default all)")
	cmd.AddCommand(cmdList(env), cmdSearch(env), cmdShow(env), cmdExport(env), cmdRename(env), cmdFork(env), cmdUndo(env), cmdDelete(env), cmdPrune(env), cmdCost(env))
	for _, c := range cmd.Commands() {
		if strings.Contains(c.Use, " ID") {
			c.ValidArgsFunction = completeIDs(env)
		}
	}
	return cmd
}

// reader returns the results of a query.
type reader func(context.Context, session.Query) ([]session.Line, error)

// readCommand makes do the RunE of a command, with a reader of the files of this machine or, by the
// flag --on, of another node.
func readCommand(env *command.Env, cmd *cobra.Command, do func(ctx context.Context, read reader, args []string) error) *cobra.Command {
	var on string
	cmd.Flags().StringVar(&on, "on", "", "read the sessions of another `NODE` of the community, by its id or name (default this machine)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if on == "" {
			return do(cmd.Context(), filesReader(env), args)
		}
		return env.Nodes().With(func(client symbiov1.ControlClient) error { return do(cmd.Context(), remoteReader(client, on), args) })
	}
	return cmd
}

// remoteReader returns a reader of another node's sessions, over a running node of this machine.
func remoteReader(client symbiov1.ControlClient, on string) reader {
	return func(ctx context.Context, q session.Query) (all []session.Line, err error) {
		data, err := json.Marshal(q)
		if err != nil {
			return nil, err
		}
		stream, err := client.CallStream(ctx, &symbiov1.CallRequest{Capability: sessions.ReadCapability, On: on, Data: data})
		var lines bytes.Buffer
		for e := (*symbiov1.CallEvent)(nil); err == nil && e.GetReply() == nil; lines.Write(e.GetChunk().GetData()) {
			e, err = stream.Recv()
		}
		if err != nil {
			return nil, err
		}
		if all, err = q.Decode(&lines); err != nil {
			err = fmt.Errorf("node %s: %w", on, err)
		}
		return all, err
	}
}

// Resume goes on with the interrupted task of a session of another node, in the background there, and prints the session.
func Resume(ctx context.Context, env *command.Env, on, id string) error {
	return env.Nodes().With(func(client symbiov1.ControlClient) error {
		data, err := json.Marshal(map[string]string{"id": id})
		if err != nil {
			return err
		}
		reply, err := client.Call(ctx, &symbiov1.CallRequest{Capability: sessions.ResumeCapability, On: on, Data: data})
		if err != nil {
			return err
		}
		return env.Printf("%s\n", reply.GetData())
	})
}

// maxCompletions is how many sessions a shell offers at a press of Tab, the latest ones.
const maxCompletions = 50

// completeIDs returns a function that completes the ids of this machine's sessions in a shell. It
// stays silent on errors.
func completeIDs(env *command.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (ids []cobra.Completion, _ cobra.ShellCompDirective) {
		all, _ := env.Sessions().List(cmd.Context(), session.Filter{Roots: true, Limit: maxCompletions})
		for _, i := range all {
			ids = append(ids, cobra.CompletionWithDesc(i.ID, i.Title))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
