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

	"symbio/agent/budget"
	"symbio/agent/node/config"
	"symbio/agent/session"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/session/sqlite"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// costFlags are flags of the command cost.
type costFlags struct {
	query         session.BillQuery
	csv, allNodes bool
	on            string
}

// cmdCost returns the command sessions cost, which adds up the model calls in the files of this machine's nodes or, by
// --on and --all-nodes, in the stores of other nodes.
func cmdCost(env *command.Env) *cobra.Command {
	f := costFlags{query: session.BillQuery{Since: time.Now().AddDate(0, 0, -7)}}
	q := &f.query
	cmd := &cobra.Command{Use: "cost", Args: command.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		err := q.Check()
		switch {
		case err != nil:
			return command.Usage(fmt.Errorf("--by %w", err))
		case f.csv && env.JSON:
			return command.Usage(errors.New("--csv and --json exclude each other; give one of them"))
		case !q.Until.IsZero() && !q.Until.After(q.Since):
			return command.Usage(errors.New("--until is not after --since; --since is the earlier one"))
		}
		rows, err := f.rows(cmd.Context(), env)
		if err != nil {
			return err
		}
		return f.print(env, session.MergeBills(rows, q.By))
	}}
	cmd.Flags().Func("since", "count from this `TIME` on: an age such as 7d or 24h, or a day such as 2026-11-01 (default 7d)", pastTime(&q.Since))
	cmd.Flags().Func("until", "count up to this `TIME`, of the same forms (default now)", pastTime(&q.Until))
	cmd.Flags().StringSliceVar(&q.By, "by", []string{"day"}, "a sum for each `COLUMN`: "+strings.Join(session.BillColumns(), ", ")+"; several are separated by commas")
	cmd.Flags().BoolVar(&f.csv, "csv", false, "print comma-separated values with a heading")
	cmd.Flags().BoolVar(&f.allNodes, "all-nodes", false, "add the other nodes of the community")
	cmd.Flags().StringVar(&f.on, "on", "", "only another `NODE` of the community, by its id or name (default this machine)")
	cmd.MarkFlagsMutuallyExclusive("on", "all-nodes")
	return cmd
}

// pastTime returns a function that sets to to a time in the past: an age, such as 7d or 24h, or a day of UTC, such as
// 2026-11-01.
func pastTime(to *time.Time) func(string) error {
	return func(text string) (err error) {
		var age config.Age
		if age.UnmarshalText([]byte(text)) == nil && age >= 0 {
			*to = time.Now().Add(-time.Duration(age))
		} else if *to, err = time.Parse(time.DateOnly, text); err != nil {
			err = fmt.Errorf("%.40q is no time; write an age such as 7d or 24h, or a day such as 2026-11-01", text)
		}
		return err
	}
}

// rows returns the bills of the nodes that the flags name.
func (f *costFlags) rows(ctx context.Context, env *command.Env) (all []session.BillRow, err error) {
	if f.on == "" {
		err = env.Sessions().Each(func(node string, s *sqlite.Store) error {
			q := f.query
			q.Node = node
			rows, err := session.Bill(ctx, s, q)
			all = append(all, rows...)
			return err
		})
		if err != nil || !f.allNodes {
			return all, err
		}
	}
	client, conn, err := env.Nodes().Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if f.on != "" {
		return remoteBill(ctx, client, &symbiov1.Node{Id: f.on, Name: f.on}, f.query)
	}
	others, err := otherBills(ctx, env, client, f.query)
	return append(all, others...), err
}

// otherBills returns the bills of the nodes that are not in the files of this machine. Those that refuse or cannot
// be reached are notes on standard error.
func otherBills(ctx context.Context, env *command.Env, client symbiov1.ControlClient, q session.BillQuery) (all []session.BillRow, err error) {
	reply, err := client.Nodes(ctx, &symbiov1.NodesRequest{})
	if err != nil {
		return nil, err
	}
	state := env.State()
	own, err := state.OwnIDs()
	for _, n := range reply.GetNodes() {
		// An address without an id has not proved that it is a node of this cluster.
		if n.GetId() == "" || n.GetState() == "self" || slices.Contains(state.WithSessions(), own[identity.NodeID(n.GetId())]) {
			continue
		}
		refused := fmt.Errorf("it is %s: %s", n.GetState(), n.GetWhy())
		if n.GetState() == "connected" {
			var rows []session.BillRow
			rows, refused = remoteBill(ctx, client, n, q)
			all = append(all, rows...)
		}
		if refused != nil {
			env.Notef("note: node %s is left out: %s", n.GetName(), command.ErrorText(ctx, refused))
		}
	}
	return all, err
}

// billTime limits how long one node is asked for its bill, and maxColumn the names in it, in bytes.
const billTime, maxColumn = 10 * time.Second, 200

// remoteBill returns the bill of another node. Its answer is bounded, because nothing proves it.
func remoteBill(ctx context.Context, client symbiov1.ControlClient, of *symbiov1.Node, q session.BillQuery) (all []session.BillRow, err error) {
	ctx, cancel := context.WithTimeout(ctx, billTime)
	defer cancel()
	lines, err := remoteReader(client, of.GetId())(ctx, session.Query{Op: session.OpCost, Bill: q})
	for _, l := range lines {
		if l.Bill == nil || min(l.Bill.Calls, l.Bill.Input, l.Bill.Output, l.Bill.CacheRead, l.Bill.CacheWrite, l.Bill.Estimated,
			l.Bill.Unpriced) < 0 || l.Bill.Cost < 0 {
			return nil, fmt.Errorf("node %s sends a bill with impossible values; update it", of.GetName())
		}
		var r session.BillRow
		l.Bill.Node = of.GetName()
		for _, by := range q.By {
			*r.Column(by) = visible.Line(*l.Bill.Column(by), maxColumn)
		}
		r.Add(*l.Bill)
		all = append(all, r)
	}
	return all, err
}

// cells returns the cells of a row, in the order of the heading of print.
func cells(r session.BillRow, by []string, cost string) []string {
	row := append(r.Columns(by), fmt.Sprint(r.Calls), cost)
	for _, n := range []int64{r.Input, r.Output, r.CacheRead, r.CacheWrite, r.Estimated, r.Unpriced} {
		row = append(row, fmt.Sprint(n))
	}
	return row
}

// print prints the rows: as CSV, as JSON, or for people, who on a terminal get a line of the total and the columns
// that fit.
func (f *costFlags) print(env *command.Env, rows []session.BillRow) error {
	by := f.query.By
	heading := append(slices.Clone(by), "model_calls", "cost", "input", "output", "cache_read", "cache_write", "estimated", "unpriced_calls")
	if f.csv {
		table := command.Map(rows, func(r session.BillRow) []string { return cells(r, by, fmt.Sprint(r.Cost)) })
		return csv.NewWriter(env.Out).WriteAll(slices.Insert(table, 0, heading))
	}
	if env.JSON {
		return env.PrintJSON(rows)
	}
	var total session.BillRow
	for _, r := range rows {
		total.Add(r)
	}
	noteGaps(env, f.query.Since, total)
	shown := len(heading)
	if env.OutIsTerminal {
		shown -= 3
	}
	if env.OutIsTerminal && len(by) > 0 {
		*total.Column(by[0]) = "total"
		rows = append(rows, total)
	}
	heading = command.Map(heading[:shown], func(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "_", " ")) })
	return command.PrintList(env, rows, heading, func(r session.BillRow) []string { return cells(r, by, costText(r))[:shown] })
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
func noteGaps(env *command.Env, since time.Time, total session.BillRow) {
	if total.Calls == 0 {
		env.Notef("note: no model call since %s is recorded", since.UTC().Format("2006-01-02 15:04 MST"))
	}
	if total.Estimated > 0 {
		env.Notef("note: %d tokens are estimates: of requests in flight, and of those whose answer was lost, for example because the node was killed", total.Estimated)
	}
	if total.Unpriced > 0 {
		env.Notef("note: the cost is without %s: there is no price; write it under prices in the configuration", visible.Plural(int(total.Unpriced), "model call"))
	}
}
