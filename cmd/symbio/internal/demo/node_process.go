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
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent/event"
)

const (
	// startTimeout is how long a node may take until it is ready. It only has to make a key and
	// open a port, but a loaded machine may be slow.
	startTimeout = 15 * time.Second
	// maxLine bounds one event, in bytes: twice the largest message between nodes.
	maxLine = 8 << 20
	// maxStderr is how many of the last bytes of a node's standard error are kept for an error.
	maxStderr = 4 << 10
)

// nodeProcess is a node that runs as a process of its own: `symbio up --json`.
type nodeProcess struct {
	name string
	cmd  *exec.Cmd
	// ready is what the node printed when it was ready.
	ready readyLine
	// cancel interrupts the process.
	cancel context.CancelFunc
	// reader runs readEvents.
	reader errgroup.Group
	// errs keeps the end of its standard error.
	errs tail
}

// readyLine is the first line that `symbio up --json` prints.
type readyLine struct {
	Type, Name, ID, Listen string
}

// nodeProcesses are the nodes that run.
type nodeProcesses []*nodeProcess

// stop ends all nodes at once, as Ctrl-C does, and waits for them. It returns the first error.
func (c nodeProcesses) stop() error {
	var g errgroup.Group
	for _, p := range c {
		g.Go(p.stop)
	}
	return g.Wait()
}

// startNode starts `symbio up` for the node of that name and returns when it is ready. A node that
// fails or takes longer than startTimeout is stopped, and its standard error is in the error.
func (s setup) startNode(ctx context.Context, p *observer, name string, args ...string) (*nodeProcess, error) {
	ctx, stop := context.WithCancel(ctx)
	out := &nodeProcess{name: name, cancel: stop, errs: tail{max: maxStderr}}
	out.cmd = exec.CommandContext(ctx, s.options.Self, append([]string{"up", "--json", "--config", filepath.Join(s.dir, name+".yaml")}, args...)...)
	out.cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir)
	out.cmd.Stderr = &out.errs
	out.cmd.Cancel = func() error { return interrupt(out.cmd.Process) }
	// A node ends within 5 seconds of an interrupt; 2 more are for a busy machine. After that it is
	// killed.
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

// interrupt asks a process to end as Ctrl-C does. Windows has no such signal between processes, so
// there it is killed.
func interrupt(p *os.Process) error {
	if runtime.GOOS == "windows" {
		return p.Kill()
	}
	return p.Signal(os.Interrupt)
}

// readEvents reads the output of the node until it ends: the ready line goes to first, events go to
// the observer. It closes first, so that a node that ends early is noticed.
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

// kill ends the process as a crash does, and waits for it.
func (p *nodeProcess) kill() error {
	defer p.cancel()
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	readErr := p.reader.Wait()
	_ = p.cmd.Wait() // it says that it was killed
	return readErr
}

// crash kills node b when its sub-agent works, and starts it again. The restarted node takes the place
// of the killed one in nodes.
func (s setup) crash(ctx context.Context, p *observer, nodes nodeProcesses) error {
	select {
	case <-p.lentWorks:
	case <-ctx.Done():
		return nil
	}
	i := slices.IndexFunc(nodes, func(n *nodeProcess) bool { return n.name == "b" })
	address := nodes[i].ready.Listen
	p.note("b", "KILLED: the tour kills this node, as a crash does, while its sub-agent works")
	if err := nodes[i].kill(); err != nil {
		return err
	}
	p.killed()
	// The address is that of before, so that a node without mDNS finds it, too.
	b, err := s.startNode(ctx, p, "b", "--config", filepath.Join(s.dir, restartedConfig), "--listen", address)
	if err != nil {
		return err
	}
	nodes[i] = b
	return nil
}

// stop ends the node and waits for it and for the end of its events. If the node failed, the end of
// its standard error is in the error.
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

// tail is a writer that keeps only the last max bytes.
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
