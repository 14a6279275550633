package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"time"

	"symbio/agent/session"
)

// addCalls adds the calls to the bill that it does not have, of the entries for which the condition behind it holds. The view calls
// has the requests and reports of all entries. Its triggers add a row to the bill that is inserted: a request to requests, and
// what the model reported for the latest request of the session, which is removed there, to the sums of the request's hour.
// nextEntries finds how many entries are next, and the last of them.
const (
	addCalls    = "INSERT INTO calls SELECT * FROM calls WHERE id > (SELECT entry FROM billed) AND "
	nextEntries = "SELECT count(*), coalesce(max(id), 0) FROM (SELECT id FROM entries WHERE id > (SELECT entry FROM billed) ORDER BY id LIMIT ?)"
)

// billBatch is how many entries a transaction looks at for the bill. Commits wait for it.
const billBatch = 1000

// hourOf returns the number of the hour, counted from 1970.
func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

// Bill implements session.Store. Columns user and node are empty where Bill of package session fills them in.
func (s *Store) Bill(ctx context.Context, q session.BillQuery) ([]session.BillRow, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	for entries := billBatch; entries == billBatch; {
		if err := s.update(ctx, s.db, func(tx *sql.Tx) error {
			var last int64
			err := tx.QueryRow(nextEntries, billBatch).Scan(&entries, &last)
			if err == nil && entries > 0 {
				_, err = tx.Exec(addCalls+"id <= ?1; UPDATE billed SET entry = ?1", last)
			}
			return err
		}); err != nil {
			return nil, err
		}
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
