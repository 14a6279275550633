package guest_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/coder/acp-go-sdk"

	"symbio/security/permission"
)

// updates are how many pieces an answer of the benchmark has.
const updates = 1000

// reader is a client of ACP that takes updates, and does nothing with them.
type reader struct {
	acp.Client
	first time.Time
}

func (r *reader) SessionUpdate(context.Context, acp.SessionNotification) error {
	if r.first.IsZero() {
		r.first = time.Now()
	}
	return nil
}

// BenchmarkUpdates streams an answer of 1,000 pieces: driven directly by the SDK, which is the floor, and as an agent.
func BenchmarkUpdates(b *testing.B) {
	stream := func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
		for range updates {
			p.say(ctx, "a piece of an answer ")
		}
		return end, nil
	}
	b.Run("direct", func(b *testing.B) {
		p := &program{do: stream}
		fromClient, in := io.Pipe()
		out, toClient := io.Pipe()
		p.conn = acp.NewAgentSideConnection(p, toClient, fromClient)
		r := &reader{}
		c := acp.NewClientSideConnection(r, in, out)
		p.conn.SetLogger(slog.New(slog.DiscardHandler))
		c.SetLogger(slog.New(slog.DiscardHandler))
		var first time.Duration
		for b.Loop() {
			r.first = time.Time{}
			began := time.Now()
			if _, err := c.Prompt(b.Context(), acp.PromptRequest{SessionId: "s1", Prompt: []acp.ContentBlock{acp.TextBlock("go")}}); err != nil {
				b.Fatal(err)
			}
			first += r.first.Sub(began)
		}
		report(b, first)
		in.Close()
		toClient.Close()
	})
	b.Run("agent", func(b *testing.B) {
		at := newPlace(b, permission.Config{Preset: "none"}, &program{do: stream})
		var first time.Duration
		for b.Loop() {
			at.begun = time.Time{}
			began := time.Now()
			if _, err := at.Send(b.Context(), "go"); err != nil {
				b.Fatal(err)
			}
			first += at.begun.Sub(began)
		}
		report(b, first)
	})
}

// report reports the time to the first piece, and for each piece.
func report(b *testing.B, first time.Duration) {
	b.ReportMetric(float64(first.Microseconds())/float64(b.N), "us/first")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1e3/float64(b.N)/updates, "us/update")
}
