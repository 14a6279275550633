package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/agent/llm"
	"symbio/agent/llm/provider"
	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/sessioncmd"
	"symbio/cmd/symbio/internal/tui"
	"symbio/internal/agent/llm/replay"
	"symbio/internal/agent/node/control"
	"symbio/internal/agent/node/models"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// runFlags are the flags of run and chat.
type runFlags struct {
	// req is the request to the node, filled by flags and arguments. Its zero value asks for the
	// agent general, the configured model and the configured limits.
	req symbiov1.RunRequest
	// budget is the text of --budget; see parseBudget. It is parsed before anything is started, so
	// that a mistake costs nothing.
	budget string
	// node are the flags for a node of the command's own. A flag of these makes the command start a
	// node; see ownNodeFlag.
	node nodeFlags
	// record are the flags --record and --replay.
	record recordFlags
	// session are the flags of the session to go on with.
	session sessionFlags
	// options say how the conversation is held. Flags set Keep only.
	options chat.Options
}

// add registers the flags with cmd.
func (f *runFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.req.Agent, "agent", "", "`NAME` of the agent's definition (default general)")
	cmd.Flags().StringVar(&f.req.Model, "model", "", "`MODEL`: auto, openai:NAME, anthropic:NAME, ollama:NAME, peer:NODE/NAME or scripted:FILE; a,b uses b when a fails (default as configured)")
	cmd.Flags().StringVar(&f.req.Effort, "effort", "", "how much the model thinks: `LEVEL` low, medium or high (default as configured)")
	cmd.Flags().StringVar(&f.req.Mode, "mode", "", "`MODE` ask, edits (edits of files in the directory are not asked about) or plan (only tools that read run) (default ask)")
	cmd.Flags().Uint32Var(&f.req.MaxTurns, "max-turns", 0, "how often the model may be asked for each message, `N` (default as the agent's definition says)")
	cmd.Flags().StringVar(&f.budget, "budget", "", budgetHelp)
	cmd.Flags().StringArrayVar(&f.req.Allow, "yes-to", nil, "`RULE` to allow for this task, such as 'Write(notes/*)'; may be repeated")
	cmd.Flags().StringArrayVar(&f.req.On, "on", nil, command.OnHelp)
	cmd.Flags().StringVar(&f.req.Bring, "bring", "", "with --on: `DIR` whose files go along; the agent's changes are shown, and made there with a yes")
	cmd.Flags().BoolVar(&f.options.Apply, "yes", false, "with --bring: make the changes without a question")
	cmd.Flags().StringVar(&f.options.PatchFile, "patch", "", "with --bring: write the changes to `FILE` as a unified diff, and make none")
	f.node.add(cmd)
	f.record.add(cmd)
	f.session.add(cmd)
}

// checkOn returns wrong usage of --on, and makes --bring absolute. dir is the current directory.
func (f *runFlags) checkOn(dir string) error {
	brings := f.req.Bring != ""
	switch {
	case len(f.req.On) == 0 && brings:
		return errors.New("--bring takes files along to another node: name that with --on")
	case !brings && (f.options.Apply || f.options.PatchFile != ""):
		return errors.New("--yes and --patch are for the changes in the files that --bring takes along")
	case f.options.Apply && f.options.PatchFile != "":
		return errors.New("--yes makes the changes, --patch only writes them: leave one out")
	case len(f.req.On) == 0:
		return nil
	case f.session.given():
		return errors.New("the sessions of an agent of another node are on that node: leave out --continue and --resume, or --on")
	case f.req.Model+f.req.Effort+f.req.Mode+f.req.OutputSchema != "" || f.req.MaxTurns > 0:
		return errors.New("with --on the agent's definition on the other node says its model, effort, turns and answers: leave out --model, --effort, --mode, --max-turns and --output-schema")
	case brings && !f.req.Interactive && !f.options.Apply && f.options.PatchFile == "":
		return errors.New("nobody can be asked here whether the changes are to be made: give --yes, or --patch FILE")
	}
	if brings && !filepath.IsAbs(f.req.Bring) {
		f.req.Bring = filepath.Join(dir, f.req.Bring)
	}
	return nil
}

// cmdRun returns the command run, which gives one task to an agent. Its exit status is 1 when the
// task fails, and 0 when it is done. It is 2 for a wrong flag, 3 when calls were denied because no
// person could be asked, and 5 when the node cannot be reached.
func cmdRun(env *command.Env) *cobra.Command {
	var f runFlags
	var format, schema string
	cmd := &cobra.Command{
		Use:               "run [TASK]",
		ValidArgsFunction: completeTask(env),
		Args: func(cmd *cobra.Command, args []string) error {
			return command.RangeArgs(0, 1)(cmd, f.session.withoutID(args))
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err = f.setFormat(env, format); err != nil {
				return err
			}
			if schema != "" {
				text, err := os.ReadFile(schema)
				if err != nil {
					return err
				}
				if _, err := llm.NewForm(llm.Output{Schema: text}); err != nil {
					return command.Usage(fmt.Errorf("%s: %w", schema, err))
				}
				f.req.OutputSchema = string(text)
			}
			// Without a task, the one that was interrupted goes on.
			if args = f.session.takeID(args); len(args) > 0 || !f.session.given() {
				if f.req.Task, err = command.Text(env.In, "task", args); err != nil {
					return err
				}
			}
			// The lines of standard input are messages in an interactive run.
			if len(args) > 0 && args[0] != "-" && !f.options.Keep {
				more, err := command.PipedInput(cmd.Context(), env, stdinWait)
				if err != nil {
					return err
				}
				f.req.Task += more
			}
			return run(cmd.Context(), env, &f, cmd.Flags())
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&schema, "output-schema", "", "JSON schema `FILE` that the answer has to fit, and then is nothing but JSON")
	cmd.Flags().StringVar(&format, "output-format", "text", "`FORMAT` of the output: text, json (one object at the end) or stream-json (an event per line, as --json)")
	cmd.Flags().BoolVarP(&f.options.Keep, "interactive", "i", false, "stay in the conversation after the answer: until you leave, or without a terminal until standard input ends")
	return cmd
}

// stdinWait is how long a run with a task waits for the first byte of a pipe on standard input: a
// parent process may leave one open that it never writes to.
const stdinWait = 3 * time.Second

// setFormat applies --output-format to env and f. Each format but text is JSON.
func (f *runFlags) setFormat(env *command.Env, format string) error {
	switch format {
	case "text":
		return nil
	case "json":
		if f.options.Keep || env.JSON {
			return command.Usage(errors.New("--output-format json prints one object for one answer, so it takes neither --interactive nor --json; use stream-json"))
		}
		f.options.Summary = true
	case "stream-json":
	default:
		return command.Usage(fmt.Errorf("--output-format: want text, json or stream-json, not %q", format))
	}
	env.JSON = true
	return nil
}

// ownNodeFlag returns the name of the first given flag that configures a node which this command
// starts; "" if none was given. Such a flag has no effect on a node that is running. The list has
// the names that nodeFlags.add and recordFlags.add register.
func ownNodeFlag(flags *pflag.FlagSet) string {
	for _, name := range []string{"config", "name", "listen", "workspace", "peer", "no-mdns", "log-level", "log-format", "record", "replay"} {
		if flags.Changed(name) {
			return name
		}
	}
	return ""
}

// run holds a conversation with an agent, on the node that runs in the current directory or, when
// there is none but nodes of other commands, on a node of its own. A flag of ownNodeFlag asks for a
// node of its own. The agent works in the directory in which the command is typed.
//
// run blocks until the conversation is over. It returns the error of the conversation, which is nil
// when all answers succeeded.
func run(ctx context.Context, env *command.Env, f *runFlags, flags *pflag.FlagSet) (err error) {
	f.options.Open, f.options.Export = tui.Open, sessioncmd.Markdown
	if f.req.Budget, err = parseBudget(f.budget); err != nil {
		return command.Usage(err)
	}
	// Only an interactive task waits for approvals; in any other they are denied at once, unless
	// approvals.unattended is set.
	f.req.Interactive = env.InIsTerminal && !env.JSON
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := f.checkOn(dir); err != nil {
		return command.Usage(err)
	}
	c := config.Config{Model: config.Models(f.req.Model)}
	// A running node may have been started in another directory, so a relative path of
	// scripted:FILE is resolved here.
	c.Resolve(dir)
	f.req.Model = string(c.Model)
	if _, err := provider.ParseList(f.req.Model); err != nil {
		return command.Usage(fmt.Errorf("--model: %w", err))
	}
	own := false
	if f.session.given() {
		if own, err = f.resume(ctx, env, flags); err != nil {
			return err
		}
	}
	converse := func(work context.Context, users *control.Users, signals <-chan os.Signal) error {
		return runOn(work, env, f, users, signals)
	}
	if flag := ownNodeFlag(flags); own || flag != "" {
		// --node names a running node, which has its own configuration.
		if env.Node != "" {
			return command.Usage(fmt.Errorf("--%s has no effect on node %s, which is running; leave out --%s, or --node for a node of its own", flag, env.Node, flag))
		}
		return runOwnNode(ctx, env, f, converse)
	}
	dial := env.Nodes().DialShared
	if len(f.req.On) > 0 { // whatever directory the node works in
		dial = func(context.Context) (symbiov1.ControlClient, *grpc.ClientConn, error) { return env.Nodes().Dial() }
	}
	client, conn, err := dial(ctx)
	// Several nodes in this directory are an error: the person has to choose one.
	if errors.Is(err, command.ErrNoNode) || errors.Is(err, command.ErrOtherWorkspace) {
		return runOwnNode(ctx, env, f, converse)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	if f.options.Reconnect = len(f.req.On) == 0; env.Node != "" {
		s := env.Nodes().StatusOf(ctx, env.Node)
		// A node that another command started does not come back.
		f.options.Reconnect = !s.GetPrivate() && len(f.req.On) == 0
		if at := s.GetWorkspace(); at != "" && !command.SameDir(at, dir) && len(f.req.On) == 0 {
			env.Notef("note: the agents of node %s work in %s", env.Node, at)
		}
	}
	work, signals, stopSignals := chat.Interrupts(ctx)
	defer stopSignals()
	err = chat.Converse(work, env, client, &f.req, f.options, signals)
	if err != nil && strings.Contains(err.Error(), provider.ErrNone.Error()) &&
		cmp.Or(env.Getenv("OPENAI_API_KEY"), env.Getenv("OPENAI_BASE_URL"), env.Getenv("ANTHROPIC_API_KEY")) != "" {
		env.Notef("note: this shell has a model, but a node has those of the shell in which it was started: stop the node, and start it here")
	}
	return err
}

// runOwnNode starts a node in this process, sets Env.Node to its name, calls use, and stops the node. The errors
// of use, of the node and of the recording are joined. work does not end with the first signal, which is in signals.
//
// The node lives until use returns. Its agents, its listener and its control socket end before runOwnNode returns.
func runOwnNode(ctx context.Context, env *command.Env, f *runFlags,
	use func(work context.Context, users *control.Users, signals <-chan os.Signal) error) error {
	c, from, err := env.LoadConfig(f.node.config)
	if err != nil {
		return err
	}
	f.node.apply(&c, from)
	opts, err := env.NodeOptions(c)
	if err != nil {
		return err
	}
	log, err := openLog(env, f.node, &opts, true)
	if err != nil {
		return err
	}
	// The log is closed last, because the node writes to it until it has ended.
	defer log.Close()
	if err := avoidNodeConflicts(ctx, env, &opts, f.node); err != nil {
		return err
	}
	// The recorder is part of the node's configuration, so it must be set before node.New.
	if err := f.record.open(&opts); err != nil {
		return err
	}
	opts.Users = &control.Users{}
	n, err := node.New(opts)
	if err != nil {
		// The recording was opened already, so it must be closed.
		return errors.Join(err, reportRecording(env, opts, f.record))
	}
	// work does not end with the first Ctrl-C: that breaks off the answer, and the node must live
	// on to say so.
	work, signals, stopSignals := chat.Interrupts(ctx)
	defer stopSignals()
	nodeCtx, stop := context.WithCancel(work)
	// The conversation is over, so the node ends. g.Wait returns when all of its parts have.
	defer stop()
	// Until the node is ready there is no answer to break off, so a Ctrl-C stops the node. Once it
	// is ready, started() unregisters that, and the conversation handles Ctrl-C.
	started := context.AfterFunc(ctx, stop)
	var g errgroup.Group
	g.Go(func() error { return n.Run(nodeCtx) })
	var taskErr error
	// Ready is closed without a value when the node could not start.
	if r, ok := <-n.Ready(); ok && started() {
		// The conversation must reach this node, also when others are running.
		env.Node = r.Name
		taskErr = use(work, opts.Users, signals)
	}
	stop()
	return errors.Join(taskErr, g.Wait(), reportRecording(env, opts, f.record))
}

// avoidNodeConflicts gives the node of one conversation a name and a port that no running node has,
// unless flags set them, and prints a note that nodes of symbio up are not used. It changes o.
// Without a running node it does nothing.
func avoidNodeConflicts(ctx context.Context, env *command.Env, o *node.Config, f nodeFlags) error {
	running, err := o.State.Running()
	if err != nil || len(running) == 0 {
		return err
	}
	// Host is only a wish: the node adds a number to it when another node has the name. Node.Name
	// is a demand, and a conflict with it is an error.
	if f.name == "" {
		o.Host, o.Settings.Node.Name = cmp.Or(o.Settings.Node.Name, o.Host), ""
	}
	if f.listen == "" {
		// The configured port is taken by the running node; without a setting the system chooses
		// one.
		o.Settings.Node.Listen = ""
	}
	// The nodes of other conversations are none that a person would expect to be used.
	if running = slices.DeleteFunc(running, func(name string) bool { return env.Nodes().StatusOf(ctx, name).GetPrivate() }); len(running) > 0 {
		env.Notef("note: this runs on a node of its own, in %s, not on node %s", o.Workspace(), strings.Join(running, ", "))
	}
	return nil
}

// runOn holds the conversation on the node that was just started. It connects through the control
// socket like any other command, so that run behaves the same on both kinds of nodes. Then it waits for
// the other users of the node, or for a signal.
func runOn(ctx context.Context, env *command.Env, f *runFlags, users *control.Users, signals <-chan os.Signal) error {
	client, conn, err := env.Nodes().Dial()
	if err != nil {
		return err
	}
	told, stop := chat.Terminated(ctx)
	defer stop()
	err = chat.Converse(ctx, env, client, &f.req, f.options, signals)
	others := users.Alone()
	if others != nil && told.Err() == nil {
		env.Notef("note: another command works on this node, %s, which ends with it; Ctrl-C ends both now", env.Node)
	}
	for ; others != nil; others = users.Alone() {
		select {
		case <-others:
		case <-signals:
			return errors.Join(err, conn.Close())
		case <-told.Done():
			return errors.Join(err, conn.Close())
		}
	}
	return errors.Join(err, conn.Close())
}

// recordFlags are the flags that record the exchanges with the servers of models, or answer from
// such a recording. Each is a directory; "" means that the flag was not given. cobra rejects both
// together.
type recordFlags struct{ record, replay string }

// add registers the flags with cmd.
func (r *recordFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.record, "record", "", "record the exchanges with the model's server in the new directory `DIR`; starts a node of its own, and answers come in one piece")
	cmd.Flags().StringVar(&r.replay, "replay", "", "answer from the recording in `DIR`, without network and key; starts a node of its own, and tools run for real")
	cmd.MarkFlagsMutuallyExclusive("record", "replay")
}

// open puts a recorder or a player into the configuration of a node. The API keys are given to it
// so that they are removed from what is written. It changes o. A directory that has a recording
// already cannot be recorded to.
func (r recordFlags) open(o *node.Config) (err error) {
	keys := models.Providers(o.Settings, o.Getenv, o.Models)
	switch {
	case r.record != "":
		o.Record, err = replay.Record(r.record, models.WebClient().Transport, keys.OpenAIKey, keys.AnthropicKey)
	case r.replay != "":
		o.Replay, err = replay.Play(r.replay, keys.OpenAIKey, keys.AnthropicKey)
	}
	return err
}

// reportRecording closes the recording after the node has ended, and says what was recorded or left
// over. A recording without any exchange is an error. It must be called once and only after the
// node has ended: Close writes the recording.
func reportRecording(env *command.Env, o node.Config, r recordFlags) error {
	switch {
	case o.Record != nil:
		written, err := o.Record.Close()
		if written > 0 && !env.JSON {
			env.Notef("%s with the model's server recorded in %s; to play: --replay %s", visible.Plural(written, "exchange"), r.record, r.record)
		}
		// A model that is a Go function or a script sends no request, so there is nothing to play
		// later.
		if written == 0 && err == nil {
			err = fmt.Errorf("record to %s: nothing was recorded, because no request went to a model's server", r.record)
		}
		return err
	case o.Replay != nil:
		// Unused exchanges mean that the run went another way than the recorded one, which is no
		// error.
		if unused := o.Replay.Unused(); len(unused) > 0 && !env.JSON {
			env.Notef("note: %d recorded exchanges were not asked for: %s", len(unused), visible.TruncateRunes(strings.Join(unused, ", "), 200))
		}
	}
	return nil
}

// budgetHelp is the help of --budget.
const budgetHelp = "`LIMITS` of each task and its sub-agents, such as agents=4,wall=5m; also depth, spawns_per_minute, model_calls, tokens and cost (by the configured prices) (default as configured)"

// parseBudget parses the limits of a task, such as "agents=4,wall=5m". An empty text gives a Budget
// without limits of its own. The error names the limit and its valid values.
//
// Limits are separated by commas. Zero values mean the configured limits, so a limit of zero cannot
// be asked for. Wall is a Go duration; cost is in the currency of the configured prices.
func parseBudget(text string) (*symbiov1.Budget, error) {
	b := &symbiov1.Budget{}
	if text == "" {
		return b, nil
	}
	whole := func(value string, bits int) (n uint64, ok bool) {
		n, err := strconv.ParseUint(value, 10, bits)
		return n, err == nil && n > 0
	}
	set := map[string]func(value string) (ok bool){
		// 63 bits fit an int64, in which the node counts tokens.
		"tokens": func(value string) (ok bool) { b.Tokens, ok = whole(value, 63); return ok },
		"cost": func(value string) bool {
			v, err := strconv.ParseFloat(value, 64)
			b.Cost = v
			return err == nil && v > 0 && !math.IsInf(v, 0)
		},
		"wall": func(value string) bool {
			d, err := time.ParseDuration(value)
			b.Wall = durationpb.New(d)
			return err == nil && d > 0
		},
	}
	for key, to := range map[string]*uint32{"depth": &b.Depth, "agents": &b.Agents, "spawns_per_minute": &b.SpawnsPerMinute, "model_calls": &b.ModelCalls} {
		set[key] = func(value string) bool {
			n, ok := whole(value, 32)
			*to = uint32(n)
			return ok
		}
	}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if set[key] == nil {
			return nil, fmt.Errorf("--budget: no limit is called %q; there are depth, agents, spawns_per_minute, wall, model_calls, tokens and cost", key)
		}
		if !set[key](value) {
			return nil, fmt.Errorf("--budget %s: want a number over zero, whole but for cost, and for wall a duration such as 5m, not %q", key, value)
		}
	}
	return b, nil
}
