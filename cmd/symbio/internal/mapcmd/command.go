package mapcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/state"
	"symbio/internal/agent/placement"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// maxParallel is how many items can be worked on at once.
const maxParallel = 4096

// options are the flags.
type options struct {
	agent, capability, task, input string
	over, where, allow             []string
	lines, nodes, out              string
	parallel, retries              int
	timeout                        time.Duration
	repeatable                     bool
}

// New returns the command map. Its exit status is 1 if an item has no result or the run was
// interrupted, else 3 if calls of an item were denied because no person could be asked.
func New(env *command.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:  "map",
		Args: command.NoArgs,
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, _ []string) error {
			return o.run(ctx, env, client)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.agent, "agent", "", "`NAME` of the definition of the agents that get the items, a new one each")
	f.StringVar(&o.capability, "capability", "", "`NAME` of the capability of other nodes that gets the items")
	f.StringArrayVar(&o.over, "over", nil, "`PATTERN` of the files that are the items, such as 'docs/**/*.md'; may be repeated")
	f.StringVar(&o.lines, "lines", "", "`FILE` whose lines are the items, each JSON or text; - is standard input")
	f.StringVar(&o.task, "task", "", "`TEXT` that the agent gets, such as 'Summarise {path}: {text}' (default path and text of the file, or the line)")
	f.StringVar(&o.input, "input", "", "`JSON` that the capability gets, such as '{\"text\": \"{text}\"}' (default path and text of the file, or the line)")
	f.StringVar(&o.nodes, "nodes", "all", "`NAMES` of the nodes that may work, separated by commas")
	f.StringArrayVar(&o.where, "where", nil, "`LABEL` that the node of an agent must have, such as gpu or arch=arm64; may be repeated")
	f.IntVar(&o.parallel, "parallel", 64, "how many items are worked on at once, or wait for a free place, `N`")
	f.IntVar(&o.retries, "retries", 0, "how often an item that failed is tried again, `N`")
	f.DurationVar(&o.timeout, "timeout", 0, "longest `DURATION` of one attempt (default as configured)")
	f.BoolVar(&o.repeatable, "repeatable", false, "an item may be done twice: begin it anew if it is not known what was done")
	f.StringArrayVar(&o.allow, "yes-to", nil, "`RULE` to allow for the agents of the items, such as 'Write(notes/*)'; may be repeated")
	f.StringVar(&o.out, "out", "", "`FILE` for the results, with which the same command can go on later (default standard output)")
	return cmd
}

// check returns wrong usage.
func (o options) check(env *command.Env) error {
	switch {
	case (o.agent == "") == (o.capability == ""):
		return command.Usage(errors.New("what gets the items? Give either --agent NAME or --capability NAME"))
	case (len(o.over) > 0) == (o.lines != ""):
		return command.Usage(errors.New("where are the items? Give either --over PATTERN for files or --lines FILE, with - for standard input"))
	case o.task != "" && o.agent == "", o.input != "" && o.capability == "", len(o.where)+len(o.allow) > 0 && o.agent == "":
		return command.Usage(errors.New("--task, --where and --yes-to are for --agent, --input is for --capability"))
	case env.JSON && o.out == "":
		return command.Usage(errors.New("without --out the output is the results, which are JSON already; with --out FILE, --json prints how far the run is"))
	case o.parallel < 1 || o.parallel > maxParallel || o.retries < 0 || o.timeout < 0:
		return command.Usage(fmt.Errorf("--parallel is 1 to %d, --retries and --timeout are not below 0", maxParallel))
	}
	for _, rule := range o.allow {
		if _, err := permission.ParseAllow(rule); err != nil {
			return command.Usage(fmt.Errorf("--yes-to: %w", err))
		}
	}
	return nil
}

// template returns what the agent or the capability gets, with placeholders.
func (o options) template() string {
	switch {
	case o.task+o.input != "":
		return o.task + o.input
	case len(o.over) == 0:
		return "{item}"
	case o.agent != "":
		return "{path}\n\n{text}"
	}
	return `{"path": "{path}", "text": "{text}"}`
}

// run does what the flags say.
func (o options) run(ctx context.Context, env *command.Env, client symbiov1.ControlClient) (err error) {
	if err := o.check(env); err != nil {
		return err
	}
	in, err := openInput(env, o)
	if err != nil {
		return err
	}
	file, err := o.openFile()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r := &run{client: client, in: in, template: o.template(), parallel: o.parallel, retries: o.retries, free: make(chan struct{}, 1)}
	if o.out == "" {
		defer os.Remove(file.Name())
	}
	r.request = &symbiov1.RunTaskRequest{Agent: o.agent, Capability: o.capability, Where: o.where, Allow: o.allow,
		Placement: string(placement.Spread), Repeatable: o.repeatable, Budget: &symbiov1.Budget{Wall: durationpb.New(o.timeout)}}
	if o.nodes != "all" {
		r.request.Nodes = strings.Split(o.nodes, ",")
	}
	if r.journal, err = openJournal(file); err != nil {
		return err
	}
	r.progress = &progress{env: env, begun: time.Now(), counts: counts{Type: "progress", Total: in.total, Nodes: map[string]int{}}}
	shown, stop := context.WithCancel(ctx)
	var show sync.WaitGroup
	show.Go(func() { r.progress.show(shown) })
	err = r.all(ctx)
	stop()
	if show.Wait(); err != nil {
		if c := r.progress.now(); o.out != "" && c.Done > 0 {
			env.Notef("%s with an outcome, kept in %s: the same command goes on with the others", visible.Plural(c.Done, "item"), file.Name())
		}
		return err
	}
	if err := o.publish(env, r.journal); err != nil {
		return err
	}
	return r.progress.summary()
}

// openFile opens the file of the journal: beside the output, for this run alone, else a temporary one.
func (o options) openFile() (*os.File, error) {
	if o.out == "" {
		return os.CreateTemp("", "symbio-map-")
	}
	if err := o.isThere(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(o.out+".part", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = state.Lock(f); err != nil {
		err = command.Usage(fmt.Errorf("another symbio map keeps its results in %s (%w): wait until it has ended, or name another --out", f.Name(), err))
	} else {
		err = o.isThere() // one that has just ended
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil // closing the file releases the lock
}

// isThere returns an error if there are results already.
func (o options) isThere() error {
	if _, err := os.Lstat(o.out); !errors.Is(err, fs.ErrNotExist) {
		return command.Usage(errors.Join(err, fmt.Errorf("%s is there already: remove it, or name another --out", o.out)))
	}
	return nil
}

// publish writes the results in the order of the input: into the file that the person named, all or nothing, and removes
// the journal; else to standard output.
func (o options) publish(env *command.Env, j *journal) error {
	if o.out == "" {
		return j.write(env.Out)
	}
	f, err := os.OpenFile(o.out+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(j.write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(f.Name(), o.out), os.Remove(j.file.Name()))
}
