package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"time"

	"symbio/agent/event"
)

// AppendEvents implements event.Store. The events survive the end of the process at once, and that
// of the machine after the next commit of a session.
func (s *Store) AppendEvents(events []event.Event) error {
	return s.update(context.Background(), s.events, func(tx *sql.Tx) error {
		insert, err := tx.Prepare("INSERT INTO events (seq, time, type, agent, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING")
		for _, e := range events {
			var line []byte
			if err == nil {
				line, err = json.Marshal(e)
			}
			if err == nil {
				_, err = insert.Exec(int64(e.Seq), e.Time.UnixMicro(), e.Type, e.Agent, line)
			}
		}
		return err
	})
}

// Events implements event.Store.
func (s *Store) Events(ctx context.Context, after, before uint64, limit int) ([]event.Event, error) {
	return collect(ctx, s, scanEvent, "SELECT seq, time, type, agent, data FROM events WHERE seq > ? AND seq < ? ORDER BY seq LIMIT ?", int64(min(after, math.MaxInt64)), int64(min(before, math.MaxInt64)), limit)
}

// EventsOf returns the events of some types since a time, in order. It does not set Node.
func (s *Store) EventsOf(ctx context.Context, since time.Time, types ...string) ([]event.Event, error) {
	wanted, err := json.Marshal(types)
	if err != nil {
		return nil, err
	}
	all, err := collect(ctx, s, scanEvent, "SELECT seq, time, type, agent, data FROM events WHERE time >= ? AND type IN (SELECT value FROM json_each(?)) ORDER BY seq", since.UnixMicro(), string(wanted))
	return all, s.explain(err)
}

// scanEvent reads the columns of an event. The columns count where the data differs; data of another shape
// is left out.
func scanEvent(rows *sql.Rows) (e event.Event, err error) {
	var row event.Event
	var at int64
	var data []byte
	err = rows.Scan(&row.Seq, &at, &row.Type, &row.Agent, &data)
	if json.Unmarshal(data, &e) != nil || e.Type != row.Type {
		e = event.Event{}
	}
	e.Seq, e.Time, e.Type, e.Agent, e.Node = row.Seq, time.UnixMicro(at).UTC(), row.Type, row.Agent, ""
	return e, err
}

// FirstEvent implements event.Store.
func (s *Store) FirstEvent(ctx context.Context, since time.Time) (uint64, error) {
	var seq sql.NullInt64
	err := s.readers.QueryRowContext(ctx, "SELECT min(seq) FROM events WHERE time >= ?", since.UnixMicro()).Scan(&seq)
	return uint64(seq.Int64), err
}

// LastEvent implements event.Store. Only Seq and Type are set.
func (s *Store) LastEvent(ctx context.Context) (e event.Event, err error) {
	err = s.readers.QueryRowContext(ctx, "SELECT seq, type FROM events ORDER BY seq DESC LIMIT 1").Scan(&e.Seq, &e.Type)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return e, err
}

// PruneEvents deletes the events before a time. A gap stays in the place of the last one, so that a
// reader who asks for them is told.
func (s *Store) PruneEvents(ctx context.Context, before time.Time) error {
	return s.update(ctx, s.events, func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE events SET agent = '', type = 'gap', data = (SELECT CAST(json_object('type', 'gap', 'missed', sum(iif(type = 'gap', json_extract(CAST(data AS TEXT), '$.missed'), 1))) AS BLOB) FROM events WHERE time < ?1)
			WHERE seq = (SELECT max(seq) FROM events WHERE time < ?1);
			DELETE FROM events WHERE time < ?1 AND seq < (SELECT max(seq) FROM events WHERE time < ?1)`, before.UnixMicro())
		return err
	})
}
