// Package sqlite is a session.Store in a SQLite file: one writer with grouped commits (WAL,
// synchronous=FULL), any number of readers, also in other processes. The file is private to its
// user. Its schema has a version; a file of another version is refused.
//
// A damaged file is set aside under another name and reported; it is never removed or overwritten.
//
// Guarantees: after the end of the process, the system or the power, at any moment, the file has whole
// commits in their order: all for which Commit returned, and perhaps the one that was being made. That
// holds also while a checkpoint writes the log back to the file, and while a commit begins the log again
// behind one. It relies on a disk that keeps what it was told to keep (fsync), and whose writes change no
// byte beside those that they write.
//
// Not guaranteed: a disk that damages the log later, or loses it, takes the commits since the damaged
// place, at most those since the last checkpoint (about 4 MiB). Nothing reports it, because SQLite takes
// the damaged place for the end of the log. Damage in the file is found by the query that reads it, as far
// as the structure of a page shows it; a changed letter in a text is not found. Events are durable with
// the next commit.
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
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"symbio/agent/session"
)

// Store is a session.Store in a file. Open it with Open.
type Store struct {
	// db makes the commits, over its only connection; readers makes the queries; events appends
	// events, which do not wait for the disk.
	db, readers, events *sql.DB
	path                string
	faults              faults
	// commit makes the commits over the connection of db.
	commit committer
	// opened is set when the store can be used, damaged when a page of the file was found damaged.
	opened  bool
	damaged atomic.Bool
}

// Open opens the store in a file, and makes the file if it is missing. If the file is damaged, Open
// renames it, makes a new one, and returns the new store together with an error that wraps
// session.ErrDamaged and names the old file. With any other error the store is nil.
//
// Open reads only some pages. Where a later call finds damage, its error wraps session.ErrDamaged, the
// store writes nothing more, and the next Open checks the whole file before it uses it.
func Open(path string) (*Store, error) {
	s, err := open(path, false)
	if err != nil && !errors.Is(err, session.ErrDamaged) {
		return nil, err
	}
	if err != nil {
		aside, e := setAside(path)
		if e != nil {
			return nil, errors.Join(err, e)
		}
		if s, e = open(path, false); e != nil {
			return nil, errors.Join(err, e)
		}
		err = fmt.Errorf("%w and was set aside as %s: %w", session.ErrDamaged, aside, err)
	}
	if e := os.Remove(path + suspectSuffix); e != nil && !errors.Is(e, fs.ErrNotExist) {
		return nil, errors.Join(err, e, s.Close())
	}
	return s, err
}

// setAside renames a file and its log, which belongs to it: without the log the file may be older than
// it seems. It returns the new name.
func setAside(path string) (aside string, err error) {
	aside = path + ".damaged-" + time.Now().UTC().Format("20060102-150405.000000")
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+end, aside+end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}

// OpenReader opens an existing file for commands beside the node that writes it. Rename, Delete and Bill
// may be called, and Commit with new sessions and of entries without an Info (session.Write). The error
// wraps fs.ErrNotExist if there is no file.
func OpenReader(path string) (*Store, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return open(path, true)
}

// OpenMemory returns a store that keeps sessions in memory until it is closed, over one connection.
func OpenMemory() (*Store, error) {
	db, err := sql.Open("sqlite", ":memory:?_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	s := &Store{db: db, readers: db, events: db, path: "memory", opened: true}
	if err := s.create(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func open(path string, reader bool) (_ *Store, err error) {
	s := &Store{path: path, opened: reader}
	defer func() {
		if err != nil {
			err = errors.Join(s.explain(err), s.Close())
		}
	}()
	settings := url.Values{"_txlock": {"immediate"}}
	if !reader {
		// Made here, so that the file never has other permissions.
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err == nil {
			err = errors.Join(f.Chmod(0o600), f.Close())
		}
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(path); err == nil && info.Size() == 0 {
			settings.Set("_auto_vacuum", "INCREMENTAL") // only before the first page; later it would write to the file
		}
	}
	if s.db, err = sql.Open("sqlite", dsn(path, "FULL", settings)); err != nil {
		return nil, err
	}
	s.db.SetMaxOpenConns(1)
	if s.readers, err = sql.Open("sqlite", dsn(path, "FULL", url.Values{})); err != nil {
		return nil, err
	}
	s.readers.SetMaxOpenConns(4)
	if s.events, err = sql.Open("sqlite", dsn(path, "NORMAL", url.Values{"_txlock": {"immediate"}})); err != nil {
		return nil, err
	}
	s.events.SetMaxOpenConns(1)
	for _, step := range []func() error{s.create, s.check} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	s.opened = true
	return s, nil
}

// dsn returns the name of a file for database/sql, with the settings of its connections.
func dsn(path, sync string, settings url.Values) string {
	settings["_pragma"] = []string{"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(" + sync + ")", "cell_size_check(ON)"}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: settings.Encode()}).String()
}

// suspectSuffix is the end of the name of the empty file that tells the next Open to check everything.
const suspectSuffix = ".suspect"

// check finds a file that is damaged, or no store: it reads a page of each table and the sessions that
// Recover needs. A file under suspicion is read as a whole, which takes seconds for each gigabyte.
func (s *Store) check() error {
	f := session.Filter{States: []session.State{session.Working}}
	query := `SELECT iif(count(x) >= 0, 'ok', '') FROM (SELECT max(id) x FROM entries UNION ALL SELECT max(seq) FROM events
		UNION ALL SELECT max(session) FROM contents UNION ALL SELECT count(*) FROM (SELECT rowid FROM words LIMIT 1))`
	if _, err := os.Stat(s.path + suspectSuffix); err == nil {
		f, query = session.Filter{}, quickCheck
	}
	if err := s.isOK(context.Background(), query); err != nil {
		return err
	}
	_, err := s.sessions(context.Background(), f)
	return err
}

// quickCheck is the query that reads the whole file.
const quickCheck = "PRAGMA quick_check(1)"

// isOK returns an error unless the query, which checks the file, finds "ok".
func (s *Store) isOK(ctx context.Context, query string) error {
	var found string
	if err := s.readers.QueryRowContext(ctx, query).Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return fmt.Errorf("%w: %s", session.ErrDamaged, found)
	}
	return nil
}

// explain adds to an error of SQLite what to do about it. If the file is damaged the store writes
// nothing more, since that could destroy what is left, and marks the file for the next Open.
func (s *Store) explain(err error) error {
	if err == nil || errors.Is(err, session.ErrNotFound) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	code, advice := 0, ""
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		code = e.Code() & 0xff
	}
	if code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB {
		err = fmt.Errorf("%w: %w", session.ErrDamaged, err)
	} else {
		advice = adviceFor(code, err, filepath.Dir(s.path))
	}
	if errors.Is(err, session.ErrDamaged) {
		if !s.damaged.Swap(true) {
			err = errors.Join(err, os.WriteFile(s.path+suspectSuffix, nil, 0o600))
		}
		if s.opened {
			advice = "; nothing more is written to it; restart the node, which sets the file aside and begins a new one"
		}
	}
	return fmt.Errorf("the file of the sessions, %s: %w%s", s.path, err, advice)
}

// adviceFor returns what to do about an error of SQLite with this primary code, or of the system, as the
// end of a message; "" if that is not known. dir is the directory of the file.
func adviceFor(code int, err error, dir string) string {
	switch {
	case code == sqlite3.SQLITE_FULL || errors.Is(err, syscall.ENOSPC):
		return "; its disk is full" + free(dir) + ": make room, for example with symbio sessions prune, and try again"
	case code == sqlite3.SQLITE_IOERR:
		return "; its disk is full or fails" + free(dir) + ": make room, for example with symbio sessions prune; if there is room, the log of the system says what is wrong with the disk"
	case code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED || code == sqlite3.SQLITE_PROTOCOL:
		return "; another program holds it, such as sqlite3 or a backup: end that, and try again"
	case code == sqlite3.SQLITE_READONLY || code == sqlite3.SQLITE_PERM || code == sqlite3.SQLITE_CANTOPEN ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return "; make the file and its directory writable for this user, or set session.store to memory"
	}
	return ""
}

// Close closes the file, after the end of the transactions that have begun: nothing is written after it.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.readers, s.events, s.db} { // the writer last: the last connection writes the log back
		if db == nil {
			continue
		}
		release := func() error { return nil }
		if (db != s.readers || db == s.db) && db.Stats().OpenConnections > 0 { // its only connection, which a transaction gives back at its end
			if writer, err := db.Conn(context.Background()); err == nil {
				release = writer.Close
				if db == s.db {
					errs = append(errs, writer.Raw(func(any) error { return s.commit.close() }))
				}
			}
		}
		errs = append(errs, db.Close(), release())
	}
	return errors.Join(errs...)
}

// update makes a transaction over a connection for changes. It refuses to change a file that is damaged.
func (s *Store) update(ctx context.Context, db *sql.DB, change func(*sql.Tx) error) error {
	if s.damaged.Load() {
		return s.explain(session.ErrDamaged)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return s.explain(err)
	}
	defer tx.Rollback() // has no effect after Commit
	if err := change(tx); err != nil {
		return s.explain(err)
	}
	return s.explain(tx.Commit())
}

// Commit implements session.Store.
func (s *Store) Commit(writes []session.Write) error {
	if s.damaged.Load() {
		return s.explain(session.ErrDamaged)
	}
	s.faults.reach("before")
	conn, err := s.db.Conn(context.Background())
	if err != nil {
		return s.explain(err)
	}
	defer conn.Close()
	err = conn.Raw(func(conn any) error {
		return s.commit.commit(conn, writes, func() { s.faults.reach("during") })
	})
	if err == nil {
		s.faults.reach("after")
	}
	return s.explain(err)
}

// Sessions implements session.Store.
func (s *Store) Sessions(ctx context.Context, f session.Filter) ([]session.Info, error) {
	all, err := s.sessions(ctx, f)
	return all, s.explain(err)
}

func (s *Store) sessions(ctx context.Context, f session.Filter) ([]session.Info, error) {
	where, args := []string{"1"}, []any{}
	for _, c := range []struct{ condition, value string }{{"dir = ?", f.Dir}, {"parent = ?", f.Parent}, {"root = ?", f.Root},
		{"id >= ?", f.ID}, {"id <= ? || char(1114111)", f.ID}} {
		if c.value != "" {
			where, args = append(where, c.condition), append(args, c.value)
		}
	}
	if f.Roots {
		where, args = append(where, "parent = '' AND coalesce(json_extract(CAST(info AS TEXT), '$.item'), 0) = ?"), append(args, f.Items)
	}
	if f.Keep {
		where = append(where, "json_extract(CAST(info AS TEXT), '$.keep')")
	}
	if len(f.States) > 0 {
		where = append(where, "state IN (?"+strings.Repeat(", ?", len(f.States)-1)+")")
		for _, state := range f.States {
			args = append(args, string(state))
		}
	}
	return collect(ctx, s, func(rows *sql.Rows) (session.Info, error) { return scanInfo(rows) },
		"SELECT title, info FROM sessions WHERE "+strings.Join(where, " AND ")+" ORDER BY updated DESC, id DESC LIMIT ?", append(args, cmp.Or(f.Limit, -1))...)
}

// collect returns the rows of a query.
func collect[T any](ctx context.Context, s *Store, scan func(*sql.Rows) (T, error), query string, args ...any) (all []T, err error) {
	rows, err := s.readers.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
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
	if err := json.Unmarshal(info, &i); err != nil {
		return i, fmt.Errorf("%w: %w", session.ErrDamaged, err)
	}
	i.Title = title
	return i, nil
}

// Entries implements session.Store.
func (s *Store) Entries(ctx context.Context, id string, after int64) (all []session.Entry, err error) {
	defer func() { err = s.explain(err) }()
	if err := s.exists(ctx, id); err != nil {
		return nil, err
	}
	return collect(ctx, s, func(rows *sql.Rows) (e session.Entry, err error) {
		var at int64
		var data []byte
		if err := rows.Scan(&e.ID, &at, &e.Kind, &data); err != nil {
			return e, err
		}
		e.Time = time.UnixMicro(at).UTC()
		if err = json.Unmarshal(data, &e); err == nil {
			err = e.Check()
		}
		if err != nil {
			err = fmt.Errorf("entry %d of session %s: %w", e.ID, id, err)
		}
		return e, err
	}, "SELECT id, time, kind, data FROM entries WHERE session = ? AND id > ? ORDER BY id", id, after)
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
func (s *Store) Search(ctx context.Context, words string, limit int) (found []session.Line, err error) {
	defer func() { err = s.explain(err) }()
	var terms []string
	for _, w := range strings.Fields(strings.ReplaceAll(words, "\x00", " ")) { // a zero byte ends a query
		terms = append(terms, `"`+strings.ReplaceAll(w, `"`, `""`)+`"*`) // a phrase: no word is an operator
	}
	if len(terms) == 0 {
		return nil, nil
	}
	return collect(ctx, s, func(rows *sql.Rows) (l session.Line, err error) {
		var data []byte
		var at int64
		i, err := scanInfo(rows, &l.ID, &at, &l.Kind, &data)
		e := session.Entry{Kind: l.Kind}
		if err == nil {
			err = json.Unmarshal(data, &e)
		}
		l.Session, l.Time, l.Text = &i, time.UnixMicro(at).UTC(), session.Around(e.Words(), words)
		return l, err
	}, `SELECT s.title, s.info, e.id, e.time, e.kind, e.data FROM words w JOIN entries e ON e.id = w.rowid JOIN sessions s ON s.id = e.session
		WHERE words MATCH ? ORDER BY w.rowid DESC LIMIT ?`, strings.Join(terms, " "), cmp.Or(limit, -1))
}

// Content implements session.Store.
func (s *Store) Content(ctx context.Context, id, hash string) (data []byte, err error) {
	err = s.readers.QueryRowContext(ctx, "SELECT data FROM contents WHERE session = ? AND hash = ?", id, hash).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("content %.12s of session %s: %w", hash, id, session.ErrNotFound)
	}
	return data, s.explain(err)
}

// Rename implements session.Store.
func (s *Store) Rename(ctx context.Context, id, title string) error {
	return s.update(ctx, s.db, func(tx *sql.Tx) error {
		return execFor(tx, id, "UPDATE sessions SET title = ?2 WHERE id = ?1", title)
	})
}

// execFor executes a statement about a session, whose id is its first argument. The error wraps
// ErrNotFound if it changes nothing.
func execFor(tx *sql.Tx, id, statement string, args ...any) error {
	done, err := tx.Exec(statement, append([]any{id}, args...)...)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); n == 0 && err == nil {
		return fmt.Errorf("session %q: %w", id, session.ErrNotFound)
	}
	return nil
}

// Delete implements session.Store. The file shrinks at once, unless a reader still needs its pages.
func (s *Store) Delete(ctx context.Context, ids ...string) error {
	err := s.update(ctx, s.db, func(tx *sql.Tx) error {
		for _, id := range ids {
			for _, statement := range []string{
				addCalls + "session = ?", "DELETE FROM words WHERE rowid IN (SELECT id FROM entries WHERE session = ?)", "DELETE FROM entries WHERE session = ?", "DELETE FROM contents WHERE session = ?",
			} {
				if _, err := tx.Exec(statement, id); err != nil {
					return err
				}
			}
			if err := execFor(tx, id, "DELETE FROM sessions WHERE id = ?"); err != nil {
				return err
			}
		}
		_, err := tx.Exec("UPDATE billed SET entry = min(entry, (SELECT coalesce(max(id), 0) FROM entries))") // the ids behind it are given again
		return err
	})
	if err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, "PRAGMA incremental_vacuum")
	return s.explain(err)
}

// Prune implements session.Store.
func (s *Store) Prune(ctx context.Context, before time.Time, maxBytes int64, except ...string) (deleted int, err error) {
	names, err := json.Marshal(append([]string{}, except...))
	for err == nil {
		var size int64
		if size, err = s.Size(ctx); err != nil {
			break
		}
		// The oldest tree that may go. A sub-agent goes on with the root of its tree only.
		var tree []string
		var ids []byte
		err = s.readers.QueryRowContext(ctx, `SELECT json_group_array(id) FROM sessions GROUP BY root
			HAVING (max(updated) < ? OR ?) AND NOT max(state = 'working' OR CAST(info AS TEXT) ->> 'keep' IS 1
				OR CAST(info AS TEXT) ->> '$.exchange.open' IS 1 AND parent = '' AND state <> 'lost' OR id IN (SELECT value FROM json_each(?)))
			ORDER BY max(updated) LIMIT 1`, before.UnixMicro(), maxBytes > 0 && size > maxBytes, string(names)).Scan(&ids)
		if errors.Is(err, sql.ErrNoRows) {
			return deleted, nil
		}
		if err == nil {
			err = json.Unmarshal(ids, &tree)
		}
		if err == nil {
			err = s.Delete(ctx, tree...)
		}
		if err == nil {
			deleted += len(tree)
		}
	}
	return deleted, s.explain(err)
}

// Size returns the bytes of the pages that are used.
func (s *Store) Size(ctx context.Context) (bytes int64, err error) {
	err = s.readers.QueryRowContext(ctx, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size").Scan(&bytes)
	return bytes, s.explain(err)
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
