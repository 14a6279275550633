package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"symbio/cmd/symbio/internal/terminal"
	symbiov1 "symbio/proto/symbio/v1"
)

// ErrNoNode says that there is no node to talk to.
var ErrNoNode = Unavailable(errors.New("no node is running on this machine\nStart one with: symbio up"))

// ErrOtherWorkspace says that nodes are running, but none works in this directory.
var ErrOtherWorkspace = errors.New("no node works in this directory")

// Dial connects to the node that --node names, else to the only one; the caller closes the connection.
func (env *Env) Dial() (symbiov1.ControlClient, *grpc.ClientConn, error) {
	return env.dialMatching(func(string) bool { return true })
}

// OnNode returns what a command runs that asks the node of Dial something.
func (env *Env) OnNode(do func(context.Context, symbiov1.ControlClient, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, conn, err := env.Dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		return do(cmd.Context(), client, args)
	}
}

// DialWorkspace is Dial among the nodes whose agents work in the directory where the command is typed. ErrNotHere: nodes are
// running, but not here.
func (env *Env) DialWorkspace(ctx context.Context) (symbiov1.ControlClient, *grpc.ClientConn, error) {
	here, err := env.Workspace()
	if err != nil {
		return nil, nil, err
	}
	return env.dialMatching(func(name string) bool { return sameDir(env.workspaceOf(ctx, name), here) })
}

// dialMatching connects to the node that --node names, else to the only running one that fits.
func (env *Env) dialMatching(fits func(name string) bool) (symbiov1.ControlClient, *grpc.ClientConn, error) {
	if env.Node != "" {
		return env.dialNode(env.Node)
	}
	state, err := env.State()
	if err != nil {
		return nil, nil, err
	}
	running, err := state.Running()
	if err != nil {
		return nil, nil, err
	}
	found := slices.DeleteFunc(slices.Clone(running), func(name string) bool { return !fits(name) })
	switch {
	case len(running) == 0:
		return nil, nil, ErrNoNode
	case len(found) == 0:
		return nil, nil, Usage(fmt.Errorf("%w: the agents of %s work in other directories\nChange there, or name one with --node", ErrOtherWorkspace, strings.Join(running, ", ")))
	case len(found) > 1:
		return nil, nil, Usage(fmt.Errorf("%d nodes are running here: %s\nSay which with --node NAME", len(found), strings.Join(found, ", ")))
	}
	return env.dialNode(found[0])
}

// dialNode connects to the node of that name; the caller closes the connection.
func (env *Env) dialNode(name string) (symbiov1.ControlClient, *grpc.ClientConn, error) {
	state, err := env.State()
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(state.Node(name).Socket()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, Unavailable(fmt.Errorf("no node %q is running on this machine\nStart it with: symbio up --name %s", name, name))
	}
	conn, err := state.Node(name).Dial()
	if err != nil {
		return nil, nil, err
	}
	return symbiov1.NewControlClient(conn), conn, nil
}

// CheckWorkspace returns an error when --node names a node whose agents work in another directory than this one.
func (env *Env) CheckWorkspace(ctx context.Context) error {
	here, err := env.Workspace()
	if at := env.workspaceOf(ctx, env.Node); err == nil && at != "" && !sameDir(at, here) {
		err = Usage(fmt.Errorf("node %s works in %s, not here, in %s\nType it there, or leave out --node", env.Node, terminal.Printable(at), terminal.Printable(here)))
	}
	return err
}

// statusTimeout is how long a node of this machine has to answer: a healthy one does in milliseconds.
const statusTimeout = 2 * time.Second

// workspaceOf asks a running node where its agents work; "" when it does not say.
func (env *Env) workspaceOf(ctx context.Context, name string) string {
	client, conn, err := env.dialNode(name)
	if err != nil {
		return ""
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	s, _ := client.Status(ctx, &symbiov1.StatusRequest{}) // a node that does not answer works nowhere
	return s.GetWorkspace()
}

func sameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// NodeFlag gives commands that act on a running node the flag --node, which names it. To the others the flag is unknown.
func NodeFlag(env *Env, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.PersistentFlags().StringVar(&env.Node, "node", "", "which of this machine's nodes to talk to (default: the only one)")
	}
	return commands
}
