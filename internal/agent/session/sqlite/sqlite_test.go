package sqlite_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/internal/agent/session/sqlite"
)

// open opens a store that is closed when the test ends.
func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A file shrinks only if auto_vacuum was set before the first table was made.
func TestPruneShrinksFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	s := open(t, path)
	for n := range 20 {
		fill(t, s, string(rune('a'+n)), 256<<10)
	}
	checkpoint(t, path)
	before := sizeOf(t, path)
	if n, err := s.Prune(t.Context(), time.Time{}, before/4); err != nil || n < 14 || n > 18 {
		t.Errorf("pruned %d of 20 sessions to a quarter of their size, %v", n, err)
	}
	checkpoint(t, path)
	if after := sizeOf(t, path); after > before/4 {
		t.Errorf("the file has %d bytes, before %d", after, before)
	}
	if n, err := s.Prune(t.Context(), time.Now(), 0); err != nil || n < 2 {
		t.Errorf("pruned %d sessions, %v", n, err)
	}
	checkpoint(t, path)
	if after := sizeOf(t, path); after > before/20 {
		t.Errorf("without sessions the file has %d bytes, before %d", after, before)
	}
}

// fill commits a session of some bytes: results of calls, which are not searched, and texts.
func fill(t testing.TB, s session.Store, id string, size int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(len(id))<<8+uint64(id[0])))
	const each = 8 << 10
	i := session.Info{ID: id, Root: id, State: session.Done, Updated: time.Now()}
	var entries []session.Entry
	for range size / each {
		output := make([]byte, each*3/4)
		for n := range output {
			output[n] = byte(' ' + random.IntN(90))
		}
		var words bytes.Buffer
		for range 30 {
			fmt.Fprintf(&words, "w%d ", random.IntN(2000))
		}
		entries = append(entries,
			session.Entry{Kind: session.Result, Time: time.Now(), Result: &llm.ToolResult{CallID: "1", Text: string(output)}},
			session.Entry{Kind: session.Text, Time: time.Now(), Text: words.String()})
	}
	if err := s.Commit([]session.Write{{Info: i, Entries: entries}}); err != nil {
		t.Fatal(err)
	}
}

// query returns the first value that a statement finds.
func query(t testing.TB, path, statement string) (value string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(statement).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// exec executes a statement over a connection of its own.
func exec(t rapid.TB, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// checkpoint writes the log back to the file.
func checkpoint(t testing.TB, path string) {
	t.Helper()
	exec(t, path, "PRAGMA wal_checkpoint(TRUNCATE)")
}

func sizeOf(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// What cannot be written as a whole is an error, and nothing of it is there.
func TestCommitWithoutItsTablesFails(t *testing.T) {
	for _, table := range []string{"sessions", "entries", "words", "contents"} {
		t.Run(table, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sessions.db")
			s := open(t, path)
			exec(t, path, "DROP TABLE "+table)
			err := s.Commit([]session.Write{{Info: session.Info{ID: "a", Root: "a"}, Entries: []session.Entry{
				{Kind: session.Text, Text: "hello"}, {Kind: session.Edit, Edit: &session.FileEdit{Path: "/x", Before: "b", Content: []byte("c")}},
			}}})
			if err == nil {
				t.Error("it is committed")
			}
		})
	}
}

// BenchmarkBill adds up the model calls of 10,000 sessions with a million entries, of which a quarter are calls: of all, and of a week of a
// year.
func BenchmarkBill(b *testing.B) {
	path := filepath.Join(b.TempDir(), "sessions.db")
	s := open(b, path)
	const sessions, calls = 10_000, 25
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for n := range sessions {
		i := session.Info{ID: fmt.Sprint("s", n), Root: fmt.Sprint("s", n), Agent: fmt.Sprint("agent", n%7), State: session.Done}
		var entries []session.Entry
		for c := range calls {
			at := begin.Add(time.Duration(n)*365*24*time.Hour/sessions + time.Duration(c)*time.Minute)
			entries = append(entries,
				session.Entry{Kind: session.Request, Time: at, Usage: &llm.Usage{Input: 5000, Model: fmt.Sprint("model", n%3)}},
				session.Entry{Kind: session.Answer, Time: at, Message: &llm.Message{Text: "x"}, Usage: &llm.Usage{Input: 5001, Output: 300, CacheRead: 4000, Cost: new(0.01)}},
				session.Entry{Kind: session.Call, Time: at, Call: &llm.ToolCall{ID: "1"}}, session.Entry{Kind: session.Result, Time: at, Result: &llm.ToolResult{CallID: "1"}})
		}
		if err := s.Commit([]session.Write{{Info: i, Entries: entries}}); err != nil {
			b.Fatal(err)
		}
	}
	for name, q := range map[string]session.BillQuery{
		"week by day": {Since: begin.AddDate(0, 6, 0), Until: begin.AddDate(0, 6, 7), By: []string{"day"}}, "all by day": {By: []string{"day"}}, "all by session, model": {By: []string{"session", "model"}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := session.Bill(b.Context(), s, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestFileThatCannotBeMadeIsAnError(t *testing.T) {
	dir := t.TempDir()
	for about, path := range map[string]string{"in no directory": filepath.Join(dir, "none", "sessions.db"), "a directory": dir} {
		if s, err := sqlite.Open(path); err == nil {
			t.Errorf("%s: opened %v", about, s)
		}
	}
}
