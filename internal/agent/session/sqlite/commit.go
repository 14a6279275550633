package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"

	"symbio/agent/session"
)

// The statements of a commit. They have no numbered parameters, which the driver looks up by name at each execution. A statement
// of several rows that may be aborted alone would copy each page before it changes it, and write the words of all statements
// before it to their index: this one rolls back, as its caller does.
const (
	// setSession does not change the index of states.
	setSession = "UPDATE sessions SET title = iif(title = '', ?, title), updated = ?, info = ? WHERE id = ? AND state = ?"
	addSession = `INSERT INTO sessions (id, title, dir, parent, root, state, updated, info) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET title = iif(title = '', excluded.title, title), state = excluded.state, updated = excluded.updated, info = excluded.info`
	addEntries = "INSERT OR ROLLBACK INTO entries (session, time, kind, data) VALUES (?, ?, ?, ?)" // and more rows
	addWords   = "INSERT INTO words (rowid, text) VALUES (?, ?)"
	addContent = "INSERT INTO contents (session, hash, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
)

// maxRows is how many entries one statement adds. The driver looks at all arguments for each of them.
const maxRows = 8

// committer makes commits over the driver's connection itself: the statements, arguments and transactions of database/sql take
// longer than writing the rows. The holder of the connection uses it, one at a time.
type committer struct {
	conn       any // the statements are of it
	statements map[string]*statement
	entries    [maxRows + 1]string // addEntries by the number of rows
	// rows are the entries of the present commit, values the arguments of a statement that adds some of them.
	rows   []row
	values []driver.Value
	words  map[string]driver.Value // kinds and states as arguments, which are allocated
}

// row is an entry of a commit.
type row struct {
	session driver.Value // its id
	entry   *session.Entry
	data    []byte
}

// statement is a prepared statement with room for its arguments.
type statement struct {
	driver.Stmt
	args []driver.NamedValue
}

// commit adds writes in one transaction. during is called before it ends.
func (c *committer) commit(conn any, writes []session.Write, during func()) (err error) {
	if c.conn != conn {
		c.conn, c.statements, c.words = conn, map[string]*statement{}, map[string]driver.Value{}
	}
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		clear(c.rows) // a content may be large
		c.rows = c.rows[:0]
		if err != nil {
			_, _ = c.exec("ROLLBACK") // SQLite may have done it already
		}
	}()
	for i := range writes {
		if err := c.write(&writes[i]); err != nil {
			return err
		}
	}
	for rows := range slices.Chunk(c.rows, maxRows) {
		if err := c.putRows(rows); err != nil {
			return err
		}
	}
	during()
	_, err = c.exec("COMMIT")
	return err
}

// exec executes a statement, which it prepares the first time.
func (c *committer) exec(query string, values ...driver.Value) (driver.Result, error) {
	s := c.statements[query]
	if s == nil {
		prepared, err := c.conn.(driver.ConnPrepareContext).PrepareContext(context.Background(), query)
		if err != nil {
			return nil, err
		}
		s = &statement{Stmt: prepared, args: make([]driver.NamedValue, len(values))}
		c.statements[query] = s
	}
	for i, v := range values {
		s.args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	defer clear(s.args) // a content may be large
	return s.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), s.args)
}

// close closes the statements, without which the connection would stay open.
func (c *committer) close() (err error) {
	for _, s := range c.statements {
		if e := s.Close(); e != nil {
			err = e
		}
	}
	c.statements = nil
	return err
}

// write adds the session of a write to the transaction, and its entries to the rows.
func (c *committer) write(w *session.Write) error {
	if err := w.Encode(); err != nil {
		return err
	}
	id := driver.Value(w.Info.ID)
	begun := len(c.rows)
	for i := range w.Entries {
		c.rows = append(c.rows, row{id, &w.Entries[i], w.Data[i]})
	}
	if w.Info.Root == "" {
		return nil
	}
	return c.putSession(id, w, c.rows[begun:])
}

// putRows adds up to maxRows entries.
func (c *committer) putRows(rows []row) error {
	c.values = c.values[:0]
	for _, r := range rows {
		c.values = append(c.values, r.session, r.entry.Time.UnixMicro(), c.word(string(r.entry.Kind)), r.data)
	}
	defer clear(c.values)
	done, err := c.exec(c.addEntries(len(rows)), c.values...)
	if err != nil {
		return err
	}
	last, err := done.LastInsertId() // the ids of a statement follow each other
	for n := 0; n < len(rows) && err == nil; n++ {
		err = c.addParts(rows[n], last-int64(len(rows)-1-n))
	}
	return err
}

// word returns a kind or a state as an argument.
func (c *committer) word(s string) driver.Value {
	v := c.words[s]
	if v == nil {
		v = s
		c.words[s] = v
	}
	return v
}

// addEntries returns the statement that adds n entries.
func (c *committer) addEntries(n int) string {
	if c.entries[n] == "" {
		c.entries[n] = addEntries + strings.Repeat(", (?, ?, ?, ?)", n-1)
	}
	return c.entries[n]
}

// addParts adds what is kept of an entry in other tables.
func (c *committer) addParts(r row, id int64) (err error) {
	if words := r.entry.Words(); words != "" {
		_, err = c.exec(addWords, id, words)
	}
	if e := r.entry.Edit; err == nil && e != nil && e.Content != nil {
		_, err = c.exec(addContent, r.session, e.Before, e.Content)
	}
	return err
}

// putSession writes the row of a session.
func (c *committer) putSession(id driver.Value, w *session.Write, rows []row) error {
	i := &w.Info
	state, updated, data := c.word(string(i.State)), i.Updated.UnixMicro(), driver.Value(w.InfoData)
	if !slices.ContainsFunc(rows, func(r row) bool {
		return r.entry.Kind == session.Task || r.entry.Kind == session.Resume || r.entry.Kind == session.End
	}) { // else the state is another one
		done, err := c.exec(setSession, i.Title, updated, data, id, state)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n > 0 {
			return err
		}
	}
	_, err := c.exec(addSession, id, i.Title, i.Dir, i.Parent, i.Root, state, updated, data)
	return err
}
