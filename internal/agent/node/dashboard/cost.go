package dashboard

import (
	"context"
	"slices"
	"strconv"
	"time"

	"symbio/agent/session"
	symbiov1 "symbio/proto/symbio/v1"
)

// costPage returns the page of the cost of models.
func costPage() page {
	return page{Path: "/cost", Name: "cost", Title: "Cost", Nav: true, Data: costData}
}

// costs is the data of the page. Rows are this node's, by one column; Nodes have what all nodes have
// spent since they started.
type costs struct {
	By      string
	Days    int
	Columns []string
	Rows    []session.BillRow
	Total   session.BillRow
	Most    float64 // the cost of the row that costs most
	Nodes   []*symbiov1.FleetNode
}

// costData adds up the model calls of the last days, by the column of the form.
func costData(ctx context.Context, v *view) (any, error) {
	store, err := v.store()
	if err != nil {
		return nil, err
	}
	f, err := v.fleet(ctx)
	if err != nil {
		return nil, err
	}
	form := v.Request.URL.Query()
	c := costs{By: form.Get("by"), Days: 7, Columns: session.BillColumns(), Nodes: f.NodeRows()}
	if !slices.Contains(c.Columns, c.By) {
		c.By = "day"
	}
	if days, err := strconv.Atoi(form.Get("days")); err == nil {
		c.Days = min(max(days, 1), 3650)
	}
	c.Rows, err = session.Bill(ctx, store, session.BillQuery{Since: time.Now().AddDate(0, 0, -c.Days), By: []string{c.By}, Node: v.cfg.Name})
	for _, r := range c.Rows {
		c.Total.Add(r)
		c.Most = max(c.Most, r.Cost)
	}
	return c, err
}

// Name returns the value of a row in the column of the page.
func (c costs) Name(r session.BillRow) string { return *r.Column(c.By) }
