package sqlite

import (
	"database/sql"
	"fmt"
)

// version is the schema's, in user_version.
const version = 4

const schema = `
-- Each commit changes sessions.updated, so it is in no index: sorting some thousand sessions for a list takes less.
CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT NOT NULL, dir TEXT NOT NULL, parent TEXT NOT NULL, root TEXT NOT NULL, state TEXT NOT NULL, updated INTEGER NOT NULL, info BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX sessions_root ON sessions (root);
CREATE INDEX sessions_state ON sessions (state);
CREATE TABLE entries (id INTEGER PRIMARY KEY, session TEXT NOT NULL, time INTEGER NOT NULL, kind TEXT NOT NULL, data BLOB NOT NULL);
CREATE INDEX entries_session ON entries (session, id);
CREATE VIRTUAL TABLE words USING fts5 (text, content='', contentless_delete=1);
CREATE TABLE contents (session TEXT NOT NULL, hash TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (session, hash)) WITHOUT ROWID;
CREATE TABLE events (seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, type TEXT NOT NULL, agent TEXT NOT NULL, data BLOB NOT NULL);
CREATE INDEX events_time ON events (time);
-- The bill has the sums of the model calls of an hour, and stays when their sessions are deleted. requests are the calls of which the model has
-- reported nothing: those in flight, and those whose report was lost. An hour is counted from 1970.
CREATE TABLE bill (hour INTEGER NOT NULL, root TEXT NOT NULL, agent TEXT NOT NULL, user TEXT NOT NULL, model TEXT NOT NULL, calls INTEGER NOT NULL,
	input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL, cost REAL NOT NULL, unpriced INTEGER NOT NULL,
	PRIMARY KEY (hour, root, agent, user, model)) WITHOUT ROWID;
CREATE TABLE requests (id INTEGER PRIMARY KEY, session TEXT NOT NULL, hour INTEGER NOT NULL, root TEXT NOT NULL, agent TEXT NOT NULL, user TEXT NOT NULL, model TEXT NOT NULL, estimated INTEGER NOT NULL);
CREATE INDEX requests_session ON requests (session, id);
-- See addCalls. The calls among the entries up to the one in billed are in the bill.
CREATE TABLE billed (entry INTEGER NOT NULL);
INSERT INTO billed VALUES (0);
CREATE VIEW calls AS SELECT e.id, e.session, e.kind, e.time / 3600000000 hour, s.root, coalesce(CAST(s.info AS TEXT) ->> 'agent', '') agent,
		coalesce(CAST(e.data AS TEXT) ->> 'user', '') user, CAST(e.data AS TEXT) -> 'usage' used FROM entries e CROSS JOIN sessions s ON s.id = e.session
	WHERE e.kind IN ('request', 'answer', 'report') AND json_valid(CAST(e.data AS TEXT)) AND CAST(e.data AS TEXT) ->> 'copied' IS NULL
		AND (e.kind <> 'answer' OR json_remove(used, '$.model') <> '{"input":0,"output":0}');
CREATE TRIGGER add_request INSTEAD OF INSERT ON calls WHEN new.kind = 'request' BEGIN
	INSERT INTO requests (session, hour, root, agent, user, model, estimated)
		VALUES (new.session, new.hour, new.root, new.agent, new.user, coalesce(new.used ->> 'model', ''), coalesce(new.used ->> 'input', 0)); END;
CREATE TRIGGER add_report INSTEAD OF INSERT ON calls WHEN new.kind <> 'request' BEGIN
	INSERT INTO bill SELECT hour, root, agent, user, coalesce(new.used ->> 'model', model), 1, new.used ->> 'input', new.used ->> 'output', coalesce(new.used ->> 'cache_read', 0),
			coalesce(new.used ->> 'cache_write', 0), coalesce(new.used ->> 'cost', 0), new.used ->> 'cost' IS NULL AND (new.used ->> 'input') + (new.used ->> 'output') > 0
		FROM requests WHERE id = (SELECT max(id) FROM requests WHERE session = new.session)
		ON CONFLICT DO UPDATE SET calls = calls + 1, input = input + excluded.input, output = output + excluded.output, cache_read = cache_read + excluded.cache_read,
			cache_write = cache_write + excluded.cache_write, cost = cost + excluded.cost, unpriced = unpriced + excluded.unpriced;
	DELETE FROM requests WHERE id = (SELECT max(id) FROM requests WHERE session = new.session); END;
`

// create makes the schema in a new file. It takes the lock of the writer only if there is
// something to do, so that a command does not wait for a node.
func (s *Store) create() error {
	if have, err := versionOf(s.db); err != nil || have == version {
		return err
	}
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()                                            // has no effect after Commit
	if have, err := versionOf(tx); err != nil || have == version { // another process was faster
		return err
	}
	if _, err := tx.Exec(schema + fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
		return err
	}
	return tx.Commit()
}

// versionOf returns the version of the file's schema; 0 = it has none. It refuses one that is not known.
func versionOf(q interface{ QueryRow(string, ...any) *sql.Row }) (have int, err error) {
	err = q.QueryRow("PRAGMA user_version").Scan(&have)
	if err == nil && have != 0 && have != version {
		err = fmt.Errorf("another symbio wrote it (version %d, this one knows %d); update symbio, or move the file away", have, version)
	}
	return have, err
}
