package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/community"
)

// entryOf is one of the user's file.
func entryOf(name string, change ...func(*Server)) Server {
	s := Server{Name: name, Type: Stdio, Command: "x", File: "mcp.json", Line: 1, Hash: "hash of " + name}
	for _, c := range change {
		c(&s)
	}
	return s
}

func TestChangesOfTheFilesAreTakenUpWhileItRuns(t *testing.T) {
	fakes := map[string]*fake{}
	for _, name := range []string{"stays", "changes", "goes", "comes"} {
		fakes[name] = &fake{answer: listing(func(json.RawMessage) any { return text("I am " + name) }, described("say", ""))}
	}
	open := func(ctx context.Context, s Server) (*link, error) { return fakes[s.Name].open(ctx, s) }
	started := func() (all []int) {
		for _, name := range []string{"stays", "changes", "goes", "comes"} {
			all = append(all, fakes[name].count())
		}
		return all
	}
	cfg := Config{Servers: []Server{entryOf("stays"), entryOf("changes"), entryOf("goes")}}
	bubbled(t, cfg, open, func(t *testing.T, ctx context.Context, m *Manager) {
		turnTools(ctx, m)
		held := map[string]*Tool{}
		for _, name := range []string{"stays", "changes", "goes"} {
			var err error
			if held[name], err = m.Tool(ctx, name, "say"); err != nil {
				t.Fatal(err)
			}
		}
		m.SetServers([]Server{
			entryOf("comes"), entryOf("stays", func(s *Server) { s.Line = 9 }),
			entryOf("changes", func(s *Server) { s.Args = []string{"more"}; s.Hash = "other" }),
		})
		if got, want := names(turnTools(ctx, m)),
			[]string{"mcp__comes__say", "mcp__stays__say", "mcp__changes__say"}; !slices.Equal(got, want) {
			t.Errorf("agents have %v, want %v", got, want)
		}
		synctest.Wait()
		if got, want := started(), []int{1, 2, 1, 1}; !slices.Equal(got, want) {
			t.Errorf("connections %v, want %v: what stays is not started again", got, want)
		}
		if s := m.Status()[1]; s.Server.Line != 9 || s.State != Ready {
			t.Errorf("what stays: %+v", s)
		}
		if a, err := held["stays"].Call(ctx, nil, ignore); err != nil || a.Text != "I am stays" {
			t.Errorf("what stays answers %v, %v", a, err)
		}
		for _, name := range []string{"changes", "goes"} { // a model may still call what it was shown
			_, err := held[name].Call(ctx, nil, ignore)
			if !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "its entry in mcp.json has been changed, or taken out") {
				t.Errorf("a tool of %s, as it was: %v", name, err)
			}
		}
		if _, err := m.Tool(ctx, "goes", "say"); !errors.Is(err, ErrUnknown) {
			t.Errorf("a server that is gone: %v", err)
		}
		m.SetServers(nil)
		if got := turnTools(ctx, m); len(got) != 0 || len(m.Status()) != 0 {
			t.Errorf("of no servers: %v", names(got))
		}
	})
}

func TestCallOfAServerThatIsTakenOutSaysSo(t *testing.T) {
	f := &fake{answer: listing(nil, described("say", ""))} // a call is never answered
	bubbled(t, Config{Servers: []Server{entryOf("s")}}, f.open, func(t *testing.T, ctx context.Context, m *Manager) {
		one, err := m.Tool(ctx, "s", "say")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := one.Call(ctx, nil, func(community.Progress) {})
			done <- err
		}()
		synctest.Wait()
		m.SetServers(nil)
		err = <-done
		if !errors.Is(err, ErrNotReady) || strings.Contains(err.Error(), "started again") || !strings.Contains(err.Error(), "taken out. Whether the call was done is not known") {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if f.count() != 1 {
			t.Errorf("%d connections, want 1", f.count())
		}
	})
}

func TestTrustIsAskedForWithEachChange(t *testing.T) {
	f := &fake{answer: listing(nil, described("say", ""))}
	trusted := map[string]bool{}
	proposed := entryOf("p", func(s *Server) { s.Project = true; s.Hash = "h" })
	cfg := Config{Servers: []Server{proposed}, Trusted: func(s Server) bool { return trusted[s.Hash] }}
	bubbled(t, cfg, f.open, func(t *testing.T, ctx context.Context, m *Manager) {
		for i, step := range []struct {
			trust bool
			entry Server
			want  int // connections so far
			tools int
		}{
			{false, proposed, 0, 0},
			{true, proposed, 1, 1},
			{true, proposed, 1, 1},
			{true, entryOf("p", func(s *Server) { s.Project = true; s.Hash = "changed" }), 1, 0},
			{true, proposed, 2, 1},
			{false, proposed, 2, 0},
		} {
			trusted["h"] = step.trust
			m.SetServers([]Server{step.entry})
			if got := turnTools(ctx, m); len(got) != step.tools || f.count() != step.want {
				t.Errorf("step %d: %v after %d connections, want %d tools after %d", i, names(got), f.count(), step.tools, step.want)
			}
		}
	})
}

func TestServerThatComesAfterTheEndIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: listing(nil, described("say", ""))}
		m := New(Config{})
		m.open = f.open
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := m.Run(ctx); err != nil {
			t.Fatal(err)
		}
		m.SetServers([]Server{entryOf("s")})
		if _, err := m.Tool(t.Context(), "s", "say"); !errors.Is(err, ErrNotReady) || f.count() != 0 {
			t.Errorf("got %v after %d connections", err, f.count())
		}
	})
}
