package sandbox_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"symbio/security/sandbox"
)

// answering gives the command its input when it has said something, and fails each write.
type answering struct {
	to   *io.PipeWriter
	seen bytes.Buffer
}

func (a *answering) Write(p []byte) (int, error) {
	a.seen.Write(p)
	if strings.Contains(a.seen.String(), "ready") {
		a.to.Close()
	}
	return 0, errors.New("nobody listens")
}

func TestStandardErrorIsSeenWhileTheCommandRuns(t *testing.T) {
	atEachLevel(t, every, func(t *testing.T, b *sandbox.Box) {
		in, to := io.Pipe()
		a := &answering{to: to}
		r, err := sh(t, t.Context(), b, t.TempDir(), "echo ready >&2; cat; echo more >&2; echo out", func(_ *sandbox.Policy, s *sandbox.Spec) {
			s.Stdin, s.Stderr = in, a
		})
		if got := a.seen.String(); err != nil || got != "ready\nmore\n" || r.Stderr.String() != got || r.Stdout.String() != "out\n" {
			t.Errorf("seen %q, recorded %q and %q, %v; want both lines in both", got, r.Stderr, r.Stdout, err)
		}
	})
}
