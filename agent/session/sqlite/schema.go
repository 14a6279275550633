package sqlite

import (
	"database/sql"
	"fmt"
)

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
`, `
-- Each commit changes sessions.updated, so it is in no index: sorting some thousand sessions for a list takes less.
DROP INDEX sessions_updated;
DROP INDEX sessions_state;
CREATE INDEX sessions_state ON sessions (state);
`, `
-- The bill has the sums of the model calls of an hour, and stays when their sessions are deleted. requests are the calls of which the model has
-- reported nothing: those in flight, and those whose report was lost. An hour is counted from 1970.
CREATE TABLE bill (hour INTEGER NOT NULL, root TEXT NOT NULL, agent TEXT NOT NULL, user TEXT NOT NULL, model TEXT NOT NULL, calls INTEGER NOT NULL,
	input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL, cost REAL NOT NULL, unpriced INTEGER NOT NULL,
	PRIMARY KEY (hour, root, agent, user, model)) WITHOUT ROWID;
CREATE TABLE requests (id INTEGER PRIMARY KEY, session TEXT NOT NULL, hour INTEGER NOT NULL, root TEXT NOT NULL, agent TEXT NOT NULL, user TEXT NOT NULL, model TEXT NOT NULL, estimated INTEGER NOT NULL);
CREATE INDEX requests_session ON requests (session, id);
-- What older entries say. Those from before their session were copied by a fork.
CREATE TABLE old AS SELECT *, time / 3600000000 hour, substr(requester, 1, instr(requester || '/', '/') - 1) user, coalesce(used ->> 'input', 0) input, coalesce(used ->> 'output', 0) output
	FROM (SELECT e.id, e.time, e.session, e.kind, s.root, coalesce(CAST(s.info AS TEXT) ->> 'requester', '') requester, coalesce(CAST(s.info AS TEXT) ->> 'agent', '') agent,
			coalesce(CAST(s.info AS TEXT) ->> 'model', '') model, CAST(s.info AS TEXT) ->> 'created' created, CAST(e.data AS TEXT) -> 'usage' used,
			lead(e.kind, 1, '') OVER entries next, lead(CAST(e.data AS TEXT) ->> 'status', 1, '') OVER entries status
		FROM entries e JOIN sessions s ON s.id = e.session WHERE e.kind IN ('request', 'answer', 'compaction', 'end') WINDOW entries AS (PARTITION BY e.session ORDER BY e.id))
	WHERE time / 1000000 >= unixepoch(created);
INSERT INTO bill SELECT hour, root, agent, user, model, count(*), sum(input), sum(output), total(used ->> 'cache_read'), total(used ->> 'cache_write'), total(used ->> 'cost'), sum(used ->> 'cost' IS NULL)
	FROM old WHERE kind IN ('answer', 'compaction') AND input + output > 0 GROUP BY hour, root, agent, user, model;
INSERT INTO requests (session, hour, root, agent, user, model, estimated) SELECT session, hour, root, agent, user, model, input
	FROM old WHERE kind = 'request' AND next NOT IN ('answer', 'compaction') AND NOT (next = 'end' AND status = 'failed') ORDER BY id;
DROP TABLE old;
`, `
-- See addCalls. The calls among the entries up to the one in billed are in the bill.
CREATE TABLE billed (entry INTEGER NOT NULL);
INSERT INTO billed SELECT coalesce(max(id), 0) FROM entries;
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
`}

// migrate brings the schema to the newest version. It takes the lock of the writer only if there is
// something to do, so that a command does not wait for a node.
func (s *Store) migrate() error {
	if version, err := schemaVersion(s.db); err != nil || version == len(migrations) {
		return err
	}
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // has no effect after Commit
	version, err := schemaVersion(tx)
	if err != nil {
		return err
	}
	for _, step := range migrations[min(version, len(migrations)):] {
		if _, err := tx.Exec(step); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", len(migrations))); err != nil {
		return err
	}
	return tx.Commit()
}

// schemaVersion returns the version of the file's schema. It refuses one that is not known.
func schemaVersion(q interface{ QueryRow(string, ...any) *sql.Row }) (version int, err error) {
	err = q.QueryRow("PRAGMA user_version").Scan(&version)
	if err == nil && version > len(migrations) {
		err = fmt.Errorf("a newer symbio wrote it (version %d, this one knows %d); update symbio", version, len(migrations))
	}
	return version, err
}
