package clustercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/clusterinfo"
	"symbio/internal/agent/node/doctor"
	statedir "symbio/internal/agent/node/state"
	"symbio/internal/agent/placement"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// New returns the command `symbio cluster` with all commands below it.
//
// init, token and status work on files of the state directory, with or without a running node; leave
// refuses to while the node runs. tokens works on files. nodes and remove work on files, too, and ask a running node for
// what only that knows. promote, demote and rotate need one.
func New(env *command.Env) *cobra.Command {
	// file is the flag --config of the four commands below that have it. They share the variable,
	// because one run of the program runs one command.
	var file string
	cmd := &cobra.Command{Use: "cluster", Args: command.NoArgs, RunE: command.RequireSubcommand}
	// These commands are about a node that need not run, so they name it by its configuration; the
	// others ask a running node.
	for _, named := range []*cobra.Command{cmdClusterInit(env, &file), cmdClusterToken(env, &file), cmdClusterStatus(env, &file), cmdClusterLeave(env, &file)} {
		named.Flags().StringVar(&file, "config", "", "configuration `FILE` that names the node (default as for symbio up)")
		cmd.AddCommand(named)
	}
	cmd.AddCommand(cmdClusterJoin(env), cmdClusterNodes(env), cmdClusterPromote(env), cmdClusterDemote(env), cmdClusterRemove(env),
		cmdClusterRole(env), cmdClusterLabel(env), cmdClusterTokens(env), cmdClusterLock(env), cmdClusterUnlock(env), cmdClusterRotate(env))
	return cmd
}

// tokenJSON is a token as it is printed. The JSON names are a contract.
type tokenJSON struct {
	// Cluster is the name of the cluster, Tag the short hash that tells clusters of one name apart.
	Cluster string `json:"cluster"`
	// Tag tells two clusters of the same name apart: a node refuses the certificates of the other
	// one.
	Tag string `json:"tag"`
	// Node is the name of the node that lets the other one join, ID its id; ID is missing for a
	// later token.
	Node string `json:"node"`
	ID   string `json:"id,omitempty"`
	// Token is the secret. It must be kept like a password until it is used or expires.
	Token string `json:"token"`
	// Address is where that node listens, HOST:PORT.
	Address string `json:"address"`
	// Join is the command line for the other machine.
	Join string `json:"join"`
	// Expires is when the token ends, in UTC.
	Expires time.Time `json:"expires"`
}

// cmdClusterInit returns the command cluster init. It makes the authority and the certificate of
// this node, and prints the line that joins another machine. A node that runs here becomes a node
// of the cluster. It fails when the node is a member of a cluster or this machine has an authority
// already.
func cmdClusterInit(env *command.Env, file *string) *cobra.Command {
	var name, listen string
	cmd := &cobra.Command{
		Use:  "init",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, member, err := command.NamedNode(env, *file)
			if err != nil {
				return err
			}
			if c, from, err := env.LoadConfig(*file); err == nil && listen == "" && from["node.listen"] != "" {
				// The node will listen where its configuration says, so the token must name that
				// address.
				listen = c.Node.Listen
			}
			// From here on the files are written. The errors below tell the user so, because a
			// second init would fail: the authority exists.
			id, err := state.Node(member).InitCluster(name, listen)
			if err != nil {
				return err
			}
			if !env.JSON {
				fmt.Fprintf(env.Out, "created cluster %s; node %s (%s) is its first member\n", id.Authority(), member, id.ID())
			}
			// The node restarts before the token is made, so that the join line can name the port
			// on which it listens now.
			if err := activateCluster(cmd.Context(), env, state, member, id.Authority(), *file); err != nil {
				return err
			}
			return createToken(cmd.Context(), env, state, member, identity.TokenLife, "", nil, string(id.ID()))
		},
	}
	cmd.Flags().StringVar(&name, "name", "lan", "`NAME` of the cluster")
	cmd.Flags().StringVar(&listen, "listen", "", "`HOST:PORT` on which this node listens for others (default "+statedir.ClusterListen+", on every address)")
	return cmd
}

// cmdClusterToken returns the command cluster token, which works only where the authority is held.
// Its exit status is 2 for a wrong --for, --role or --label. The node need not run while the token is made,
// only when the other machine joins.
func cmdClusterToken(env *command.Env, file *string) *cobra.Command {
	var life time.Duration
	var role string
	var labels []string
	cmd := &cobra.Command{
		Use:  "token",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// identity.NewToken takes 0 for its default. Here an explicit --for 0 is a mistake.
			if life <= 0 || life > identity.MaxTokenLife {
				return command.Usage(fmt.Errorf("--for %v: want a duration above 0 and at most %v", life, identity.MaxTokenLife))
			}
			state, member, err := env.LocalNode(*file)
			if err != nil {
				return err
			}
			return createToken(cmd.Context(), env, state, member, life, role, labels, "")
		},
	}
	cmd.Flags().DurationVar(&life, "for", identity.TokenLife, "`DURATION` for which the token can be used")
	cmd.Flags().StringVar(&role, "role", "", "`ROLE` of the node that joins, for rules under authorize (default node)")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "`LABEL` of the node that joins, KEY=VALUE, for rules under authorize; may be repeated")
	return cmd
}

// createToken makes a token that lets one node join within life, and prints the line that joins
// with it. Only the line is on standard output, so that a script can pass it on. id is the id of the
// first node, "" for later tokens. It returns ErrNoAuthority of package state when the authority is
// on another machine. The token is stored as a hash of its public key, so a lost one cannot be
// printed again.
func createToken(ctx context.Context, env *command.Env, state statedir.Dir, member string, life time.Duration, role string, labels []string, id string) error {
	c, err := state.OpenCluster()
	if err != nil {
		return err
	}
	if given, err := identity.ParseLabels(labels); err == nil {
		if err := placement.CheckLabels(given.Map()); err != nil {
			return command.Usage(fmt.Errorf("--label: %w", err))
		}
	}
	token, err := c.NewToken(life, role, labels...)
	if errors.Is(err, identity.ErrRole) || errors.Is(err, identity.ErrLabel) {
		err = command.Usage(err)
	}
	if err != nil {
		return err
	}
	// JoinAddress replaces an unspecified host by the address of this machine on the LAN, because
	// the other machine has to dial it.
	addr, up, err := clusterinfo.JoinAddress(ctx, state, member)
	if err != nil {
		return err
	}
	if c.Key().Locked() {
		env.Notef("the authority is encrypted on the disk: a node here must have its key when the other machine joins: symbio cluster unlock")
	}
	out := tokenJSON{
		Cluster: c.Name(), Tag: c.Tag(), Node: member, ID: id, Token: token.Text(), Address: addr,
		Join: "symbio cluster join " + token.Text() + " " + addr, Expires: time.Now().Add(life).UTC().Truncate(time.Second),
	}
	if env.JSON {
		return env.PrintJSON(out)
	}
	// JoinAddress writes the word PORT when the node chooses its port at each start.
	if !up && strings.HasSuffix(addr, ":PORT") {
		env.Notef("node %s is not running and has no fixed port: start it with symbio up, and put the port that it prints in place of PORT", member)
	} else if !up {
		env.Notef("node %s is not running: start it before the other machine joins", member)
	}
	env.Notef("on the other machine, once, within %s:", visible.Duration(life))
	_, err = fmt.Fprintln(env.Out, out.Join)
	return err
}

// activateCluster makes the node of that name, if it runs, take up its new certificate, and waits
// until it reports the cluster. If it does not run, it prints how to start it. An error says that
// the files are written all the same. It blocks for restartTimeout at most after the reload, and
// uses the control socket only.
func activateCluster(ctx context.Context, env *command.Env, state statedir.Dir, name, cluster, file string) error {
	// The node refuses to reload while agents live on it, because a new identity would end them.
	running, err := state.Node(name).Reload(ctx)
	if err != nil {
		return fmt.Errorf("the files of the cluster are written, but node %s, which is running, did not reload them: %s\nStart it again with: symbio up", name, command.ErrorText(ctx, err))
	}
	if !running {
		// The note repeats the flags that named the node in this command. Without them symbio up
		// would start another node than the one that joined.
		flag := ""
		if env.Node != "" {
			flag = " --name " + name
		}
		if file != "" {
			// The file is quoted for a shell.
			flag += " --config '" + strings.ReplaceAll(file, "'", `'\''`) + "'"
		}
		if !env.JSON {
			env.Notef("start it with: symbio up%s", flag)
		}
		return nil
	}
	conn, err := state.Node(name).Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	// The connection survives the restart: gRPC dials the socket again.
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	// The first status is asked for at once, and each further one after a tick.
	ticker := time.NewTicker(restartPollInterval)
	defer ticker.Stop()
	for {
		// While the node restarts, the call fails; it is repeated until it reports the cluster.
		s, err := symbiov1.NewControlClient(conn).Status(ctx, &symbiov1.StatusRequest{})
		// Until the restart the old node answers, with its old authority.
		if err == nil && s.GetAuthority() == cluster {
			if !env.JSON {
				env.Notef("node %s, which is running, is a node of the cluster now, listening on %s", name, s.GetListen())
			}
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return command.Unavailable(fmt.Errorf("the files of the cluster are written, but node %s did not come back within %v\nStart it again with: symbio up", name, restartTimeout))
		}
	}
}

// A node that takes up a cluster restarts within a second; restartTimeout allows for a busy
// machine. Its status is asked for every restartPollInterval.
const (
	restartTimeout      = 10 * time.Second
	restartPollInterval = 50 * time.Millisecond
)

// reloadNodes makes every running node of this machine read the list of removed nodes and of changed roles again. Nodes
// that fail are named in the error; the list is written all the same. A node that has read the list
// closes its connections to removed nodes and tells the other nodes of the cluster.
func reloadNodes(ctx context.Context, env *command.Env, state statedir.Dir) error {
	names, err := state.Running()
	if err != nil {
		return err
	}
	// All nodes are tried: one that fails must not keep the others connected to a removed node.
	var failed []string
	for _, name := range names {
		if _, err := state.Node(name).Reload(ctx); err != nil {
			failed = append(failed, name+" ("+command.ErrorText(ctx, err)+")")
		}
	}
	if len(failed) > 0 {
		return errors.New("it is written, but nodes of this machine did not reload it: " + strings.Join(failed, ", "))
	}
	if len(names) == 0 {
		env.Notef("no node is running here; the other machines learn of it when one does: symbio up")
	}
	return nil
}

// cmdClusterStatus returns the command cluster status. It reads the state directory and asks the
// running node, if there is one, for what only that knows. Its exit status is 4 when the node is in
// no cluster.
func cmdClusterStatus(env *command.Env, file *string) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:  "status",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, name, err := env.LocalNode(*file)
			if err != nil {
				return err
			}
			s, err := clusterinfo.Look(cmd.Context(), state, name, grace(env, *file))
			if err != nil {
				return clusterStatus(err)
			}
			if env.JSON {
				err = env.PrintJSON(s)
			} else {
				err = env.Table([]string{"WHAT", "VALUE"}, slices.Values(clusterRows(s)))
			}
			if n := len(s.Problems); err == nil && check && n > 0 {
				err = fmt.Errorf("cluster %s has %s", s.Cluster, visible.Plural(n, "problem"))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "end with exit status 1 if something is wrong")
	return cmd
}

// grace returns how long after its end a certificate is still renewed, by the configuration: limits.certificate_grace.
func grace(env *command.Env, file string) time.Duration {
	c, _, err := env.LoadConfig(file)
	if err != nil {
		c = config.Default()
	}
	return c.Limits.CertificateGrace
}

// clusterStatus gives the error of a node that is in no cluster the exit status 4.
func clusterStatus(err error) error {
	if errors.Is(err, statedir.ErrNoCluster) {
		return command.NotFound(err)
	}
	return err
}

// clusterRows returns the status as rows of a table; problems have rows only when there are some.
// The authority can be on several machines (community/design 0009), so its row names each holder
// that is known.
func clusterRows(s clusterinfo.Status) [][]string {
	var authority []string
	if s.Authority {
		here := "on this machine"
		if s.Locked {
			here += " (locked)"
		}
		authority = append(authority, here)
	}
	for _, h := range s.Holders {
		// The node itself is the first holder of its own list; "on this machine" covers it.
		if h.ID != s.ID {
			authority = append(authority, fmt.Sprintf("on node %s (%s)", h.Name, h.State))
		}
	}
	rows := [][]string{
		{"cluster", s.Cluster}, {"tag", s.Tag}, {"authority", cmp.Or(strings.Join(authority, ", "), "on another machine")},
		{"node", s.Node}, {"id", s.ID}, {"certificate", fmt.Sprintf("%s: %s", doctor.Ends(s.Days), s.Expires.Format(time.RFC3339))},
		{"removed nodes", strconv.Itoa(s.Removed)},
	}
	if r := s.Rotation; r != nil {
		rows = append(rows, []string{"rotation", rotationText(*r)})
	}
	// Overdue and Refused are texts that say what to do; both are empty in a healthy cluster.
	for _, row := range [][]string{{"renewal", s.Overdue}, {"refused", s.Refused}} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}
	if s.Authority {
		// The number of tokens is known only where the authority keeps them.
		rows = append(rows, []string{"open tokens", strconv.Itoa(s.Tokens)})
	}
	for _, n := range s.Nodes {
		rows = append(rows, []string{"member " + n.Name, healthText(n)})
	}
	health := "ok"
	if n := len(s.Problems); n > 0 {
		health = visible.Plural(n, "problem")
	}
	rows = append(rows, []string{"health", health})
	for _, p := range s.Problems {
		rows = append(rows, []string{"problem", p.Node + ": " + p.Why}, []string{"fix", p.Fix})
	}
	return rows
}

// rotationText says where a rotation stands.
func rotationText(r clusterinfo.Rotation) string {
	text := fmt.Sprintf("to authority %s, stage %s since %s", r.Successor, r.Stage, r.Since.Format(time.RFC3339))
	switch {
	case !r.Until.IsZero() && len(r.Waiting) > 0:
		text += "; nodes that were off come back until " + r.Until.Format(time.DateOnly) + ": "
	case !r.Until.IsZero():
	case len(r.Waiting) > 0:
		text += ", waiting for "
	}
	return text + strings.Join(r.Waiting, ", ")
}

// healthText says how a node does: its state, how it is reached, its certificate, its clock, its version and the authority.
func healthText(n clusterinfo.NodeHealth) string {
	parts := []string{n.State}
	if n.Via != "" {
		parts[0] += fmt.Sprintf(" (%s, %s)", n.Via, n.Address)
	}
	if n.Role != "" && n.Role != "node" {
		parts = append(parts, "role "+n.Role)
	}
	if len(n.Labels) > 0 {
		parts = append(parts, command.PairsText(n.Labels))
	}
	if n.Draining {
		parts = append(parts, "draining")
	}
	if n.Days != nil {
		parts = append(parts, "certificate "+doctor.Ends(*n.Days))
	}
	if n.ClockAhead != nil {
		parts = append(parts, fmt.Sprintf("clock %+.1f s", *n.ClockAhead))
	}
	if n.Version != "" {
		parts = append(parts, "version "+n.Version)
	}
	if n.Protocol != "" {
		parts = append(parts, "protocol "+n.Protocol)
	}
	if n.Authority {
		parts = append(parts, "holds the authority")
	}
	return strings.Join(parts, ", ")
}

// cmdClusterNodes returns the command cluster nodes. Where the authority is held it lists all nodes
// that joined and can come back, with --all all that ever joined; elsewhere those that the running node knows.
func cmdClusterNodes(env *command.Env) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:  "nodes",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state := env.State()
			// liveErr is not an error of the command where the authority is held: there the records
			// list the nodes, with the state "unknown".
			live, liveErr := liveNodes(cmd.Context(), env)
			keep := time.Duration(-1)
			if !all {
				keep = grace(env, "")
			}
			nodes, err := clusterinfo.Nodes(state, live, liveErr, keep)
			if err != nil {
				return err
			}
			return command.PrintList(env, nodes, []string{"ID", "NAME", "ROLE", "STATE", "CERTIFICATE UNTIL", "AUTHORITY", "LABELS"}, clusterNodeRow)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list the nodes, too, that cannot come back")
	return cmd
}

// clusterNodeRow returns the columns of one node.
func clusterNodeRow(n clusterinfo.Node) []string {
	// A node that another holder let in has no record here, so the end of its certificate is not
	// known.
	expires, authority := "", ""
	if !n.Expires.IsZero() {
		expires = n.Expires.Format(time.DateOnly)
	}
	if n.Authority {
		authority = "holds it"
	}
	return []string{n.ID, n.Name, n.Role, n.State, expires, authority, command.PairsText(n.Labels)}
}

// liveNodes returns the nodes that the running node knows by their id. An address without an id has
// not proved who it is.
func liveNodes(ctx context.Context, env *command.Env) ([]*symbiov1.Node, error) {
	client, conn, err := env.Nodes().Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err := client.Nodes(ctx, &symbiov1.NodesRequest{})
	return slices.DeleteFunc(reply.GetNodes(), func(n *symbiov1.Node) bool { return n.GetId() == "" }), err
}

// findRemoteNode returns the cluster and the node that what names, by id, beginning of an id, or
// name. A node of this machine is an error, to which advice adds what to do instead. It returns
// ErrNoAuthority on a machine that does not hold the authority, NotFound when no node matches, and
// InvalidArgument when several do. An abbreviated id has six digits or more.
func findRemoteNode(ctx context.Context, env *command.Env, state statedir.Dir, what, advice string) (*identity.Cluster, identity.Record, error) {
	c, err := state.OpenCluster()
	if err != nil {
		return nil, identity.Record{}, err
	}
	r, err := clusterinfo.Find(c, what, func() ([]*symbiov1.Node, error) { return liveNodes(ctx, env) })
	if err != nil {
		return nil, r, err
	}
	// remove would lock this machine out of its own cluster, and promote would send the key to the
	// machine that has it.
	own, err := state.OwnIDs()
	if name, ok := own[r.ID]; ok && err == nil {
		err = fmt.Errorf("node %s is on this machine, which holds the authority%s", name, advice)
	}
	return c, r, err
}

// cmdClusterRemove returns the command cluster remove. The removal is written first and then
// announced, so that it holds even if no node runs.
func cmdClusterRemove(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "remove NODE", Args: command.ExactArgs(1)}
	secret := command.NewPassphrase(env, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		state := env.State()
		c, r, err := findRemoteNode(cmd.Context(), env, state, args[0], "; to take it out of the cluster, stop it and run `symbio cluster leave --node NAME` here")
		if err != nil {
			return err
		}
		if err := useLocked(c, state, secret); err != nil {
			return err
		}
		if err := c.Remove(r.ID); err != nil {
			return err
		}
		if env.JSON {
			n := clusterinfo.NodeOf(r, clusterinfo.Removed)
			// A removed node is not one to let others in, although it still has the key; see
			// errHolderRemoved.
			n.Authority = false
			err = env.PrintJSON(n)
		} else {
			err = env.Printf("removed\t%s\t%s\n", r.ID, r.Name)
		}
		if r.Holds {
			env.Notef("%v", errHolderRemoved)
		}
		// The nodes are told also when the output could not be written: the removal is in
		// force.
		return errors.Join(err, reloadNodes(cmd.Context(), env, state))
	}
	return cmd
}

// errHolderRemoved is printed when the removed node holds the authority. Removing it does not take
// the key back.
var errHolderRemoved = errors.New("the removed node holds the authority's key, which cannot be taken back: that machine can still let nodes in under other ids; " +
	"if the key may be in wrong hands, create a new cluster")

// cmdClusterPromote returns the command cluster promote, which sends the authority's key to a
// connected node. The running node does that, over its encrypted connection, because the key must
// not pass through another process. It fails with ErrNoNode when no node runs here. The two
// machines hold the same key from then on (community/design 0009).
func cmdClusterPromote(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:  "promote NODE",
		Args: command.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, r, err := findRemoteNode(cmd.Context(), env, env.State(), args[0], " already")
			if err != nil {
				return err
			}
			// A removed node that had the key could let nodes in under other ids.
			if r.Removed {
				return fmt.Errorf("node %s was removed from the cluster", r.ID)
			}
			return env.Nodes().With(func(client symbiov1.ControlClient) error {
				if _, err := client.Promote(cmd.Context(), &symbiov1.PromoteRequest{Node: string(r.ID)}); err != nil {
					return err
				}
				if env.JSON {
					// r was read before the node got the key.
					r.Holds = true
					return env.PrintJSON(clusterinfo.NodeOf(r, "connected"))
				}
				return env.Printf("promoted\t%s\t%s\n", r.ID, r.Name)
			})
		},
	}
}

// cmdClusterLeave returns the command cluster leave, for a node that is not running. The old key
// and certificate are kept beside the new ones. The cluster is not told: it may be out of reach. A
// machine that alone holds the authority cannot leave other nodes, and a running node is an error. Its exit status is
// 4 when the node is in no cluster.
func cmdClusterLeave(env *command.Env, file *string) *cobra.Command {
	return &cobra.Command{
		Use:  "leave",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, name, err := env.LocalNode(*file)
			if err != nil {
				return err
			}
			cluster, kept, advice, err := state.Node(name).LeaveCluster()
			if err != nil {
				return clusterStatus(err)
			}
			if env.JSON {
				return env.PrintJSON(map[string]string{"node": name, "cluster": cluster, "kept": kept})
			}
			env.Notef("%s", advice)
			return env.Printf("node %s has left cluster %s; its old key and certificate are in %s\n", name, cluster, kept)
		},
	}
}
