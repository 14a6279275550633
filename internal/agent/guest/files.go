package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/coder/acp-go-sdk"

	"symbio/agent/tool"
	"symbio/internal/security/lazyregexp"
)

// result returns the text of an ask, or its failure as an error.
func (p *program) result(ctx context.Context, a *ask) (string, error) {
	all, err := p.want(ctx, a)
	switch {
	case err != nil:
		return "", err
	case all[0].failed:
		return "", errors.New(all[0].text)
	}
	return all[0].text, nil
}

// readFile reads a file by the agent's Read.
func (p *program) readFile(ctx context.Context, r acp.ReadTextFileRequest) (any, error) {
	args := map[string]any{"file_path": r.Path}
	var text string
	_, err := p.result(ctx, &ask{tool: "Read", args: args, decode: func(tool.Tool) (tool.Invocation, error) {
		return tool.Invocation{Args: args, ReadOnly: true, Consent: p.guest.consent, Run: func(ctx context.Context) tool.Result {
			var err error
			if text, err = readText(ctx, r.Path, p.guest.cfg.Constrain); err != nil {
				return tool.Result{Text: err.Error(), IsError: true}
			}
			return tool.Result{Text: fmt.Sprintf("%d bytes for the program", len(text))}
		}}, nil
	}})
	if err != nil {
		return nil, err
	}
	return acp.ReadTextFileResponse{Content: linesOf(text, valueOf(r.Line), valueOf(r.Limit))}, nil
}

func valueOf(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// writeFile writes a file by the agent's Write.
func (p *program) writeFile(ctx context.Context, r acp.WriteTextFileRequest) (any, error) {
	args := map[string]any{"file_path": r.Path, "content": r.Content}
	_, err := p.result(ctx, &ask{tool: "Write", args: args, decode: func(real tool.Tool) (tool.Invocation, error) {
		raw, err := json.Marshal(args)
		if err != nil {
			return tool.Invocation{}, err
		}
		inv, err := real.Decode(raw)
		inv.Consent = p.guest.consent
		run := inv.Run
		inv.Run = func(ctx context.Context) tool.Result {
			if err := mayWrite(r.Path, tool.Dir(ctx), p.guest.cfg.Constrain); err != nil {
				return tool.Result{Text: err.Error(), IsError: true}
			}
			return run(ctx)
		}
		return inv, err
	}})
	return acp.WriteTextFileResponse{}, err
}

// maxTerminals is how many terminals a program may have.
const maxTerminals = 32

// terminals are the commands that a program runs by its client. The zero value is usable, by many goroutines.
type terminals struct {
	mu    sync.Mutex
	count int                  // guarded by mu
	all   map[string]*terminal // guarded by mu
}

// terminal is one command. Its output and its exit are set when ended is closed.
type terminal struct {
	running context.Context // ends when the program kills it
	kill    context.CancelFunc
	ended   chan struct{}
	out     string
	exit    acp.TerminalExitStatus
}

// end notes how the command has ended.
func (t *terminal) end(out string, err error) {
	t.out, t.exit = out, acp.TerminalExitStatus{ExitCode: new(0)}
	switch {
	case err == nil:
	case t.running.Err() != nil:
		t.out, t.exit = err.Error(), acp.TerminalExitStatus{Signal: new("SIGKILL")}
	default:
		t.out, t.exit = err.Error(), acp.TerminalExitStatus{ExitCode: new(1)}
	}
	close(t.ended)
}

var variableName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// quote returns a word for the shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// script returns the command of a terminal for the agent's Bash.
func script(r acp.CreateTerminalRequest, dir string) (string, error) {
	var words []string
	for _, v := range r.Env {
		if !variableName().MatchString(v.Name) {
			return "", fmt.Errorf("%.40q is no name of a variable", v.Name)
		}
		words = append(words, v.Name+"="+quote(v.Value))
	}
	line := r.Command // some programs send a whole script; variables would keep the rules from telling what it runs
	if len(r.Args) > 0 || !strings.ContainsAny(r.Command, " \t\n;|&<>$`") {
		for _, w := range append([]string{r.Command}, r.Args...) {
			words = append(words, quote(w))
		}
		line = strings.Join(words, " ")
	}
	if r.Cwd != nil && *r.Cwd != "" && filepath.Clean(*r.Cwd) != dir {
		line = "cd " + quote(*r.Cwd) + " && " + line
	}
	return line, nil
}

// openTerminal runs a command by the agent's Bash, and does not wait for it.
func (p *program) openTerminal(r acp.CreateTerminalRequest) (any, error) {
	line, err := script(r, p.guest.cfg.Dir())
	if err != nil {
		return nil, err
	}
	args := map[string]any{"command": line, "access": "write"}
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	id, t, err := p.terminals.open()
	if err != nil {
		return nil, err
	}
	a := &ask{tool: "Bash", args: args, decode: func(real tool.Tool) (tool.Invocation, error) {
		inv, err := real.Decode(raw)
		inv.Consent = p.guest.consent
		run := inv.Run
		inv.Run = func(ctx context.Context) tool.Result {
			if t.running.Err() != nil {
				return tool.Result{Text: "The program has ended it.", IsError: true}
			}
			ctx, stop := context.WithCancel(ctx)
			defer context.AfterFunc(t.running, stop)()
			return run(ctx)
		}
		return inv, err
	}}
	var running sync.WaitGroup
	running.Go(func() {
		t.end(p.result(context.Background(), a)) // it ends with the program
	})
	return acp.CreateTerminalResponse{TerminalId: id}, nil
}

func (t *terminals) open() (string, *terminal, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) >= maxTerminals {
		return "", nil, fmt.Errorf("there are %d terminals already: release some", maxTerminals)
	}
	if t.all == nil {
		t.all = map[string]*terminal{}
	}
	t.count++
	id, one := fmt.Sprintf("t%d", t.count), &terminal{ended: make(chan struct{})}
	one.running, one.kill = context.WithCancel(context.Background())
	t.all[id] = one
	return id, one, nil
}

// find returns a terminal.
func (t *terminals) find(id string) (*terminal, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.all[id]; one != nil {
		return one, nil
	}
	return nil, fmt.Errorf("there is no terminal %.40q", id)
}

// kill ends a command with all that it started.
func (t *terminals) kill(id string) error {
	one, err := t.find(id)
	if err == nil {
		one.kill()
	}
	return err
}

func (t *terminals) output(id string) (any, error) {
	one, err := t.find(id)
	if err != nil {
		return nil, err
	}
	select {
	case <-one.ended:
		return acp.TerminalOutputResponse{Output: one.out, ExitStatus: &one.exit}, nil
	default:
		return acp.TerminalOutputResponse{}, nil
	}
}

func (t *terminals) wait(ctx context.Context, id string) (any, error) {
	one, err := t.find(id)
	if err != nil {
		return nil, err
	}
	select {
	case <-one.ended:
		return acp.WaitForTerminalExitResponse{ExitCode: one.exit.ExitCode, Signal: one.exit.Signal}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (t *terminals) release(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.all[id]; one != nil {
		one.kill()
	}
	delete(t.all, id)
	return nil
}
