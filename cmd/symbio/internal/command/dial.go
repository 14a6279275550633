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

	statedir "symbio/internal/agent/node/state"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// ErrNoNode is returned by Dial and DialWorkspace when no node of this user is running on this
// machine. Its exit status is 5.
var ErrNoNode = Unavailable(errors.New("no node is running on this machine\nStart one with: symbio up"))

// ErrOtherWorkspace is returned by DialWorkspace when nodes are running, but the agents of none of
// them work in the current directory.
var ErrOtherWorkspace = errors.New("no node works in this directory")

// Nodes connects to the running nodes of this user on this machine.
type Nodes struct {
	state     statedir.Dir
	workspace func() (string, error)
	named     string // --node
	preferred string // $SYMBIO_NODE
}

// Nodes returns the nodes that a command may talk to.
func (env *Env) Nodes() Nodes {
	return Nodes{env.State(), env.Workspace, env.Node, env.Getenv("SYMBIO_NODE")}
}

// In returns the nodes for a command that acts on a directory in the place of the current one.
func (n Nodes) In(dir string) Nodes {
	n.workspace = func() (string, error) { return dir, nil }
	return n
}

// OnNode returns a cobra RunE that calls do as Nodes.With does.
func (env *Env) OnNode(do func(context.Context, symbiov1.ControlClient, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return env.Nodes().With(func(client symbiov1.ControlClient) error { return do(cmd.Context(), client, args) })
	}
}

// Dial connects to the control socket of the node that --node names, else to the only running one, or of
// several the one that prefer finds. The caller must close the connection. It returns ErrNoNode when no
// node is running, and a usage error when there are several to choose from.
func (n Nodes) Dial() (symbiov1.ControlClient, *grpc.ClientConn, error) {
	return n.dialMatching(func(string) bool { return true })
}

// With connects as Dial does, calls do, and closes the connection.
func (n Nodes) With(do func(symbiov1.ControlClient) error) error {
	client, conn, err := n.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(client)
}

// DialWorkspace is Dial among the nodes whose agents work in the current directory, because a
// command acts on the directory in which it is typed. It returns ErrOtherWorkspace when only nodes
// of other directories are running.
func (n Nodes) DialWorkspace(ctx context.Context) (symbiov1.ControlClient, *grpc.ClientConn, error) {
	here, err := n.workspace()
	if err != nil {
		return nil, nil, err
	}
	return n.dialMatching(func(name string) bool { return SameDir(n.StatusOf(ctx, name).GetWorkspace(), here) })
}

// DialShared is DialWorkspace without the nodes that end with the commands that use them: a task that
// a person starts in another terminal has a node, and an environment, of its own.
func (n Nodes) DialShared(ctx context.Context) (symbiov1.ControlClient, *grpc.ClientConn, error) {
	here, err := n.workspace()
	if err != nil {
		return nil, nil, err
	}
	return n.dialMatching(func(name string) bool {
		s := n.StatusOf(ctx, name)
		return !s.GetPrivate() && SameDir(s.GetWorkspace(), here)
	})
}

// dialMatching connects to the node that --node names, else to the only running node for which fits
// returns true. fits is not asked about a node that --node names.
func (n Nodes) dialMatching(fits func(name string) bool) (symbiov1.ControlClient, *grpc.ClientConn, error) {
	if n.named != "" {
		return n.DialNode(n.named)
	}
	running, err := n.state.Running()
	if err != nil {
		return nil, nil, err
	}
	// running is kept whole, because the errors below tell no node from no node here.
	found := slices.DeleteFunc(slices.Clone(running), func(name string) bool { return !fits(name) })
	if len(found) > 1 {
		found = n.prefer(found)
	}
	switch {
	case len(running) == 0:
		return nil, nil, ErrNoNode
	case len(found) == 0:
		return nil, nil, Usage(fmt.Errorf("%w: the agents of %s work in other directories\nRun the command in one of those, or choose a node with --node", ErrOtherWorkspace, strings.Join(running, ", ")))
	case len(found) > 1:
		return nil, nil, Usage(fmt.Errorf("%d nodes are running here: %s\nChoose one with --node %s, or for all commands of this shell: export SYMBIO_NODE=%[3]s", len(found), strings.Join(found, ", "), found[0]))
	}
	return n.DialNode(found[0])
}

// prefer returns the one of several nodes that $SYMBIO_NODE names, else the only one whose agents work in the current
// directory, else all.
func (n Nodes) prefer(names []string) []string {
	if slices.Contains(names, n.preferred) {
		return []string{n.preferred}
	}
	here, err := n.workspace()
	near := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return err != nil || !SameDir(n.StatusOf(context.Background(), name).GetWorkspace(), here)
	})
	if len(near) == 1 {
		return near
	}
	return names
}

// DialNode connects to the node of that name. A missing socket means that the node is not running;
// the error then says how to start it. The caller must close the connection.
func (n Nodes) DialNode(name string) (symbiov1.ControlClient, *grpc.ClientConn, error) {
	if _, err := os.Stat(n.state.Node(name).Socket()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, Unavailable(fmt.Errorf("no node %q is running on this machine\n%s", name, n.reach(name)))
	}
	conn, err := n.state.Node(name).Dial()
	if err != nil {
		return nil, nil, err
	}
	return symbiov1.NewControlClient(conn), conn, nil
}

// reach says how a person reaches the node of that name, which does not run on this machine: another
// machine may have it.
func (n Nodes) reach(name string) string {
	running, _ := n.state.Running() // without a running one the other machines are not known
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	for _, near := range running {
		client, conn, err := n.DialNode(near)
		if err != nil {
			continue
		}
		defer conn.Close()
		all, err := client.Nodes(ctx, &symbiov1.NodesRequest{})
		if err == nil && slices.ContainsFunc(all.GetNodes(), func(one *symbiov1.Node) bool { return visible.IsNamed(name, one.GetName(), one.GetId()) }) {
			return fmt.Sprintf("It is on another machine, which node %s knows: type the command there, or give an agent there a task with: symbio run --node %[1]s --on %[2]s TASK\nItems go there with: symbio map --node %[1]s --nodes %[2]s; calls with: symbio invoke CAPABILITY --node %[1]s --on %[2]s", near, name)
		}
	}
	return "Start it with: symbio up --name " + name + visible.Suggest(name, running)
}

// CallTimeout is how long a call waits without --timeout. It is long enough for an agent's task
// on a slow model. invoke, send and steer use it.
const CallTimeout = 5 * time.Minute

// statusTimeout is how long a node of this machine has to report its status. A healthy one needs
// milliseconds; a hanging one must not block every command of the user.
const statusTimeout = 2 * time.Second

// StatusOf returns what a running node says of itself, nil when it does not answer within statusTimeout.
func (n Nodes) StatusOf(ctx context.Context, name string) *symbiov1.StatusReply {
	client, conn, err := n.DialNode(name)
	if err != nil {
		return nil
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	s, _ := client.Status(ctx, &symbiov1.StatusRequest{})
	return s
}

// SameDir reports whether two paths lead to the same directory, whatever links are in them.
func SameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// OnHelp is the help of --on.
const OnHelp = "`NODE|LABEL` where the agent works, of its definition there: the name or id of another node, or a label such as room=kitchen; may be repeated for any of several"

// NodeFlag adds the flag --node to commands that act on a running node, and returns them. The other
// commands do not get it: there it would have no effect, and an unknown flag is an error.
func NodeFlag(env *Env, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.PersistentFlags().StringVar(&env.Node, "node", "", "`NAME` of the node on this machine to talk to (default the only one, $SYMBIO_NODE, or the one that works in this directory)")
	}
	return commands
}
