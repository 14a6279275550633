package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"
	"testing/synctest"

	"symbio/agent/event"
	"symbio/agent/session"
)

// The next node opens the file as soon as it is closed: nothing may be written after that.
func TestCloseWaitsForTransactions(t *testing.T) {
	for name, db := range map[string]func(*Store) *sql.DB{
		"commit": func(s *Store) *sql.DB { return s.db },
		"events": func(s *Store) *sql.DB { return s.events },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sessions.db")
			synctest.Test(t, func(t *testing.T) {
				s, err := Open(path)
				if err != nil {
					t.Fatal(err)
				}
				hold, written, closed := make(chan struct{}), make(chan error, 1), make(chan error, 1)
				go func() {
					written <- s.update(t.Context(), db(s), func(tx *sql.Tx) error {
						<-hold
						_, err := tx.Exec("INSERT INTO events (seq, time, type, agent, data) VALUES (1, 0, '', '', '')")
						return err
					})
				}()
				synctest.Wait()
				go func() { closed <- s.Close() }()
				synctest.Wait()
				if len(closed) > 0 {
					t.Errorf("it was closed during a transaction: %v", <-closed)
				}
				close(hold)
				synctest.Wait()
				if len(written) != 1 || len(closed) != 1 {
					t.Fatalf("%d transactions and %d closes have ended", len(written), len(closed))
				}
				if err := <-written; err != nil {
					t.Error(err)
				}
				if err := <-closed; err != nil {
					t.Error(err)
				}
				if s.Commit([]session.Write{{Info: session.Info{ID: "late", Root: "late"}}}) == nil || s.AppendEvents([]event.Event{{Seq: 2}}) == nil {
					t.Error("it wrote after it was closed")
				}
			})
		})
	}
}
