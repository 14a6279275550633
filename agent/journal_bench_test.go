package agent_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"iter"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/community"
	"symbio/internal/agent/session/sqlite"
	"symbio/security/permission"
)

// delayed is a model that answers after a time, as one behind a network does.
type delayed struct {
	llm.Model
	by time.Duration
}

func (d delayed) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		time.Sleep(d.by)
		d.Model.Stream(ctx, r)(yield)
	}
}

// openJournal opens a journal in a new file, as a node does.
func openJournal(b *testing.B) (_ *session.Journal, store *sqlite.Store, path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "sessions.db")
	store, err := sqlite.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	return session.NewJournal(store, "kitchen"), store, path
}

func closeJournal(b testing.TB, j *session.Journal) {
	b.Helper()
	if err := j.Close(); err != nil {
		b.Error(err)
	}
}

// BenchmarkJournal compares a task of one call by an agent whose session is recorded with one by an agent
// whose session is not, with a model that answers after 20 ms. The bar for x-unrecorded is 1.15. A commit to
// the disk alone is in commit-us; the task has four.
func BenchmarkJournal(b *testing.B) {
	journal, _, path := openJournal(b)
	b.Cleanup(func() { closeJournal(b, journal) })
	rooms := []*room{newJournalRoom(b, nil, lookupTool()), newJournalRoom(b, journal, lookupTool())}
	bare := openBare(b, filepath.Join(filepath.Dir(path), "bare.db"))
	took := make([][]time.Duration, len(rooms))
	var commits []time.Duration
	for round := 0; b.Loop(); round++ {
		for n := range rooms {
			at := (n + round) % len(rooms) // not always after the same one
			id := rooms[at].spawn(delayed{caller(1), 20 * time.Millisecond}, "lookup")
			start := time.Now()
			rooms[at].task(id, "What is the weather?")
			took[at] = append(took[at], time.Since(start))
			if err := rooms[at].community.Terminate(b.Context(), id); err != nil {
				b.Fatal(err)
			}
		}
		start := time.Now()
		bare.commit(b, []bareRow{{"a", make([]byte, 200)}})
		commits = append(commits, time.Since(start))
	}
	b.ReportMetric(float64(median(took[1]))/float64(median(took[0])), "x-unrecorded")
	b.ReportMetric(float64(median(commits).Microseconds()), "commit-us")
}

// bareRow is an entry as bytes.
type bareRow struct {
	session string
	data    []byte
}

// bareStore is a table of entries in SQLite with the settings of the store of sessions. It has no descriptions of
// sessions, and no index of words.
type bareStore struct {
	db     *sql.DB
	insert *sql.Stmt
}

func openBare(b *testing.B, path string) *bareStore {
	b.Helper()
	// The driver's name is known because this file imports the store.
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	if _, err := db.Exec("CREATE TABLE entries (id INTEGER PRIMARY KEY, session TEXT NOT NULL, data BLOB NOT NULL); CREATE INDEX entries_session ON entries (session, id)"); err != nil {
		b.Fatal(err)
	}
	insert, err := db.Prepare("INSERT INTO entries (session, data) VALUES (?, ?)")
	if err != nil {
		b.Fatal(err)
	}
	return &bareStore{db, insert}
}

// commit adds rows in one transaction.
func (s *bareStore) commit(b *testing.B, rows []bareRow) {
	b.Helper()
	tx, err := s.db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	insert := tx.Stmt(s.insert)
	for _, row := range rows {
		if _, err := insert.Exec(row.session, row.data); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
}

// commitRecorder is a store that keeps the entries of each commit. The journal makes one commit at a time.
type commitRecorder struct {
	session.Store
	commits [][]bareRow
}

func (c *commitRecorder) Commit(writes []session.Write) error {
	var rows []bareRow
	for _, w := range writes {
		for _, data := range w.Data {
			rows = append(rows, bareRow{w.Info.ID, data})
		}
	}
	c.commits = append(c.commits, rows)
	return c.Store.Commit(writes)
}

// BenchmarkJournalOf64Agents is the rate of steps, a request to the model and a call each, of 64 agents side by
// side whose model answers at once. x-bare is its ratio to the rate at which SQLite alone commits the same entries
// in the same groups. The bar is 0.5.
func BenchmarkJournalOf64Agents(b *testing.B) {
	const agents, steps = 64, 10
	_, store, path := openJournal(b)
	recorder := &commitRecorder{Store: store}
	journal := session.NewJournal(recorder, "kitchen")
	b.Cleanup(func() { closeJournal(b, journal) })
	r := newJournalRoom(b, journal, lookupTool())
	bare := openBare(b, filepath.Join(filepath.Dir(path), "bare.db"))
	var ids []community.MemberID
	for range agents {
		ids = append(ids, r.spawn(caller(steps), "lookup"))
	}
	var ours, floor []time.Duration
	commits, entries := 0, 0
	for b.Loop() {
		recorder.commits = nil
		var tasks sync.WaitGroup
		start := time.Now()
		for _, id := range ids {
			tasks.Go(func() { r.task(id, "What is the weather?") })
		}
		tasks.Wait()
		ours = append(ours, time.Since(start))
		commits += len(recorder.commits)
		start = time.Now()
		for _, rows := range recorder.commits {
			bare.commit(b, rows)
			entries += len(rows)
		}
		floor = append(floor, time.Since(start))
	}
	b.ReportMetric(float64(median(floor))/float64(median(ours)), "x-bare")
	b.ReportMetric(agents*steps/median(ours).Seconds(), "steps/s")
	b.ReportMetric(float64(entries)/float64(commits), "entries/commit")
}

// BenchmarkResume is the spawn of an agent that goes on with a conversation of 1,000 turns. The floor reads the
// same rows and decodes them.
func BenchmarkResume(b *testing.B) {
	const tasks, steps = 100, 9
	journal, store, path := openJournal(b)
	b.Cleanup(func() { closeJournal(b, journal) })
	r := newJournalRoom(b, journal, lookupTool())
	id := r.spawn(caller(steps), "lookup")
	for range tasks {
		r.task(id, "What is the weather?")
	}
	if err := r.community.Terminate(b.Context(), id); err != nil {
		b.Fatal(err)
	}
	all, err := store.Sessions(b.Context(), session.Filter{})
	if err != nil || len(all) != 1 || all[0].Turns != tasks*(steps+1) {
		b.Fatalf("sessions: %+v, %v", all, err)
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	var took [2][]time.Duration
	var memory [2]runtime.MemStats // what both used, in Mallocs and TotalAlloc
	measure := func(at int, f func()) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		f()
		took[at] = append(took[at], time.Since(start))
		runtime.ReadMemStats(&after)
		memory[at].Mallocs += after.Mallocs - before.Mallocs
		memory[at].TotalAlloc += after.TotalAlloc - before.TotalAlloc
	}
	for b.Loop() {
		measure(0, func() { readEntries(b, db, all[0].ID) })
		measure(1, func() {
			m, err := r.factory.Spawn(b.Context(), agent.Order{
				Definition: definition.General(), Model: caller(0), Policy: permission.Standard(), Session: all[0],
			})
			if err != nil {
				b.Fatal(err)
			}
			id = m.ID
		})
		if err := r.community.Terminate(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
	runs := float64(len(took[0]))
	b.ReportMetric(float64(median(took[1]))/float64(median(took[0])), "x-floor")
	b.ReportMetric(float64(median(took[1]).Microseconds())/1000, "ms/resume")
	b.ReportMetric(float64(memory[1].Mallocs)/runs, "allocs/resume")
	b.ReportMetric(float64(memory[1].TotalAlloc)/runs, "B/resume")
	b.ReportMetric(float64(memory[1].Mallocs)/float64(memory[0].Mallocs), "allocs-x-floor")
}

// readEntries reads and decodes the entries of a session without the store.
func readEntries(b *testing.B, db *sql.DB, id string) {
	rows, err := db.QueryContext(b.Context(), "SELECT id, data FROM entries WHERE session = ? ORDER BY id", id)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	var all []session.Entry
	for rows.Next() {
		var e session.Entry
		var data []byte
		if err := rows.Scan(&e.ID, &data); err != nil {
			b.Fatal(err)
		}
		if err := json.Unmarshal(data, &e); err != nil {
			b.Fatal(err)
		}
		all = append(all, e)
	}
	if err := rows.Err(); err != nil || len(all) == 0 {
		b.Fatalf("%d entries, %v", len(all), err)
	}
}
