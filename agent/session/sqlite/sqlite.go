// Package sqlite is a session.Store in a SQLite file: one writer with grouped commits (WAL,
// synchronous=FULL), any number of readers, also in other processes. The file is private to its
// user. Its schema has a version and is migrated forward; a file of a newer version is refused.
//
// A damaged file is set aside under another name and reported; it is never removed or overwritten.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"symbio/agent/session"
)

// Store is a session.Store in a file. Open it with Open.
type Store struct {
	// db makes the commits, over its only connection; readers makes the queries.
	db, readers *sql.DB
	path        string
	faults      faults
}

// migrations bring the schema from one version to the next. The version is in user_version.
var migrations = []string{`
CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT NOT NULL, dir TEXT NOT NULL, parent TEXT NOT NULL, root TEXT NOT NULL, state TEXT NOT NULL, updated INTEGER NOT NULL, info BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX sessions_updated ON sessions (updated);
CREATE INDEX sessions_root ON sessions (root);
CREATE INDEX sessions_state ON sessions (state, updated);
CREATE TABLE entries (id INTEGER PRIMARY KEY, session TEXT NOT NULL, time INTEGER NOT NULL, kind TEXT NOT NULL, data BLOB NOT NULL);
CREATE INDEX entries_session ON entries (session, id);
CREATE VIRTUAL TABLE words USING fts5 (text, content='', contentless_delete=1);
CREATE TABLE contents (session TEXT NOT NULL, hash TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (session, hash)) WITHOUT ROWID;
CREATE TABLE events (seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, type TEXT NOT NULL, agent TEXT NOT NULL, data BLOB NOT NULL);
CREATE INDEX events_time ON events (time);
`}

// Open opens the store in a file, and makes the file if it is missing. If the file is damaged, Open
// renames it, makes a new one, and returns the new store together with an error that wraps
// session.ErrDamaged and names the old file. With any other error the store is nil.
func Open(path string) (*Store, error) {
	s, err := open(path, false)
	if !isDamaged(err) {
		return s, err
	}
	aside := path + ".damaged-" + time.Now().UTC().Format("20060102-150405")
	// The log belongs to the file: without it the file may be older than it seems.
	for _, end := range []string{"", "-wal", "-shm"} {
		if e := os.Rename(path+end, aside+end); e != nil && !errors.Is(e, fs.ErrNotExist) {
			return nil, errors.Join(err, e)
		}
	}
	fresh, e := open(path, false)
	if e != nil {
		return nil, errors.Join(err, e)
	}
	return fresh, fmt.Errorf("%w and was set aside as %s: %w", session.ErrDamaged, aside, err)
}

// OpenReader opens an existing file for commands beside the node that writes it. Rename and Delete may
// be called, and Commit with new sessions and of entries without an Info (session.Write). The error
// wraps fs.ErrNotExist if there is no file.
func OpenReader(path string) (*Store, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return open(path, true)
}

func open(path string, reader bool) (_ *Store, err error) {
	if !reader {
		// Made here, so that the file never has other permissions.
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("the file of the sessions: %w", err)
		}
		if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
			return nil, fmt.Errorf("the file of the sessions: %w", err)
		}
	}
	s := &Store{path: path}
	defer func() {
		if err != nil {
			err = fmt.Errorf("the file of the sessions, %s: %w", path, errors.Join(err, s.Close()))
		}
	}()
	if s.db, err = sql.Open("sqlite", dsn(path, "immediate")); err != nil {
		return nil, err
	}
	s.db.SetMaxOpenConns(1)
	if s.readers, err = sql.Open("sqlite", dsn(path, "deferred")); err != nil {
		return nil, err
	}
	s.readers.SetMaxOpenConns(4)
	if err := s.migrate(); err != nil {
		return nil, err
	}
	return s, nil
}

// dsn returns the name of a file for database/sql, with the settings of its connections.
func dsn(path, lock string) string {
	q := url.Values{"_txlock": {lock}, "_pragma": {"busy_timeout(5000)", "auto_vacuum(INCREMENTAL)", "journal_mode(WAL)", "synchronous(FULL)", "cell_size_check(ON)"}}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String()
}

// migrate brings the schema to the newest version.
func (s *Store) migrate() error {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // has no effect after Commit
	var version int
	if err := tx.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > len(migrations) {
		return fmt.Errorf("a newer symbio wrote it (version %d, this one knows %d); update symbio", version, len(migrations))
	}
	if version == len(migrations) {
		// Reads the schema and a page of each table, which finds a file that is no database of ours.
		_, err := tx.Exec("SELECT (SELECT count(*) FROM (SELECT 1 FROM sessions LIMIT 1)), (SELECT count(*) FROM (SELECT 1 FROM entries LIMIT 1))")
		return err
	}
	for _, step := range migrations[version:] {
		if _, err := tx.Exec(step); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", len(migrations))); err != nil {
		return err
	}
	return tx.Commit()
}

// isDamaged reports whether SQLite found that a file is damaged, or no database.
func isDamaged(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// Close closes the file.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.readers, s.db} { // the writer last: the last connection writes the log back
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// Commit implements session.Store.
func (s *Store) Commit(writes []session.Write) error {
	s.faults.reach("before")
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // has no effect after Commit
	for _, w := range writes {
		if err := commit(tx, w); err != nil {
			return err
		}
	}
	s.faults.reach("during")
	if err := tx.Commit(); err != nil {
		return err
	}
	s.faults.reach("after")
	return nil
}

// commit adds one write to a transaction.
func commit(tx *sql.Tx, w session.Write) error {
	i := w.Info
	if i.Root != "" {
		if err := commitInfo(tx, i); err != nil {
			return err
		}
	}
	for _, e := range w.Entries {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		done, err := tx.Exec("INSERT INTO entries (session, time, kind, data) VALUES (?, ?, ?, ?)", i.ID, e.Time.UnixMicro(), string(e.Kind), data)
		if err != nil {
			return err
		}
		if words := e.Words(); words != "" {
			id, err := done.LastInsertId()
			if err != nil {
				return err
			}
			if _, err := tx.Exec("INSERT INTO words (rowid, text) VALUES (?, ?)", id, words); err != nil {
				return err
			}
		}
		if e.Edit != nil && e.Edit.Content != nil {
			if _, err := tx.Exec("INSERT INTO contents (session, hash, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", i.ID, e.Edit.Before, e.Edit.Content); err != nil {
				return err
			}
		}
	}
	return nil
}

// commitInfo adds or replaces the description of a session.
func commitInfo(tx *sql.Tx, i session.Info) error {
	info, err := json.Marshal(i)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO sessions (id, title, dir, parent, root, state, updated, info) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET title = iif(title = '', excluded.title, title), state = excluded.state, updated = excluded.updated, info = excluded.info`,
		i.ID, i.Title, i.Dir, i.Parent, i.Root, string(i.State), i.Updated.UnixMicro(), info)
	return err
}

// Sessions implements session.Store.
func (s *Store) Sessions(ctx context.Context, f session.Filter) ([]session.Info, error) {
	where, args := []string{"1"}, []any{}
	for _, c := range []struct{ column, value string }{{"dir", f.Dir}, {"parent", f.Parent}, {"root", f.Root}} {
		if c.value != "" {
			where, args = append(where, c.column+" = ?"), append(args, c.value)
		}
	}
	if f.Roots {
		where = append(where, "parent = ''")
	}
	if len(f.States) > 0 {
		where = append(where, "state IN (?"+strings.Repeat(", ?", len(f.States)-1)+")")
		for _, state := range f.States {
			args = append(args, string(state))
		}
	}
	rows, err := s.readers.QueryContext(ctx, "SELECT title, info FROM sessions WHERE "+strings.Join(where, " AND ")+" ORDER BY updated DESC, id DESC LIMIT ?", append(args, cmp.Or(f.Limit, -1))...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []session.Info
	for rows.Next() {
		i, err := scanInfo(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	return all, rows.Err()
}

// scanInfo reads the columns title and info of a session, and then those that follow.
func scanInfo(rows *sql.Rows, more ...any) (i session.Info, err error) {
	var title string
	var info []byte
	if err := rows.Scan(append([]any{&title, &info}, more...)...); err != nil {
		return i, err
	}
	err = json.Unmarshal(info, &i)
	i.Title = title
	return i, err
}

// Entries implements session.Store.
func (s *Store) Entries(ctx context.Context, id string, after int64) ([]session.Entry, error) {
	if err := s.exists(ctx, id); err != nil {
		return nil, err
	}
	rows, err := s.readers.QueryContext(ctx, "SELECT id, time, kind, data FROM entries WHERE session = ? AND id > ? ORDER BY id", id, after)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []session.Entry
	for rows.Next() {
		var e session.Entry
		var at int64
		var data []byte
		if err := rows.Scan(&e.ID, &at, &e.Kind, &data); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, fmt.Errorf("entry %d of session %s: %w", e.ID, id, err)
		}
		e.Time = time.UnixMicro(at).UTC()
		all = append(all, e)
	}
	return all, rows.Err()
}

// exists returns an error that wraps ErrNotFound if there is no session with this id.
func (s *Store) exists(ctx context.Context, id string) error {
	var one int
	err := s.readers.QueryRowContext(ctx, "SELECT 1 FROM sessions WHERE id = ?", id).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("session %q: %w", id, session.ErrNotFound)
	}
	return err
}

// Search implements session.Store.
func (s *Store) Search(ctx context.Context, words string, limit int) ([]session.Match, error) {
	var terms []string
	for _, w := range strings.Fields(words) {
		terms = append(terms, `"`+strings.ReplaceAll(w, `"`, `""`)+`"*`) // a phrase: no word is an operator
	}
	if len(terms) == 0 {
		return nil, nil
	}
	rows, err := s.readers.QueryContext(ctx, `SELECT s.title, s.info, e.id, e.kind, e.data FROM words w JOIN entries e ON e.id = w.rowid JOIN sessions s ON s.id = e.session
		WHERE words MATCH ? ORDER BY w.rowid DESC LIMIT ?`, strings.Join(terms, " "), cmp.Or(limit, -1))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []session.Match
	for rows.Next() {
		var m session.Match
		var data []byte
		if m.Session, err = scanInfo(rows, &m.Entry, &m.Kind, &data); err != nil {
			return nil, err
		}
		e := session.Entry{Kind: m.Kind}
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, err
		}
		m.Text = session.Around(e.Words(), words)
		found = append(found, m)
	}
	return found, rows.Err()
}

// Content implements session.Store.
func (s *Store) Content(ctx context.Context, id, hash string) (data []byte, err error) {
	err = s.readers.QueryRowContext(ctx, "SELECT data FROM contents WHERE session = ? AND hash = ?", id, hash).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("content %.12s of session %s: %w", hash, id, session.ErrNotFound)
	}
	return data, err
}

// Rename implements session.Store.
func (s *Store) Rename(ctx context.Context, id, title string) error {
	done, err := s.db.ExecContext(ctx, "UPDATE sessions SET title = ? WHERE id = ?", title, id)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); n == 0 && err == nil {
		return fmt.Errorf("session %q: %w", id, session.ErrNotFound)
	}
	return nil
}

// Delete implements session.Store.
func (s *Store) Delete(ctx context.Context, ids ...string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // has no effect after Commit
	for _, id := range ids {
		var gone sql.Result // of the last statement
		for _, statement := range []string{
			"DELETE FROM words WHERE rowid IN (SELECT id FROM entries WHERE session = ?)", "DELETE FROM entries WHERE session = ?",
			"DELETE FROM contents WHERE session = ?", "DELETE FROM sessions WHERE id = ?",
		} {
			done, err := tx.Exec(statement, id)
			if err != nil {
				return err
			}
			gone = done
		}
		if n, err := gone.RowsAffected(); n == 0 && err == nil {
			return fmt.Errorf("session %q: %w", id, session.ErrNotFound)
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, "PRAGMA incremental_vacuum")
	return err
}

// Prune implements session.Store.
func (s *Store) Prune(ctx context.Context, before time.Time, maxBytes int64, except ...string) (int, error) {
	return session.Prune(ctx, s, s.Size, before, maxBytes, except)
}

// Size returns the bytes of the pages that are used.
func (s *Store) Size(ctx context.Context) (bytes int64, err error) {
	err = s.readers.QueryRowContext(ctx, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size").Scan(&bytes)
	return bytes, err
}

// Recover implements session.Store.
func (s *Store) Recover(ctx context.Context) ([]session.Info, error) {
	all, err := s.Sessions(ctx, session.Filter{States: []session.State{session.Working}})
	if err != nil {
		return nil, err
	}
	var writes []session.Write
	for i := range all {
		all[i].State = all[i].Recovered()
		writes = append(writes, session.Write{Info: all[i]})
	}
	if len(writes) == 0 {
		return nil, nil
	}
	return all, s.Commit(writes)
}
