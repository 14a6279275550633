package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"symbio/agent/session"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/security/visible"
)

// sessionFlags are the flags with which run and chat go on with a session.
type sessionFlags struct {
	// latest is the flag --continue: the latest session of this directory.
	latest bool
	// id is the flag --resume: the id of a session, or the beginning of one; noID = one of a list.
	id string
}

// noID is the value of --resume without one.
const noID = "?"

// maxListed is how many sessions --resume lists.
const maxListed = 20

// add registers the flags with cmd.
func (s *sessionFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&s.latest, "continue", "c", false, "go on with the latest session of this directory")
	cmd.Flags().StringVarP(&s.id, "resume", "r", "", "go on with the session `ID`, or the beginning of one; without it, choose from a list")
	cmd.Flags().Lookup("resume").NoOptDefVal = noID
}

// withoutID returns the arguments behind the id of `--resume ID`: pflag passes only `--resume=ID` as
// the value of a flag whose value may be left out.
func (s *sessionFlags) withoutID(args []string) []string {
	if s.id == noID && len(args) > 0 {
		return args[1:]
	}
	return args
}

// takeID moves the id of `--resume ID` from args to the flag, and returns the other arguments.
func (s *sessionFlags) takeID(args []string) []string {
	rest := s.withoutID(args)
	if len(rest) < len(args) {
		s.id = args[0]
	}
	return rest
}

// given reports whether a session is to go on.
func (s *sessionFlags) given() bool { return s.latest || s.id != "" }

// find returns the session that the flags name, among those that worked in dir if they name none.
func (s *sessionFlags) find(ctx context.Context, env *command.Env, dir string) (session.Info, error) {
	if s.latest && s.id != "" {
		return session.Info{}, command.Usage(errors.New("--continue and --resume both choose a session; leave one out"))
	}
	if s.id != "" && s.id != noID {
		return env.Sessions().Find(ctx, s.id)
	}
	if s.id == noID && (!env.InIsTerminal || env.JSON) {
		return session.Info{}, command.Usage(errors.New("--resume without an ID chooses on a terminal, and there is none\nGive an ID, which symbio sessions list has, or --continue for the latest session of this directory"))
	}
	all, err := env.Sessions().Begun(ctx, dir)
	switch {
	case err != nil:
		return session.Info{}, err
	case len(all) == 0:
		return session.Info{}, command.NotFound(fmt.Errorf("no session was begun in %s\nBegin one with: symbio chat", dir))
	case s.latest:
		return all[0], nil
	}
	return chooseSession(ctx, env, all[:min(len(all), maxListed)])
}

// chooseSession lets the person at the terminal choose one of all. Enter chooses the first.
func chooseSession(ctx context.Context, env *command.Env, all []session.Info) (session.Info, error) {
	for n, i := range all {
		env.Notef("%3d  %s  %s  %-11s  %s", n+1, i.ID, i.Updated.Local().Format("2006-01-02 15:04"), string(i.State), visible.TruncateRunes(i.Title, 50))
	}
	fmt.Fprintf(env.Err, "Which one? [1-%d, Enter = 1] ", len(all))
	line, err := command.ReadLine(ctx, env.In)
	if err != nil {
		return session.Info{}, fmt.Errorf("choosing a session: %w", err)
	}
	if line = strings.TrimSpace(line); line == "" {
		return all[0], nil
	}
	n, err := strconv.Atoi(line)
	if err != nil || n < 1 || n > len(all) {
		return session.Info{}, command.Usage(fmt.Errorf("choosing a session: want a number from 1 to %d, not %q", len(all), line))
	}
	return all[n-1], nil
}

// resume sets the session in the request and the node that has it: env.Node if that node runs, else
// the name of the node that this command starts. own is true for the latter. A session goes on only
// in its directory, because its calls mean the files there.
func (f *runFlags) resume(ctx context.Context, env *command.Env, flags *pflag.FlagSet) (own bool, err error) {
	dir, err := f.workspace(env)
	if err != nil {
		return false, err
	}
	i, err := f.session.find(ctx, env, dir)
	if err != nil {
		return false, err
	}
	if !command.SameDir(i.Dir, dir) {
		return false, command.Usage(fmt.Errorf("session %s belongs to another directory\nGo on with it there: cd %s", i.ID, visible.Escape(i.Dir)))
	}
	if f.req.Task == "" && !f.options.Keep && !(i.Exchange.Open && i.Requester == "") {
		return false, command.Usage(fmt.Errorf("session %s has no unfinished task: give one as an argument, or talk on with: symbio chat --resume %s", i.ID, i.ID))
	}
	f.req.Session = i.ID
	running, err := env.State().Running()
	if err != nil {
		return false, err
	}
	if !slices.Contains(running, i.Node) && env.Node == "" {
		if f.node.name != "" && f.node.name != i.Node {
			return false, command.Usage(fmt.Errorf("session %s is kept by node %s, not by %s; leave out --name", i.ID, i.Node, f.node.name))
		}
		f.node.name = i.Node
		return true, nil
	}
	if flag := ownNodeFlag(flags); flag != "" {
		return false, command.Usage(fmt.Errorf("--%s has no effect on node %s, which has session %s and is running; leave out --%s, or end the node first", flag, i.Node, i.ID, flag))
	}
	env.Node = i.Node
	if at := env.Nodes().StatusOf(ctx, i.Node).GetWorkspace(); at != "" && !command.SameDir(at, dir) {
		return false, command.Usage(fmt.Errorf("session %s is kept by node %s, which is running for another directory, %s\nEnd that node, or start it here with: symbio up --name %s", i.ID, i.Node, visible.Escape(at), i.Node))
	}
	return false, nil
}

// workspace returns the directory in which the agents of this command work.
func (f *runFlags) workspace(env *command.Env) (string, error) {
	if f.node.config == "" && f.node.workspace == "" {
		return env.Workspace()
	}
	c, from, err := env.LoadConfig(f.node.config)
	if err != nil {
		return "", err
	}
	f.node.apply(&c, from)
	o, err := env.NodeOptions(c)
	return o.Workspace(), err
}
