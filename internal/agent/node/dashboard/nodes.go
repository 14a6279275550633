package dashboard

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/internal/agent/node/clusterinfo"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// nodesPage returns the page of machines and their health.
func nodesPage() page {
	return page{Path: "/nodes", Name: "nodes", Title: "Nodes", Nav: true, Live: true, Data: nodesData, Actions: map[string]action{
		"token": {show: makeToken},
	}}
}

// nodeRow is a node as the network and the view of the community know it.
type nodeRow struct {
	*symbiov1.Node
	Fleet *symbiov1.FleetNode // nil = it is not in the view
}

// nodeList is the data of the page.
type nodeList struct {
	Rows []nodeRow
	// Authority says whether this node can make tokens that let others join.
	Authority bool
}

// nodesData lists the nodes, this one first.
func nodesData(ctx context.Context, v *view) (any, error) {
	reply, err := v.cfg.Client.Nodes(ctx, &symbiov1.NodesRequest{})
	if err != nil {
		return nil, err
	}
	f, err := v.fleet(ctx)
	if err != nil {
		return nil, err
	}
	l := nodeList{}
	for _, n := range reply.GetNodes() {
		l.Rows = append(l.Rows, nodeRow{n, f.Nodes[n.GetId()]})
	}
	_, err = v.cfg.State.OpenCluster()
	l.Authority = err == nil && v.cfg.Identity.Authority() != identity.Local
	return l, nil
}

// Problems returns what to mend, a line each.
func (r nodeRow) Problems() []string {
	problems := slices.Clone(r.Fleet.GetProblems())
	for _, why := range []string{r.GetWhy(), r.Fleet.GetWithheld()} {
		if why != "" && !slices.Contains(problems, why) {
			problems = append(problems, why)
		}
	}
	return problems
}

// Refusals returns how many calls of the node were refused.
func (r nodeRow) Refusals() (sum uint32) {
	for _, n := range r.GetRefused() {
		sum += n
	}
	return sum
}

// MiB returns the memory of the node's process; 0 = it is not known.
func (r nodeRow) MiB() float64 { return r.Fleet.GetProcess().GetMemory() / (1 << 20) }

// makeToken returns the line that lets another machine join, once.
func makeToken(ctx context.Context, v *view, form url.Values) (string, error) {
	c, err := v.cfg.State.OpenCluster()
	if err != nil {
		return "", status.Error(codes.FailedPrecondition, err.Error())
	}
	token, err := c.NewToken(identity.TokenLife, form.Get("role"))
	if err != nil {
		return "", err
	}
	addr, _, err := clusterinfo.JoinAddress(ctx, v.cfg.State, v.cfg.Name)
	return fmt.Sprintf("On the other machine, once, within %s: symbio cluster join %s %s", visible.Duration(identity.TokenLife), token.Text(), addr), err
}
