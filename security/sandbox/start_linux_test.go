//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
)

// A command that runs and prints before it is reported as started, and is ended in between, has its Result.
func TestRunReportsOutputWhenEndedBeforeReport(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	seen, print := io.Pipe()
	h, err := newHold(func() (*job, error) {
		_, err := io.ReadFull(seen, make([]byte, len("printed\n")))
		cancel(ErrFlood)
		return &job{}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The helper: it keeps the job's end open, and ends without a report.
	c := &command{ctx: ctx, cancel: cancel, hold: h, cleanup: []func() error{h.close}, cmd: exec.CommandContext(ctx, "/bin/sh", "-c", "exec 4>&-; echo printed; head -c1 <&3 >/dev/null")}
	c.stdout = &recorder{keep: 100, flood: &flood{most: 1 << 20}, seen: print}
	c.stderr = c.stdout
	c.cmd.Stdout, c.cmd.Cancel = c.stdout, func() error { return nil }
	c.cmd.ExtraFiles = []*os.File{h.job, h.statusIn}
	if err := c.start(); err != nil {
		t.Fatalf("start: %v; want no error, since it ran", err)
	}
	r, err := c.wait()
	if !errors.Is(err, ErrFlood) || r.Stdout.String() != "printed\n" {
		t.Errorf("%q, %v; want what it printed, and ErrFlood", r.Stdout, err)
	}
}
