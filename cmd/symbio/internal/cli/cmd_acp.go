package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"symbio/cmd/symbio/internal/acpcmd"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/control"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdACP returns the command acp, which serves an editor on standard input and output until the editor
// ends it. Its exit status is 0 then.
func cmdACP(env *command.Env) *cobra.Command {
	var open symbiov1.RunRequest
	var file string
	cmd := &cobra.Command{
		Use:  "acp",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(open.On) > 0 && open.Model != "" {
				return command.Usage(errors.New("with --on the agent's definition on the other node says its model: leave out --model"))
			}
			ctx, stop := context.WithCancel(cmd.Context())
			nodes := editorNodes{env: env, file: file, on: len(open.On) > 0, ctx: ctx, own: map[string]string{}}
			err := acpcmd.Serve(ctx, env, acpcmd.Options{Open: &open, Find: nodes.find})
			stop()
			return errors.Join(err, nodes.group.Wait())
		},
	}
	cmd.Flags().StringVar(&open.Agent, "agent", "", "`NAME` of the agent's definition (default general)")
	cmd.Flags().StringVar(&open.Model, "model", "", "`MODEL`, as of symbio chat (default as configured)")
	cmd.Flags().StringArrayVar(&open.On, "on", nil, command.OnHelp)
	command.ConfigFlag(cmd, &file)
	return cmd
}

// editorNodes finds the nodes for the sessions of an editor, as `symbio chat` does in one directory. It is safe for concurrent use.
type editorNodes struct {
	env *command.Env
	// file is the flag --config. With it all nodes are started here.
	file string
	// on is true if the agents work on other nodes: then the node here may work in any directory.
	on bool
	// ctx ends the nodes that were started here, and group has them.
	ctx   context.Context
	group errgroup.Group

	mu  sync.Mutex
	own map[string]string // the names of these nodes by their directories
}

// find implements acpcmd.Options.Find. It blocks until a node that it starts is ready.
func (n *editorNodes) find(ctx context.Context, dir, node string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name := n.own[dir]; name != "" && (node == "" || node == name) {
		return name, nil
	}
	if node == "" && (n.file == "" || n.env.Node != "") {
		near := n.env.Nodes().In(dir)
		dial := near.DialShared
		if n.on {
			dial = func(context.Context) (symbiov1.ControlClient, *grpc.ClientConn, error) { return near.Dial() }
		}
		client, conn, err := dial(ctx)
		if errors.Is(err, command.ErrNoNode) || errors.Is(err, command.ErrOtherWorkspace) {
			return n.start(dir, "")
		}
		if err != nil {
			return "", err
		}
		defer conn.Close()
		s, err := client.Status(ctx, &symbiov1.StatusRequest{})
		if err != nil {
			return "", err
		}
		if n.on {
			return s.GetName(), nil
		}
		return s.GetName(), fits(s, dir)
	}
	running, err := n.env.State().Running()
	if err != nil {
		return "", err
	}
	if !slices.Contains(running, node) {
		return n.start(dir, node)
	}
	return node, fits(n.env.Nodes().StatusOf(ctx, node), dir)
}

// fits returns an error if the agents of a node work in another directory than dir.
func fits(s *symbiov1.StatusReply, dir string) error {
	if command.SameDir(s.GetWorkspace(), dir) {
		return nil
	}
	return fmt.Errorf("the agents of node %s work in %s, not in %s", visible.Escape(s.GetName()), visible.Escape(s.GetWorkspace()), visible.Escape(dir))
}

// start starts a node that lives as long as ctx of n; with name "" it gets a free one. The caller holds mu.
func (n *editorNodes) start(dir, name string) (string, error) {
	env := *n.env // runOwnNode sets the name in it
	f := runFlags{node: nodeFlags{config: n.file, workspace: dir, name: name, logLevel: slog.LevelWarn, logFormat: "text"}}
	ready, ended := make(chan string, 1), make(chan error, 1)
	n.group.Go(func() error {
		err := runOwnNode(n.ctx, &env, &f, func(context.Context, *control.Users, <-chan os.Signal) error {
			ready <- env.Node
			<-n.ctx.Done()
			return nil
		})
		ended <- err
		return err
	})
	select {
	case n.own[dir] = <-ready:
		return n.own[dir], nil
	case err := <-ended:
		return "", err
	}
}
