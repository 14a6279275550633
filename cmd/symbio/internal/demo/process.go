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
	"strings"
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
)

// process is a node: `symbio up --json`.
type process struct {
	name string
	cmd  *exec.Cmd
	// listen is the node's address for other nodes.
	listen string
	// cancel interrupts the process.
	cancel context.CancelFunc
	// reader runs readEvents.
	reader errgroup.Group
	errs   bytes.Buffer
}

// command returns a command of this program for the tour's nodes, which see neither the user's configuration nor the
// user's nodes.
func (t *tour) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, t.self, args...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.work, "XDG_CONFIG_HOME="+t.work)
	return cmd
}

// symbio runs a command of this program on node a, and returns its standard output. The text of the command on standard
// error is in the error.
func (t *tour) symbio(ctx context.Context, in string, args ...string) ([]byte, error) {
	cmd := t.command(ctx, append(args, "--node", "a")...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("symbio %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}

// start starts `symbio up` for the node of that name and returns when it is ready. A node that
// fails or takes longer than startTimeout is stopped, and its standard error is in the error.
func (t *tour) start(ctx context.Context, name string, args ...string) error {
	ctx, stop := context.WithCancel(ctx)
	p := &process{name: name, cancel: stop}
	p.cmd = t.command(ctx, append([]string{"up", "--json", "--config", filepath.Join(t.work, name+".yaml")}, args...)...)
	p.cmd.Stderr = &p.errs
	p.cmd.Cancel = func() error { return interrupt(p.cmd.Process) }
	// A node ends within 5 seconds of an interrupt; 2 more are for a busy machine. After that it is
	// killed.
	p.cmd.WaitDelay = 7 * time.Second
	pipe, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		stop()
		return err
	}
	ready := make(chan struct{})
	p.reader.Go(func() error { return p.readEvents(pipe, t.view, ready) })
	select {
	case <-ready:
	case <-time.After(startTimeout):
		return errors.Join(fmt.Errorf("node %s was not ready after %s", name, startTimeout), p.stop())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.stop())
	}
	if p.listen == "" {
		return fmt.Errorf("node %s did not start: %w", name, p.stop())
	}
	t.nodes[name] = p
	return nil
}

// interrupt asks a process to end as Ctrl-C does. Windows has no such signal between processes, so
// there it is killed.
func interrupt(p *os.Process) error {
	if runtime.GOOS == "windows" {
		return p.Kill()
	}
	return p.Signal(os.Interrupt)
}

// readEvents reads the output of the node until it ends: the first line says where the node listens, the others are events
// for the view. It closes ready after the first line, or when there is none.
func (p *process) readEvents(from io.Reader, to *view, ready chan struct{}) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	var first struct{ Type, ID, Listen string }
	if lines.Scan() && json.Unmarshal(lines.Bytes(), &first) == nil && first.Type == "ready" {
		p.listen = first.Listen
		to.note(p.name, fmt.Sprintf("is ready: id %s, listening on %s", first.ID, first.Listen))
	}
	close(ready)
	for lines.Scan() {
		var e event.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("an event of node %s: %w", p.name, err)
		}
		to.event(e)
	}
	return lines.Err()
}

// kill ends the process as a crash does, and waits for it.
func (p *process) kill() error {
	defer p.cancel()
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	readErr := p.reader.Wait()
	_ = p.cmd.Wait() // it says that it was killed
	return readErr
}

// stop ends the node and waits for it and for the end of its events. If the node failed, the end of
// its standard error is in the error.
func (p *process) stop() error {
	p.cancel()
	readErr := p.reader.Wait()
	err := p.cmd.Wait()
	if err != nil && (errors.Is(err, context.Canceled) || runtime.GOOS == "windows") {
		err = nil
	}
	if err != nil {
		text := bytes.TrimSpace(p.errs.Bytes())
		err = fmt.Errorf("node %s: %w: %s", p.name, err, text[max(0, len(text)-4<<10):])
	}
	return errors.Join(err, readErr)
}
