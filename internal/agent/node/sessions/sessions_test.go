package sessions

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/node/config"
	"symbio/agent/session"
	"symbio/internal/agent/session/sqlite"
)

// Finished sessions are deleted when they are too old, or the oldest while there are too many bytes.
// Those that can go on, that an agent works in, or that are kept, never are.
func TestRetentionOfSessions(t *testing.T) {
	for name, c := range map[string]struct {
		keep time.Duration
		max  config.Size
		want []string // the first words of the titles that stay, the latest first
	}{
		"age":     {48 * time.Hour, 0, []string{"new", "kept", "open"}},
		"size":    {0, 1, []string{"kept", "open"}},
		"neither": {0, 0, []string{"new", "old", "kept", "open"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := sqlite.OpenMemory()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = store.Close() })
				n := &Sessions{Events: event.NewStream("n"), Journal: session.NewJournal(store, "n"), cfg: Config{
					Session: config.Session{Keep: config.Age(c.keep), Max: c.max}, Logger: slog.New(slog.DiscardHandler),
				}}
				begin := func(title string, keep bool, more ...session.Entry) *session.Log {
					l := n.Journal.Create(session.Info{Keep: keep})
					if err := l.Commit(append([]session.Entry{{Kind: session.Task, Message: &llm.Message{Role: llm.User, Text: title}}}, more...)...); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour)
					return l
				}
				end := session.Entry{Kind: session.End, Status: session.Done}
				begin("open", false).Close()
				begin("kept", true, end).Close()
				begin("old", false, end).Close()
				time.Sleep(47 * time.Hour)
				begin("new", false, end).Close()
				working := begin("working", false)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- n.Prune(ctx) }()
				left := func() (titles []string) {
					synctest.Wait()
					all, err := store.Sessions(t.Context(), session.Filter{})
					if err != nil {
						t.Fatal(err)
					}
					for _, s := range all {
						titles = append(titles, s.Title)
					}
					return titles
				}
				if got := left(); !slices.Equal(got, append([]string{"working"}, c.want...)) {
					t.Errorf("at the start %q stay, want working and %q", got, c.want)
				}
				if err := working.Commit(end); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Hour)
				if got := left(); name == "age" && !slices.Equal(got, []string{"working", "kept", "open"}) {
					t.Errorf("days later %q stay; an agent has the first one", got)
				}
				working.Close()
				time.Sleep(2 * time.Hour)
				if got := left(); name != "neither" && !slices.Equal(got, []string{"kept", "open"}) {
					t.Errorf("in the end %q stay", got)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
