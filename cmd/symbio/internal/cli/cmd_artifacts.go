package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdArtifacts returns the command artifacts, which groups the commands for what a node keeps of results
// that are too large for a model. All of them ask a running node.
func cmdArtifacts(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "artifacts", Args: command.NoArgs, RunE: command.RequireSubcommand}
	cmd.AddCommand(cmdArtifactsGet(env), cmdArtifactsRm(env), &cobra.Command{
		Use:  "list",
		Args: command.NoArgs,
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, _ []string) error {
			reply, err := client.Artifacts(ctx, &symbiov1.ArtifactsRequest{})
			if err != nil {
				return err
			}
			return printArtifacts(env, reply.GetArtifacts())
		}),
	})
	return cmd
}

// printArtifacts prints a list. It shows 16 digits of a hash, which is enough for the other commands.
func printArtifacts(env *command.Env, all []*symbiov1.Artifact) error {
	return command.PrintList(env, all, []string{"HASH", "BYTES", "TYPE", "CREATED", "SESSIONS", "NAME"}, func(a *symbiov1.Artifact) []string {
		return []string{a.GetHash()[:16], fmt.Sprint(a.GetSize()), a.GetContentType(),
			a.GetCreated().AsTime().Local().Format(time.DateTime), strings.Join(a.GetSessions(), " "), visible.Escape(a.GetName())}
	})
}

// cmdArtifactsGet returns the command artifacts get. Its exit status is 4 if the node has no such artifact.
func cmdArtifactsGet(env *command.Env) *cobra.Command {
	var file, on string
	cmd := &cobra.Command{
		Use:  "get HASH",
		Args: command.ExactArgs(1),
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, args []string) error {
			r := &symbiov1.GetArtifactRequest{Hash: args[0], On: on}
			switch {
			case file != "":
				return writeArtifact(ctx, env, client, r, file)
			case env.JSON:
				return command.Usage(errors.New("--json describes the file that was written: give -o FILE"))
			case !env.OutIsTerminal:
				_, _, err := receiveArtifact(ctx, client, r, env.Out, "")
				return err
			}
			var text bytes.Buffer
			_, _, err := receiveArtifact(ctx, client, r, &text, "text/")
			return errors.Join(err, env.PrintText(text.String()))
		}),
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write it to `FILE`")
	cmd.Flags().StringVar(&on, "on", "", "fetch it from another `NODE`, by name or id")
	return cmd
}

// receiveArtifact writes an artifact to w, and returns its size and type. It is an error if the type does not begin
// as it is wanted.
func receiveArtifact(ctx context.Context, client symbiov1.ControlClient, r *symbiov1.GetArtifactRequest, w io.Writer, want string) (size int, kind string, err error) {
	stream, err := client.GetArtifact(ctx, r)
	for err == nil {
		var c *symbiov1.Chunk
		if c, err = stream.Recv(); err == nil {
			if kind = c.GetContentType(); !strings.HasPrefix(kind, want) {
				return 0, kind, command.Usage(fmt.Errorf("artifact %s is %s, which a terminal cannot show; write it to a file with -o FILE", r.GetHash(), kind))
			}
			size += len(c.GetData())
			_, err = w.Write(c.GetData())
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return size, kind, err
}

// writeArtifact writes an artifact to a file, which is removed if it does not come whole.
func writeArtifact(ctx context.Context, env *command.Env, client symbiov1.ControlClient, r *symbiov1.GetArtifactRequest, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	size, kind, err := receiveArtifact(ctx, client, r, f, "")
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	if env.JSON {
		return env.PrintJSON(map[string]any{"file": file, "size": size, "content_type": kind})
	}
	env.Notef("%s: %s, %s", file, visible.Plural(int(size), "byte"), kind)
	return nil
}

// cmdArtifactsRm returns the command artifacts rm. If the person says no it removes nothing.
func cmdArtifactsRm(env *command.Env) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:  "rm HASH...",
		Args: command.MinArgs(1),
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, args []string) error {
			all, err := client.Artifacts(ctx, &symbiov1.ArtifactsRequest{})
			if err != nil {
				return err
			}
			confirm := env.Confirm
			for _, a := range all.GetArtifacts() {
				meant := func(arg string) bool { return strings.HasPrefix(a.GetHash(), strings.TrimPrefix(arg, "artifact:")) }
				if yes || len(a.GetSessions()) == 0 || !slices.ContainsFunc(args, meant) {
					continue
				}
				ok, err := confirm(ctx, fmt.Sprintf("%.16s (%s) is named by the session %s. Remove it?", a.GetHash(), visible.Escape(a.GetName()), strings.Join(a.GetSessions(), ", ")))
				if err != nil || !ok {
					return cmp.Or(err, errors.New("nothing was removed: sessions name it; --yes removes it all the same"))
				}
			}
			reply, err := client.RemoveArtifacts(ctx, &symbiov1.RemoveArtifactsRequest{Hashes: args})
			if err != nil {
				return err
			}
			return printArtifacts(env, reply.GetArtifacts())
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask about those that a session names")
	return cmd
}
