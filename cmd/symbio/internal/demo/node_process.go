package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent/event"
)

const (
	startTimeout = 15 * time.Second // for a process that only has to make a key and open a port
	maxLine      = 8 << 20          // bytes of one event
	maxStderr    = 4 << 10          // bytes of what a node says before it fails
)

// nodeProcess is a node in a process of its own.
type nodeProcess struct {
	name   string
	cmd    *exec.Cmd
	ready  readyLine
	cancel context.CancelFunc
	reader errgroup.Group
	errs   tail
}

// readyLine is the first line that `symbio up --json` prints.
type readyLine struct {
	Type, Name, ID, Listen string
}

// nodeProcesses are the nodes that play.
type nodeProcesses []*nodeProcess

// stop ends the nodes as Ctrl-C does and waits for them.
func (c nodeProcesses) stop() error {
	var g errgroup.Group
	for _, p := range c {
		g.Go(p.stop)
	}
	return g.Wait()
}

// startNode runs `symbio up` and returns when the node is ready.
func (s setup) startNode(ctx context.Context, p *observer, name string, args ...string) (*nodeProcess, error) {
	ctx, stop := context.WithCancel(ctx)
	out := &nodeProcess{name: name, cancel: stop, errs: tail{max: maxStderr}}
	out.cmd = exec.CommandContext(ctx, s.options.Self, append([]string{"up", "--json", "--config", filepath.Join(s.dir, name+".yaml")}, args...)...)
	out.cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir)
	out.cmd.Stderr = &out.errs
	out.cmd.Cancel = func() error { return interrupt(out.cmd.Process) }
	out.cmd.WaitDelay = 7 * time.Second
	pipe, err := out.cmd.StdoutPipe()
	if err != nil {
		stop()
		return nil, err
	}
	if err := out.cmd.Start(); err != nil {
		stop()
		return nil, err
	}
	first := make(chan readyLine, 1)
	out.reader.Go(func() error { return out.readEvents(pipe, p, first) })
	select {
	case r, ok := <-first:
		if ok {
			out.ready = r
			return out, nil
		}
		return nil, fmt.Errorf("node %s did not start: %w", name, out.stop())
	case <-time.After(startTimeout):
		return nil, errors.Join(fmt.Errorf("node %s was not ready after %s", name, startTimeout), out.stop())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), out.stop())
	}
}

// interrupt asks a process to end as Ctrl-C does, where the system can.
func interrupt(p *os.Process) error {
	if runtime.GOOS == "windows" {
		return p.Kill()
	}
	return p.Signal(os.Interrupt)
}

// readEvents passes a node's events on until it prints no more.
func (p *nodeProcess) readEvents(from io.Reader, to *observer, first chan<- readyLine) error {
	defer close(first)
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for n := 0; lines.Scan(); n++ {
		if n == 0 {
			var r readyLine
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil || r.Type != "ready" {
				return fmt.Errorf("node %s said %q", p.name, lines.Text())
			}
			first <- r
			to.note(p.name, fmt.Sprintf("is ready: id %s, listening on %s", r.ID, r.Listen))
			continue
		}
		var e event.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("an event of node %s: %w", p.name, err)
		}
		to.observe(e)
	}
	return lines.Err()
}

// stop ends the node and waits for it. What it said before it failed is in the error.
func (p *nodeProcess) stop() error {
	p.cancel()
	readErr := p.reader.Wait()
	err := p.cmd.Wait()
	if err != nil && (errors.Is(err, context.Canceled) || runtime.GOOS == "windows") {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("node %s: %w: %s", p.name, err, bytes.TrimSpace(p.errs.kept))
	}
	return errors.Join(err, readErr)
}

// tail keeps the last bytes written to it.
type tail struct {
	max  int
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - t.max; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}
