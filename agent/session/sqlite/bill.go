package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"time"

	"symbio/agent/session"
)

// addRequest adds a request to the bill. When the model reports what the latest request of the session took, addReport adds that
// to the sums of the request's hour, and endRequest removes the request.
const (
	addRequest = "INSERT INTO requests (session, hour, root, agent, user, model, estimated) VALUES (?, ?, ?, ?, ?, ?, ?)"
	addReport  = `INSERT INTO bill SELECT hour, root, agent, user, iif(?2 = '', model, ?2), 1, ?3, ?4, ?5, ?6, coalesce(?7, 0), ?7 IS NULL AND ?3 + ?4 > 0
		FROM requests WHERE id = (SELECT max(id) FROM requests WHERE session = ?1)
		ON CONFLICT DO UPDATE SET calls = calls + 1, input = input + excluded.input, output = output + excluded.output, cache_read = cache_read + excluded.cache_read,
			cache_write = cache_write + excluded.cache_write, cost = cost + excluded.cost, unpriced = unpriced + excluded.unpriced`
	endRequest = "DELETE FROM requests WHERE id = (SELECT max(id) FROM requests WHERE session = ?)"
)

// count adds an entry to the bill.
func (s statements) count(w session.Write, e session.Entry) (err error) {
	u, i := e.Usage, w.Info
	switch {
	case w.Copied:
	case e.Kind == session.Request && u != nil:
		_, err = s.addRequest.Exec(i.ID, hourOf(e.Time), i.Root, i.Agent, i.User, u.Model, u.Input)
	case e.IsReport():
		if _, err = s.addReport.Exec(i.ID, u.Model, u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Cost); err == nil {
			_, err = s.endRequest.Exec(i.ID)
		}
	}
	return err
}

// hourOf returns the number of the hour, counted from 1970.
func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

// Bill implements session.Store. Columns user and node are empty where Bill of package session fills them in.
func (s *Store) Bill(ctx context.Context, q session.BillQuery) ([]session.BillRow, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	columns := "NULL" // without columns all calls are one group, and there is none without calls
	for _, by := range q.By {
		columns += ", " + cmp.Or(map[string]string{"day": "strftime('%Y-%m-%d', hour * 3600, 'unixepoch')", "node": "''", "session": "root"}[by], by)
	}
	until := int64(math.MaxInt64)
	if !q.Until.IsZero() {
		until = hourOf(q.Until.Add(time.Hour - 1))
	}
	rows, err := collect(ctx, s, func(rows *sql.Rows) (r session.BillRow, err error) {
		to := []any{new(any)}
		for _, by := range q.By {
			to = append(to, r.Column(by))
		}
		return r, rows.Scan(append(to, &r.Calls, &r.Input, &r.Output, &r.CacheRead, &r.CacheWrite, &r.Estimated, &r.Cost, &r.Unpriced)...)
	}, "SELECT "+columns+`, sum(calls), sum(input), sum(output), sum(cache_read), sum(cache_write), sum(estimated), sum(cost), sum(unpriced) FROM
		(SELECT *, 0 estimated FROM bill UNION ALL SELECT hour, root, agent, user, model, 1, 0, 0, 0, 0, 0, 1, estimated FROM requests)
		WHERE hour >= ? AND hour < ? GROUP BY `+columns, hourOf(q.Since), until)
	return rows, s.explain(err)
}
