package sessioncmd

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"symbio/agent/budget"
	"symbio/agent/session"
	"symbio/agent/session/sqlite"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/security/visible"
)

// costFlags are the flags of the command cost.
type costFlags struct {
	since, until  moment
	by            []string
	csv, allNodes bool
	on            string
}

// Cost returns the command cost, which adds up the model calls in the files of this machine's nodes or, by
// --on and --all-nodes, in those of other nodes.
func Cost(env *command.Env) *cobra.Command {
	f := costFlags{since: moment{text: "7d"}}
	cmd := &cobra.Command{Use: "cost", Args: command.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		q, err := f.query(env)
		if err != nil {
			return command.Usage(err)
		}
		rows, err := f.rows(cmd.Context(), env, q)
		if err != nil {
			return err
		}
		return f.print(env, q, rows)
	}}
	cmd.Flags().TextVar(&f.since, "since", f.since, "count from this `TIME` on: an age such as 7d or 24h, or a day such as 2026-11-01")
	cmd.Flags().TextVar(&f.until, "until", f.until, "count up to this `TIME`, of the same forms (default now)")
	cmd.Flags().StringSliceVar(&f.by, "by", []string{"day"}, "a sum for each `COLUMN`: "+strings.Join(session.BillColumns(), ", ")+"; several are separated by commas")
	cmd.Flags().BoolVar(&f.csv, "csv", false, "print comma-separated values with a heading")
	cmd.Flags().BoolVar(&f.allNodes, "all-nodes", false, "add the other nodes of the community")
	cmd.Flags().StringVar(&f.on, "on", "", "only another `NODE` of the community, by its id or name (default this machine)")
	return cmd
}

// query returns the query of the flags. The error is one of usage.
func (f *costFlags) query(env *command.Env) (session.BillQuery, error) {
	if f.since.time.IsZero() {
		if err := f.since.UnmarshalText([]byte(f.since.text)); err != nil {
			return session.BillQuery{}, err
		}
	}
	q := session.BillQuery{Since: f.since.time, Until: f.until.time, By: f.by}
	switch {
	case f.csv && env.JSON:
		return q, errors.New("--csv and --json exclude each other; give one of them")
	case f.on != "" && f.allNodes:
		return q, errors.New("--on and --all-nodes exclude each other; give one of them")
	case !q.Until.IsZero() && !q.Until.After(q.Since):
		return q, fmt.Errorf("--until %s is not after --since %s; --since is the earlier one", f.until.text, f.since.text)
	}
	if err := q.Check(); err != nil {
		return q, fmt.Errorf("--by %w", err)
	}
	return q, nil
}

// rows returns the bill of the nodes that the flags name.
func (f *costFlags) rows(ctx context.Context, env *command.Env, q session.BillQuery) ([]session.BillRow, error) {
	if f.on == "" && !f.allNodes {
		return localBill(ctx, env, q)
	}
	client, conn, err := env.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if f.on != "" {
		q.Node = f.on
		return remoteBill(ctx, client, f.on, q)
	}
	rows, err := localBill(ctx, env, q)
	if err != nil {
		return nil, err
	}
	others, err := otherBills(ctx, env, client, q)
	return session.MergeBills(append(rows, others...), q.By), err
}

// localBill returns the bill of this user's nodes on this machine. It notes running nodes that keep no file.
func localBill(ctx context.Context, env *command.Env, q session.BillQuery) (all []session.BillRow, err error) {
	err = env.OnSessionStores(func(node string, s *sqlite.Store) error {
		q.Node = node
		rows, err := session.Bill(ctx, s, q)
		all = append(all, rows...)
		return err
	})
	state, e := env.State()
	if err = errors.Join(err, e); err != nil || env.Node != "" {
		return all, err
	}
	running, err := state.Running()
	for _, name := range running {
		if !slices.Contains(state.WithSessions(), name) {
			env.Notef("note: node %s keeps no conversations in a file, and is left out; its session.store is memory or off", name)
		}
	}
	return session.MergeBills(all, q.By), err
}

// billTime limits how long one node is asked for its bill.
const billTime = 10 * time.Second

// otherBills returns the bills of the nodes that are not in the files of this machine. Those that refuse or cannot
// be reached are notes on standard error.
func otherBills(ctx context.Context, env *command.Env, client symbiov1.ControlClient, q session.BillQuery) ([]session.BillRow, error) {
	reply, err := client.Nodes(ctx, &symbiov1.NodesRequest{})
	if err != nil {
		return nil, err
	}
	state, err := env.State()
	if err != nil {
		return nil, err
	}
	own, err := state.OwnIDs()
	if err != nil {
		return nil, err
	}
	nodes := slices.DeleteFunc(reply.GetNodes(), func(n *symbiov1.Node) bool {
		name, ok := own[identity.NodeID(n.GetId())]
		return n.GetState() == "self" || ok && slices.Contains(state.WithSessions(), name)
	})
	bills, errs := make([][]session.BillRow, len(nodes)), make([]error, len(nodes))
	var g errgroup.Group
	g.SetLimit(8)
	for i, n := range nodes {
		g.Go(func() error {
			if errs[i] = fmt.Errorf("it is %s: %s", n.GetState(), n.GetWhy()); n.GetState() != "connected" {
				return nil
			}
			of := q
			of.Node = n.GetName()
			ctx, cancel := context.WithTimeout(ctx, billTime)
			defer cancel()
			bills[i], errs[i] = remoteBill(ctx, client, n.GetId(), of)
			return nil
		})
	}
	_ = g.Wait() // errs has the errors
	for i, n := range nodes {
		if errs[i] != nil {
			env.Notef("note: node %s is left out: %s", n.GetName(), command.ErrorText(ctx, errs[i]))
		}
	}
	return slices.Concat(bills...), nil
}

// remoteBill returns the bill of another node. What it says is bounded, because nothing proves it.
func remoteBill(ctx context.Context, client symbiov1.ControlClient, on string, q session.BillQuery) (all []session.BillRow, err error) {
	lines, err := remoteReader(client, on)(ctx, session.Query{Op: session.OpCost, Bill: q})
	for _, l := range lines {
		if l.Bill == nil {
			continue
		}
		var r session.BillRow
		for _, by := range q.By {
			*r.Column(by) = visible.Line(*l.Bill.Column(by), maxColumn)
		}
		if slices.Contains(q.By, "node") {
			r.Node = q.Node
		}
		b := l.Bill
		r.Add(session.BillRow{Calls: max(b.Calls, 0), Input: max(b.Input, 0), Output: max(b.Output, 0), CacheRead: max(b.CacheRead, 0), CacheWrite: max(b.CacheWrite, 0),
			Estimated: max(b.Estimated, 0), Cost: max(b.Cost, 0), Unpriced: max(b.Unpriced, 0)})
		all = append(all, r)
	}
	return session.MergeBills(all, q.By), err
}

// maxColumn is the longest name in a bill of another node, in bytes.
const maxColumn = 200

// figure is a column of numbers, by its name in --json. of is nil for the cost.
type figure struct {
	name string
	of   func(session.BillRow) int64
}

// figures returns the columns of numbers.
func figures() []figure {
	return []figure{
		{"model_calls", func(r session.BillRow) int64 { return r.Calls }},
		{"input", func(r session.BillRow) int64 { return r.Input }},
		{"output", func(r session.BillRow) int64 { return r.Output }},
		{"cache_read", func(r session.BillRow) int64 { return r.CacheRead }},
		{"cache_write", func(r session.BillRow) int64 { return r.CacheWrite }},
		{"cost", nil},
		{"estimated", func(r session.BillRow) int64 { return r.Estimated }},
		{"unpriced_calls", func(r session.BillRow) int64 { return r.Unpriced }},
	}
}

// cells returns the cells of a row.
func cells(q session.BillQuery, columns []figure, r session.BillRow, cost func(session.BillRow) string) []string {
	row := command.Map(q.By, func(by string) string { return *r.Column(by) })
	for _, c := range columns {
		if c.of == nil {
			row = append(row, cost(r))
		} else {
			row = append(row, fmt.Sprint(c.of(r)))
		}
	}
	return row
}

// print prints the rows: as CSV, as JSON, or for people. On a terminal they get a line of the total, and no
// columns that are 0 in all rows.
func (f *costFlags) print(env *command.Env, q session.BillQuery, rows []session.BillRow) error {
	columns := figures()
	names := func() []string {
		return append(slices.Clone(q.By), command.Map(columns, func(c figure) string { return c.name })...)
	}
	if f.csv {
		table := [][]string{names()}
		for _, r := range rows {
			table = append(table, cells(q, columns, r, func(r session.BillRow) string { return fmt.Sprint(r.Cost) }))
		}
		return csv.NewWriter(env.Out).WriteAll(table)
	}
	if env.JSON {
		return env.PrintJSON(append([]session.BillRow{}, rows...))
	}
	var total session.BillRow
	for _, r := range rows {
		total.Add(r)
	}
	noteGaps(env, f.since.text, total)
	if env.OutIsTerminal {
		columns = slices.DeleteFunc(columns, func(c figure) bool { return c.of != nil && c.of(total) == 0 })
		if len(q.By) > 0 && len(rows) > 1 {
			*total.Column(q.By[0]) = "total"
			rows = append(rows, total)
		}
	}
	heading := command.Map(names(), func(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "_", " ")) })
	return command.PrintList(env, rows, heading, func(r session.BillRow) []string { return cells(q, columns, r, costText) })
}

// costText returns the cost of a row. A + says that there are calls without a known price.
func costText(r session.BillRow) string {
	text := chat.CostText(budget.Spent{Cost: r.Cost})
	switch {
	case r.Unpriced > 0 && r.Cost == 0:
		return "not known"
	case r.Unpriced > 0:
		return text + "+"
	}
	return text
}

// noteGaps says what the figures do not say.
func noteGaps(env *command.Env, since string, total session.BillRow) {
	if total.Calls == 0 {
		env.Notef("note: no model call since %s is recorded", since)
	}
	if total.Estimated > 0 {
		env.Notef("note: %d tokens are estimates: of requests in flight, and of those whose answer was lost, for example because the node was killed", total.Estimated)
	}
	if total.Unpriced > 0 {
		env.Notef("note: the cost is without %s: there is no price; write it under prices in the configuration", chat.Plural(int(total.Unpriced), "model call"))
	}
}
