package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"

	"symbio/agent/session"
)

// The statements of a commit. They have no numbered parameters, which the driver looks up by name at each execution.
const (
	// setSession does not change the index of states.
	setSession = "UPDATE sessions SET title = iif(title = '', ?, title), updated = ?, info = ? WHERE id = ? AND state = ?"
	addSession = `INSERT INTO sessions (id, title, dir, parent, root, state, updated, info) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET title = iif(title = '', excluded.title, title), state = excluded.state, updated = excluded.updated, info = excluded.info`
	addEntries = "INSERT INTO entries (session, time, kind, data) VALUES (?, ?, ?, ?)" // and more rows
	addWords   = "INSERT INTO words (rowid, text) VALUES (?, ?)"
	addContent = "INSERT INTO contents (session, hash, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
)

// maxRows is how many entries one statement adds: as many as a short task has between two commits.
const maxRows = 8

// committer makes commits over the driver's connection itself: the statements, arguments and transactions of database/sql take
// longer than writing the rows. The holder of the connection uses it, one at a time.
type committer struct {
	conn       any // the statements are of it
	statements map[string]*statement
	entries    [maxRows + 1]string // addEntries by the number of rows
}

// statement is a prepared statement with room for its arguments.
type statement struct {
	driver.Stmt
	args []driver.NamedValue
}

// commit adds writes in one transaction. during is called before it ends.
func (c *committer) commit(conn any, writes []session.Write, during func()) (err error) {
	if c.conn != conn {
		c.conn, c.statements = conn, map[string]*statement{}
	}
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = c.exec("ROLLBACK") // SQLite may have done it already
		}
	}()
	for _, w := range writes {
		if err := c.write(w); err != nil {
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

// write adds one write to the transaction.
func (c *committer) write(w session.Write) error {
	if err := w.Encode(); err != nil {
		return err
	}
	if w.Info.Root != "" {
		if err := c.putSession(w); err != nil {
			return err
		}
	}
	id := driver.Value(w.Info.ID)
	for at := 0; at < len(w.Entries); at += maxRows {
		rows := w.Entries[at:min(at+maxRows, len(w.Entries))]
		values := make([]driver.Value, 0, 4*maxRows)
		for n, e := range rows {
			values = append(values, id, e.Time.UnixMicro(), string(e.Kind), w.Data[at+n])
		}
		done, err := c.exec(c.addEntries(len(rows)), values...)
		if err != nil {
			return err
		}
		last, err := done.LastInsertId() // the ids of a statement follow each other
		if err != nil {
			return err
		}
		for n, e := range rows {
			if err := c.addParts(w.Info.ID, last-int64(len(rows)-1-n), e); err != nil {
				return err
			}
		}
	}
	return nil
}

// addEntries returns the statement that adds n entries.
func (c *committer) addEntries(n int) string {
	if c.entries[n] == "" {
		c.entries[n] = addEntries + strings.Repeat(", (?, ?, ?, ?)", n-1)
	}
	return c.entries[n]
}

// addParts adds what is kept of an entry in other tables.
func (c *committer) addParts(session string, id int64, e session.Entry) (err error) {
	if words := e.Words(); words != "" {
		_, err = c.exec(addWords, id, words)
	}
	if err == nil && e.Edit != nil && e.Edit.Content != nil {
		_, err = c.exec(addContent, session, e.Edit.Before, e.Edit.Content)
	}
	return err
}

// putSession writes the row of a session.
func (c *committer) putSession(w session.Write) error {
	i := w.Info
	id, title, state, updated, data := driver.Value(i.ID), driver.Value(i.Title), driver.Value(string(i.State)),
		driver.Value(i.Updated.UnixMicro()), driver.Value(w.InfoData)
	if !slices.ContainsFunc(w.Entries, func(e session.Entry) bool {
		return e.Kind == session.Task || e.Kind == session.Resume || e.Kind == session.End
	}) { // else the state is another one
		done, err := c.exec(setSession, title, updated, data, id, state)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n > 0 {
			return err
		}
	}
	_, err := c.exec(addSession, id, title, i.Dir, i.Parent, i.Root, state, updated, data)
	return err
}
