package dashboard

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"symbio/internal/security/audit"
	"symbio/internal/security/visible"
)

// maxDecisions is how many decisions the page shows, the latest ones.
const maxDecisions = 200

// auditPage returns the page of the record of decisions.
func auditPage() page {
	return page{Path: "/audit", Name: "audit", Title: "Audit", Nav: true, Data: auditData}
}

// decisions is the data of the page. Broken says where the record was changed; the entries are those
// before that place.
type decisions struct {
	Agent, Tool, Verdict string
	Verdicts             []string
	Entries              []audit.Entry // the latest first
	Report               audit.Report
	Broken               string
	Checkpoint           audit.Checkpoint
}

// auditData verifies the record of this node, and returns the latest decisions that the filters select.
func auditData(ctx context.Context, v *view) (any, error) {
	form := v.Request.URL.Query()
	d := decisions{Agent: form.Get("agent"), Tool: form.Get("tool"), Verdict: form.Get("verdict"), Verdicts: []string{"", "allow", "ask", "deny"}}
	node := v.cfg.State.Node(v.cfg.Name)
	// The checkpoint is read before the record, which may grow meanwhile.
	var points []audit.Point
	var err error
	if d.Checkpoint, err = node.ReadCheckpoint(); err == nil {
		points = append(points, audit.Point{Seq: d.Checkpoint.Seq, Hash: d.Checkpoint.Hash})
	} else if !errors.Is(err, fs.ErrNotExist) {
		d.Broken = err.Error()
	}
	d.Report, err = audit.Verify(ctx, node.Audit(), func(e audit.Entry) error {
		if d.selects(e) {
			// Twice the number are kept, so that the oldest are not moved for each one.
			if d.Entries = append(d.Entries, e); len(d.Entries) > 2*maxDecisions {
				d.Entries = slices.Delete(d.Entries, 0, maxDecisions)
			}
		}
		return nil
	}, points...)
	if errors.Is(err, audit.ErrBroken) {
		d.Broken, err = err.Error(), nil
	}
	d.Entries = d.Entries[max(0, len(d.Entries)-maxDecisions):]
	slices.Reverse(d.Entries)
	return d, err
}

// selects reports whether the filters select a decision.
func (d decisions) selects(e audit.Entry) bool {
	return (d.Agent == "" || visible.IsNamed(d.Agent, e.Name, e.Agent)) && (d.Tool == "" || d.Tool == e.Tool) && (d.Verdict == "" || d.Verdict == e.Verdict)
}
