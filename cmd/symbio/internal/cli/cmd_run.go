package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
)

// conversing are the flags of the commands that talk with an agent.
type conversing struct {
	req    symbiov1.RunRequest
	budget string
	node   nodeFlags
	tape   tapes
	manner manner
}

func (f *conversing) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.req.Agent, "agent", "", "the agent's definition (default: general)")
	cmd.Flags().StringVar(&f.req.Model, "model", "", "auto, openai:NAME, anthropic:NAME, ollama:NAME, peer:NODE/NAME or scripted:FILE; a,b asks b when a fails (default: the configured one)")
	cmd.Flags().StringVar(&f.budget, "budget", "", budgetHelp)
	cmd.Flags().StringArrayVar(&f.req.Allow, "yes-to", nil, "a rule to allow for this task, such as 'Write(notes/*)'; may be repeated")
	f.node.add(cmd)
	f.tape.add(cmd)
}

func (a *App) cmdRun() *cobra.Command {
	var f conversing
	cmd := &cobra.Command{
		Use:   "run [TASK]",
		Short: "Give a task to an agent and follow it until it is done",
		Long: `Give a task to an agent, on the running node or, when there is none, on a node of its own that lives
as long as the task. What happens is shown on standard error, the answer on standard output: on a terminal as it
comes. What the rules leave to a person is asked on the terminal, and denied when there is none.

On a terminal, a line that is typed meanwhile steers the agent: it is put to its model before the next step, and
what became of it is said. Ctrl-C breaks the answer off, a second one leaves at once. With --continue the
conversation goes on after the answer, as in symbio chat.`,
		Example: `  symbio run "what is this repository about?"
  symbio run --continue "what is this repository about?"          # and then ask about the answer
  symbio run --agent reviewer --yes-to 'Write(notes/*)' "review the last commit"
  symbio run --record tape "what is here?" && symbio run --replay tape "what is here?"   # the same again, without a model
  symbio run --model openai:gpt-x --budget agents=4,wall=10m -    # the task from standard input`,
		Args: rangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if f.req.Task, err = a.text("task", args); err != nil {
				return err
			}
			return a.run(cmd.Context(), &f)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.manner.keep, "continue", false, "stay in the conversation after the answer: on a terminal until you leave, else until standard input ends")
	return cmd
}

// text is an argument of that name, or standard input for "-".
func (a *App) text(name string, args []string) (string, error) {
	text := strings.Join(args, "")
	if text == "-" {
		data, err := io.ReadAll(a.In)
		if err != nil {
			return "", fmt.Errorf("reading standard input: %w", err)
		}
		text = string(data)
	}
	if strings.TrimSpace(text) == "" {
		return "", usage(fmt.Errorf("there is no %s; give one as an argument, or - for standard input", name))
	}
	return text, nil
}

// run holds a conversation with an agent of the running node, or of one of its own.
func (a *App) run(ctx context.Context, f *conversing) (err error) {
	if f.req.Budget, err = parseBudget(f.budget); err != nil {
		return usage(err)
	}
	f.req.Interactive = a.InIsTerminal && !a.json
	if f.tape.used() {
		if a.node != "" {
			return usage(errors.New("--record and --replay run the task on a node of its own; leave out --node"))
		}
		return a.runAlone(ctx, f)
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
			return a.runAlone(ctx, f)
		}
	}
	client, conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	work, signals, giveBack := interrupts(ctx)
	defer giveBack()
	return a.converse(work, client, f, signals)
}

// runAlone starts a node in this process, holds the conversation on it, and stops it.
func (a *App) runAlone(ctx context.Context, f *conversing) error {
	c, from, err := a.loadConfig(f.node.config)
	if err != nil {
		return err
	}
	f.node.apply(&c, from)
	opts, err := a.nodeOptions(c)
	if err != nil {
		return err
	}
	if err := f.tape.open(&opts); err != nil {
		return err
	}
	ready := make(chan node.Ready, 1)
	opts.Ready = func(r node.Ready) error { ready <- r; return nil }
	work, signals, giveBack := interrupts(ctx)
	defer giveBack()
	nodeCtx, stop := context.WithCancel(work)
	defer stop()
	begun := context.AfterFunc(ctx, stop) // a Ctrl-C before there is anything to break off
	var g errgroup.Group
	g.Go(func() error { defer close(ready); return node.Run(nodeCtx, opts) })
	var taskErr error
	if r, ok := <-ready; ok && begun() {
		a.node = r.Name
		taskErr = a.runOn(work, f, signals)
	}
	stop()
	return errors.Join(taskErr, g.Wait(), a.tellTape(opts, f.tape))
}

// runOn holds the conversation on the node that was just started.
func (a *App) runOn(ctx context.Context, f *conversing, signals <-chan os.Signal) error {
	client, conn, err := a.dial()
	if err != nil {
		return err
	}
	return errors.Join(a.converse(ctx, client, f, signals), conn.Close())
}
