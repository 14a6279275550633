package session

import (
	"cmp"
	"context"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"
)

// BillQuery says which model calls of a store to add up, and how to group them.
type BillQuery struct {
	// Since and Until are the times of the first request, and of the first one after the last. Stores may keep the sums of hours,
	// so that they count whole ones: from the hour of Since to the hour of Until. The zero Until is no limit.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// By are the columns of the groups, of BillColumns; none = all calls are one group.
	By []string `json:"by,omitempty"`
	// Node is the name of the node that has the store.
	Node string `json:"-"`
}

// BillColumns returns the columns by which model calls can be grouped. A day is one of UTC, as in the bills of
// providers. A session is the root of a tree: the conversation with its sub-agents. A user is the person for whom the
// node works, by the name at the operating system, or the node that asked.
func BillColumns() []string { return []string{"day", "node", "agent", "model", "session", "user"} }

// Check returns an error that names a column that does not exist.
func (q BillQuery) Check() error {
	for _, by := range q.By {
		if !slices.Contains(BillColumns(), by) {
			return fmt.Errorf("%.40q is none of %s", by, strings.Join(BillColumns(), ", "))
		}
	}
	return nil
}

// BillRow is the sum of some model calls. Of the columns only those are set by which it is grouped. Its
// JSON is a contract.
type BillRow struct {
	Day     string `json:"day,omitempty"` // such as 2026-11-01
	Node    string `json:"node,omitempty"`
	Agent   string `json:"agent,omitempty"` // the name of the definition
	Model   string `json:"model,omitempty"`
	Session string `json:"session,omitempty"`
	User    string `json:"user,omitempty"`
	// Calls counts the requests. Input, Output and the parts of Input that were read from and written to
	// a cache are what models reported, in tokens.
	Calls      int64 `json:"model_calls"`
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	// Estimated is the size of requests for which no model reported anything, in tokens: for example
	// because the node was killed before the answer was recorded.
	Estimated int64 `json:"estimated"`
	// Cost is the cost of calls with a known price; Unpriced counts those without.
	Cost     float64 `json:"cost"`
	Unpriced int64   `json:"unpriced_calls"`
}

// Column returns a field by its name of BillColumns; nil if there is none.
func (r *BillRow) Column(name string) *string {
	return map[string]*string{"day": &r.Day, "node": &r.Node, "agent": &r.Agent, "model": &r.Model, "session": &r.Session, "user": &r.User}[name]
}

// Columns returns the values of columns that exist.
func (r BillRow) Columns(names []string) []string {
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = *r.Column(name)
	}
	return values
}

// Add adds the sums of another row. The columns stay.
func (r *BillRow) Add(o BillRow) {
	r.Calls += o.Calls
	r.Input += o.Input
	r.Output += o.Output
	r.CacheRead += o.CacheRead
	r.CacheWrite += o.CacheWrite
	r.Estimated += o.Estimated
	r.Cost += o.Cost
	r.Unpriced += o.Unpriced
}

// MergeBills adds up the rows of several stores that have the same columns, and sorts them by the
// columns in the order of by.
func MergeBills(rows []BillRow, by []string) []BillRow {
	at := map[BillRow]int{}
	merged := []BillRow{}
	for _, r := range rows {
		key := BillRow{Day: r.Day, Node: r.Node, Agent: r.Agent, Model: r.Model, Session: r.Session, User: r.User}
		if _, ok := at[key]; !ok {
			at[key] = len(merged)
			merged = append(merged, key)
		}
		merged[at[key]].Add(r)
	}
	slices.SortStableFunc(merged, func(a, b BillRow) int { return slices.Compare(a.Columns(by), b.Columns(by)) })
	return merged
}

// Bill returns the bill of a store, with the columns node and user filled in. The person for whom this node works is
// the user of this process.
func Bill(ctx context.Context, s Store, q BillQuery) ([]BillRow, error) {
	rows, err := s.Bill(ctx, q)
	person, unknown := user.Current()
	for i := range rows {
		if slices.Contains(q.By, "user") && unknown == nil {
			rows[i].User = cmp.Or(rows[i].User, person.Username)
		}
		if slices.Contains(q.By, "node") {
			rows[i].Node = q.Node
		}
	}
	return MergeBills(rows, q.By), err
}
