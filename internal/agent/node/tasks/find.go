package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/placement"
	"symbio/internal/security/visible"
)

// find returns the request for a place on one of the nodes that on names and that lend the agent, and waits up to search until there
// is one. The error is the one of the last attempt.
func (t *Tasks) find(ctx context.Context, b *lending.Borrower, on []string, agent string, search time.Duration) (placement.Request, error) {
	sub := b.Subscribe()
	defer sub.Close()
	searching, cancel := context.WithTimeout(ctx, search)
	defer cancel()
	for {
		want, err := t.among(b, on, agent)
		if err == nil || !errors.Is(err, community.ErrNotFound) {
			return want, err
		}
		if _, over := sub.Next(searching); over != nil {
			return want, cmp.Or(context.Cause(ctx), err)
		}
	}
}

// among is find without waiting. It is community.ErrNotFound if no such node is known, or none of them lends the agent.
func (t *Tasks) among(b *lending.Borrower, on []string, agent string) (want placement.Request, err error) {
	var nodes []community.Member
	for _, m := range b.Members() {
		if m.ID == community.MemberID(m.Node) && m.Node != t.cfg.Self.Node {
			nodes = append(nodes, m)
		}
	}
	named := map[community.MemberID]community.Member{}
	for _, one := range on {
		fits, err := t.selector(one, nodes)
		if err != nil {
			return want, err
		}
		for _, m := range nodes {
			if fits(m) {
				named[m.ID] = m
			}
		}
	}
	lenders := lending.Lenders(b.Community, t.cfg.Self.Node, agent)
	if !slices.ContainsFunc(lenders, func(m community.Member) bool { _, ok := named[m.ID]; return ok }) {
		for _, m := range named { // each has the same fault
			_, err = b.Lender(m.Name, agent)
		}
		return want, fmt.Errorf("%w: %w", community.ErrNotFound, err)
	}
	want = placement.Request{Definition: agent, Strategy: placement.LeastBusy, NotHere: "--on names other nodes"}
	want.Allowed = func(m community.Member) error {
		if _, ok := named[m.ID]; !ok {
			return errors.New("--on does not name it")
		}
		return nil
	}
	return want, nil
}

// selector returns which of the nodes one word of --on means: the node of that name or id, or all with that label. The error says
// which there are.
func (t *Tasks) selector(word string, nodes []community.Member) (fits func(community.Member) bool, err error) {
	if visible.IsNamed(word, t.cfg.Self.Name, string(t.cfg.Self.ID)) {
		return nil, fmt.Errorf("%w: %s is the node that is asked: leave --on out", community.ErrInvalid, word)
	}
	labels, err := community.ParseLabels([]string{word})
	kinds := []func(community.Member) bool{
		func(m community.Member) bool { return visible.IsNamed(word, m.Name, string(m.ID)) },
		func(m community.Member) bool { return err == nil && m.HasLabels(labels) },
	}
	for _, fits := range kinds {
		if slices.ContainsFunc(nodes, fits) {
			return fits, nil
		}
	}
	var names []string
	known := map[string]bool{}
	for _, m := range nodes {
		names = append(names, m.Name)
		for key, value := range m.Metadata {
			known[visible.Line(key+"="+value, 2*community.MaxLabelValue)] = true
		}
	}
	if key, _, isLabel := strings.Cut(word, "="); isLabel || len(nodes) == 0 {
		all := slices.Sorted(maps.Keys(known))
		if same := slices.DeleteFunc(slices.Clone(all), func(l string) bool { return !strings.HasPrefix(l, key+"=") }); len(same) > 0 {
			all = same
		}
		return nil, fmt.Errorf("no node has the label %s: %w; %s", word, community.ErrNotFound, list("their labels are", all))
	}
	return nil, fmt.Errorf("no node is called %s, and none has such a label: %w%s; %s", word, community.ErrNotFound, visible.Suggest(word, names),
		list("the nodes are", slices.Sorted(slices.Values(names))))
}

// denial returns the error of a node that may have the agent by the request, and does not lend it to this node; nil if there is none.
func (t *Tasks) denial(ctx context.Context, b *lending.Borrower, want placement.Request) error {
	for _, m := range lending.Lenders(b.Community, t.cfg.Self.Node, want.Definition) {
		if want.Allowed(m) != nil {
			continue
		}
		if _, err := lending.Load(ctx, b.Community, t.cfg.Self, m); errors.Is(err, community.ErrDenied) {
			return fmt.Errorf("%w\nNode %s lends no agents to this node; add to its configuration: authorize: [{from: %q, invoke: [%q]}]",
				err, m.Name, t.cfg.Self.Node, lending.Capability)
		}
	}
	return nil
}

// list returns a sentence with names, also if there are none.
func list(what string, names []string) string {
	if len(names) == 0 {
		return "this node knows no other node"
	}
	return what + " " + strings.Join(names, ", ")
}
