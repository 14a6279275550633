package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Query asks for sessions, for the entries of one, or for what they cost. Its JSON is a wire format: the input of the
// capability sessions.read.
type Query struct {
	// Op is OpList, OpSearch, OpShow or OpCost.
	Op string `json:"op"`
	// ID is the id of the session to show, or the beginning of it.
	ID string `json:"id,omitempty"`
	// Words are what is searched; see Store.Search.
	Words string `json:"words,omitempty"`
	// Dir and State select the sessions of a list; "" = any. All adds the sessions of sub-agents and items (Info.Item), Items lists
	// the items alone.
	Dir   string `json:"dir,omitempty"`
	State State  `json:"state,omitempty"`
	All   bool   `json:"all,omitempty"`
	Items bool   `json:"items,omitempty"`
	// Limit is the largest number of results; 0 = no limit.
	Limit int `json:"limit,omitempty"`
	// Bill says what OpCost adds up.
	Bill BillQuery `json:"bill,omitzero"`
}

// The values of Query.Op.
const OpList, OpSearch, OpShow, OpCost = "list", "search", "show", "cost"

// Line is a result of a Query. Its JSON is a line of `symbio sessions export` and of sessions.read. A
// list has the sessions. A search has the session, the ID and Kind of the entry, and Text. Whatever is
// shown of a session begins with its description; all other lines are entries. A bill has Bill only.
type Line struct {
	Session *Info     `json:"session,omitempty"`
	Bill    *BillRow  `json:"bill,omitempty"`
	ID      int64     `json:"id,omitempty"`
	Time    time.Time `json:"time,omitzero"`
	Kind    Kind      `json:"kind,omitempty"`
	Entry
}

// Filter returns the filter of a list.
func (q Query) Filter() Filter {
	f := Filter{ID: q.ID, Dir: q.Dir, Roots: !q.All, Items: q.Items, Limit: q.Limit}
	if q.State != "" {
		f.States = []State{q.State}
	}
	return f
}

// Run returns the results of a query. The error comes from the store or from Find.
func (q Query) Run(ctx context.Context, s Store) (lines []Line, err error) {
	switch q.Op {
	case OpSearch:
		return s.Search(ctx, q.Words, q.Limit)
	case OpCost:
		rows, err := Bill(ctx, s, q.Bill)
		for _, r := range rows {
			lines = append(lines, Line{Bill: &r})
		}
		return lines, err
	case OpShow:
		q = Query{Op: OpShow, ID: q.ID, All: true}
	}
	all, err := s.Sessions(ctx, q.Filter())
	if q.Op == OpShow && err == nil {
		return show(ctx, s, all, q.ID)
	}
	for _, i := range all {
		lines = append(lines, Line{Session: &i})
	}
	return lines, err
}

// show returns the lines of one session among all.
func show(ctx context.Context, s Store, all []Info, id string) ([]Line, error) {
	i, err := Find(all, id)
	if err != nil {
		return nil, err
	}
	lines := []Line{{Session: &i}}
	entries, err := s.Entries(ctx, i.ID, 0)
	for _, e := range entries {
		lines = append(lines, Line{ID: e.ID, Time: e.Time, Kind: e.Kind, Entry: e})
	}
	return lines, err
}

// Decode reads what Run returned on another node, as lines of JSON. It refuses a line without what readers of the query's
// results rely on.
func (q Query) Decode(from io.Reader) (all []Line, err error) {
	for d := json.NewDecoder(from); ; {
		var l Line
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		l.Entry.ID, l.Entry.Time, l.Entry.Kind = l.ID, l.Time, l.Kind
		bad := l.Session == nil
		switch q.Op {
		case OpCost:
			bad = l.Bill == nil
		case OpShow:
			bad = bad == (l.Kind == "") || l.Check() != nil
		}
		if bad {
			return nil, fmt.Errorf("line %d is no result of %q", len(all)+1, q.Op)
		}
		all = append(all, l)
	}
}
