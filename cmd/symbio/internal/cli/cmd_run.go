package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
)

func (a *App) cmdRun() *cobra.Command {
	var req symbiov1.RunRequest
	var budget string
	var flags nodeFlags
	var tape tapes
	cmd := &cobra.Command{
		Use:   "run [TASK]",
		Short: "Give a task to an agent and follow it until it is done",
		Long: `Give a task to an agent, on the running node or, when there is none, on a node of its own that lives
as long as the task. What happens is shown on standard error, the answer on standard output. What the
rules leave to a person is asked on the terminal, and denied when there is none.`,
		Example: `  symbio run "what is this repository about?"
  symbio run --agent reviewer --yes-to 'Write(notes/*)' "review the last commit"
  symbio run --record tape "what is here?" && symbio run --replay tape "what is here?"   # the same again, without a model
  symbio run --model openai:gpt-x --budget agents=4,wall=10m -    # the task from standard input`,
		Args: rangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.Task, err = a.task(args); err != nil {
				return err
			}
			if req.Budget, err = parseBudget(budget); err != nil {
				return usage(err)
			}
			req.Interactive = a.InIsTerminal && !a.json
			return a.run(cmd.Context(), &req, flags, tape)
		},
	}
	cmd.Flags().StringVar(&req.Agent, "agent", "", "the agent's definition (default: general)")
	cmd.Flags().StringVar(&req.Model, "model", "", "auto, openai:NAME, anthropic:NAME, ollama:NAME, peer:NODE/NAME or scripted:FILE; a,b asks b when a fails (default: the configured one)")
	cmd.Flags().StringVar(&budget, "budget", "", "limits, such as agents=4,depth=1,spawns_per_minute=10,wall=5m")
	cmd.Flags().StringArrayVar(&req.Allow, "yes-to", nil, "a rule to allow for this task, such as 'Write(notes/*)'; may be repeated")
	flags.add(cmd)
	tape.add(cmd)
	return cmd
}

// task is the TASK argument, or standard input for "-".
func (a *App) task(args []string) (string, error) {
	text := strings.Join(args, "")
	if text == "-" {
		data, err := io.ReadAll(a.In)
		if err != nil {
			return "", fmt.Errorf("reading standard input: %w", err)
		}
		text = string(data)
	}
	if strings.TrimSpace(text) == "" {
		return "", usage(errors.New("there is no task; give one as an argument, or - for standard input"))
	}
	return text, nil
}

// parseBudget reads "agents=4,wall=5m".
func parseBudget(text string) (*symbiov1.Budget, error) {
	b := &symbiov1.Budget{}
	if text == "" {
		return b, nil
	}
	counts := map[string]*uint32{"depth": &b.Depth, "agents": &b.Agents, "spawns_per_minute": &b.SpawnsPerMinute}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch n, known := counts[key]; {
		case known:
			v, err := strconv.ParseUint(value, 10, 32)
			if err != nil || v == 0 {
				return nil, fmt.Errorf("--budget %s: want a whole number over zero, not %q", key, value)
			}
			*n = uint32(v)
		case key == "wall":
			d, err := time.ParseDuration(value)
			if err != nil || d <= 0 {
				return nil, fmt.Errorf("--budget wall: want a duration such as 5m, not %q", value)
			}
			b.Wall = durationpb.New(d)
		default:
			return nil, fmt.Errorf("--budget: no limit is called %q; there are depth, agents, spawns_per_minute and wall", key)
		}
	}
	return b, nil
}

// run gives the task to the running node, or to one of its own.
func (a *App) run(ctx context.Context, req *symbiov1.RunRequest, flags nodeFlags, tape tapes) error {
	if tape.used() {
		if a.node != "" {
			return usage(errors.New("--record and --replay run the task on a node of its own; leave out --node"))
		}
		return a.runAlone(ctx, req, flags, tape)
	}
	if a.node == "" {
		state, err := a.state()
		if err != nil {
			return err
		}
		running, err := state.Running()
		if err != nil {
			return err
		}
		if len(running) == 0 {
			return a.runAlone(ctx, req, flags, tape)
		}
	}
	client, conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	return a.follow(ctx, client, req)
}

// runAlone starts a node in this process, gives it the task, and stops it.
func (a *App) runAlone(ctx context.Context, req *symbiov1.RunRequest, flags nodeFlags, tape tapes) error {
	c, from, err := a.loadConfig(flags.config)
	if err != nil {
		return err
	}
	flags.apply(&c, from)
	opts, err := a.nodeOptions(c)
	if err != nil {
		return err
	}
	if err := tape.open(&opts); err != nil {
		return err
	}
	ready := make(chan node.Ready, 1)
	opts.Ready = func(r node.Ready) error { ready <- r; return nil }
	nodeCtx, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	g.Go(func() error { defer close(ready); return node.Run(nodeCtx, opts) })
	var taskErr error
	if r, ok := <-ready; ok {
		a.node = r.Name
		client, conn, err := a.dial()
		if err != nil {
			return err
		}
		taskErr = errors.Join(a.follow(ctx, client, req), conn.Close())
	}
	stop()
	return errors.Join(taskErr, g.Wait(), a.tellTape(opts, tape))
}

// follow shows a task's events until it is done.
func (a *App) follow(ctx context.Context, client symbiov1.ControlClient, req *symbiov1.RunRequest) error {
	stream, err := client.Run(ctx, req)
	if err != nil {
		return err
	}
	answers := a.typed()
	for {
		wire, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return errors.New("the node ended the task without a result")
			}
			return err
		}
		e := fromWire(wire)
		switch {
		case e.Type == "result":
			return a.result(e)
		case a.json:
			err = a.printLine(e)
		case e.Type == "approval":
			err = a.approve(ctx, client, answers, e)
		case e.Type != "text" && e.Type != "turn":
			_, err = fmt.Fprintln(a.Err, e.Time.Local().Format("15:04:05"), eventLine(e))
		}
		if err != nil {
			return err
		}
	}
}

// result prints a task's end; a task that was not done is a failure of the command.
func (a *App) result(e node.Event) error {
	var r struct{ Text, Status, Error string }
	if err := json.Unmarshal(e.Data, &r); err != nil {
		return fmt.Errorf("the result: %w", err)
	}
	if a.json {
		if err := a.printLine(e); err != nil {
			return err
		}
	} else if r.Text != "" {
		if err := a.printAnswer([]byte(r.Text)); err != nil {
			return err
		}
	}
	if r.Status == "done" {
		return nil
	}
	return fmt.Errorf("the task %s: %s", r.Status, printable(r.Error))
}

// errElsewhere says that somebody else was faster.
var errElsewhere = errors.New("answered elsewhere")

// approve puts a decision to the person at the terminal, unless it is answered elsewhere. Whatever is not a
// yes is a no.
func (a *App) approve(ctx context.Context, client symbiov1.ControlClient, answers func(context.Context) (string, error), e node.Event) error {
	var ask struct {
		ID, Digest, Name, Tool, Why string
		For, Rules                  []string
		Args                        json.RawMessage
	}
	if err := json.Unmarshal(e.Data, &ask); err != nil {
		return fmt.Errorf("an approval: %w", err)
	}
	fmt.Fprintf(a.Err, "\n%s wants to use %s\n%s\n  %s\n%s", chainOf(ask.Name, ask.For), visible(ask.Tool), indented(ask.Args), visible(ask.Why), choices(ask.Rules))
	line, err := a.unlessElsewhere(ctx, client, ask.ID, e.Time, answers)
	if errors.Is(err, errElsewhere) {
		_, err = fmt.Fprintln(a.Err, err)
		return err
	}
	if err != nil {
		return err
	}
	said := strings.ToLower(strings.TrimSpace(line))
	r := &symbiov1.AnswerRequest{Id: ask.ID, Digest: ask.Digest, By: "terminal"}
	r.Always = said == "a" || said == "always"
	r.Lasting = len(ask.Rules) > 0 && (said == "l" || said == "lasting")
	r.Allow = r.Always || r.Lasting || said == "y" || said == "yes"
	_, err = client.Answer(ctx, r)
	if status.Code(err) == codes.NotFound { // in this very moment
		_, err = fmt.Fprintln(a.Err, errElsewhere)
	}
	return err
}

// choices says what may be answered, and what an answer that lasts would keep.
func choices(rules []string) string {
	if len(rules) == 0 {
		return "Allow it? [y = once, a = always this call while the agent lives, N] "
	}
	var b strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&b, "  l keeps: %s\n", visible(r))
	}
	return b.String() + "Allow it? [y = once, a = always this call while the agent lives, l = from now on, N] "
}

// indented shows the arguments of a call: a command line by line, anything else as JSON.
func indented(args json.RawMessage) string {
	var of map[string]any
	if json.Unmarshal(args, &of) != nil {
		return "  " + visible(string(args))
	}
	command, ok := of["command"].(string)
	if !ok || of["args"] != nil {
		return "  " + plainJSON(args)
	}
	var out []string
	for line := range strings.SplitSeq(command, "\n") {
		out = append(out, "  "+visible(line))
	}
	return strings.Join(out, "\n")
}

// unlessElsewhere waits for a line, or until the decision of that id, which was announced at that time, is
// taken.
func (a *App) unlessElsewhere(ctx context.Context, client symbiov1.ControlClient, id string, since time.Time, answers func(context.Context) (string, error)) (line string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch errgroup.Group
	defer func() {
		cancel(nil)
		_ = watch.Wait() // it returns no error
	}()
	watch.Go(func() error {
		stream, err := client.Events(ctx, &symbiov1.EventsRequest{Types: []string{"answered"}, Since: timestamppb.New(since)})
		for err == nil {
			var e *symbiov1.Event
			var answered struct{ ID string }
			if e, err = stream.Recv(); err == nil && json.Unmarshal(e.GetData(), &answered) == nil && answered.ID == id {
				cancel(errElsewhere)
			}
		}
		return nil
	})
	return answers(ctx)
}

// typed returns a function that waits for the next line of standard input, or for the end of ctx. At
// the end of the input every line is empty. A read of a terminal cannot be interrupted: the one that
// nobody waits for any longer ends with the process.
func (a *App) typed() func(context.Context) (string, error) {
	lines := make(chan string)
	var reader errgroup.Group
	start := sync.OnceFunc(func() {
		reader.Go(func() error {
			defer close(lines)
			for in := bufio.NewScanner(a.In); in.Scan(); {
				lines <- in.Text()
			}
			return nil
		})
	})
	return func(ctx context.Context) (string, error) {
		start()
		select {
		case line := <-lines:
			return line, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
