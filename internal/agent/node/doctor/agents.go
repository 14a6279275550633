package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"symbio/agent/definition"
	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/internal/agent/lending"
)

// definitions checks the agent definitions with the loader that a node uses at its start, and that
// the agent of each configured capability has a definition. It adds the OK finding only if no other
// finding exists.
func definitions(_ context.Context, w *World) (out []Finding) {
	// An unreadable directory is only a warning: the general definition is built in, so a node can
	// run without files.
	if dir := w.Options.Settings.Agents; dir != "" {
		if _, err := os.Stat(dir); err != nil {
			out = append(out, warn("make it, or name another with agents: in the configuration", "the directory of agents cannot be looked at: %v", err))
		}
	}
	// Definitions returns the valid ones together with the error, so that UnknownAgents can check
	// the rest.
	all, err := w.Options.Definitions(node.Known(nil))
	if err != nil {
		out = append(out, brokenDefinitions(err)...)
	}
	if n, text := all.Warned(); n > 0 {
		out = append(out, warn("correct that, or leave it if that is meant", "definitions with something that is read otherwise than its author may think: %d: %s", n, text))
	}
	for _, err := range w.Options.UnknownAgents(all) {
		out = append(out, fail("correct the name in the configuration, or that definition", "%v", err))
	}
	if len(out) == 0 {
		out = append(out, ok("definitions that can be used, general among them: %d; symbio agents list shows them", len(all)))
	}
	return out
}

// brokenDefinitions returns one finding for each file, with its first problem and the number of the
// others. If err has no *definition.Problem, the files could not be read at all, and the only
// finding says that.
func brokenDefinitions(err error) (out []Finding) {
	problems := definition.Problems(err)
	if len(problems) == 0 {
		return []Finding{fail("see that this user can read it", "the definitions of agents cannot be read: %v", err)}
	}
	// count has the number of problems of each file.
	count := map[string]int{}
	for _, p := range problems {
		count[p.File]++
	}
	for _, p := range problems {
		// The deletion makes n zero for the further problems of the same file: they get no finding.
		n := count[p.File]
		delete(count, p.File)
		switch {
		case n == 1:
			out = append(out, fail("correct that line", "a node does not start with this definition of an agent: %v", p))
		case n > 1:
			out = append(out, fail("symbio agents validate "+p.File+" says all of them", "a node does not start with this definition of an agent: %v; and %d more", p, n-1))
		}
	}
	return out
}

// lendsAgents reports whether agents of other nodes can spawn agents on this one. Lending without a
// rule of authorize that permits it is a warning, because every such call is denied.
func lendsAgents(_ context.Context, w *World) []Finding {
	c := w.Options.Settings
	if !slices.ContainsFunc(c.Capabilities, config.Capability.LendsAgents) {
		return []Finding{ok("no agent of another node can spawn agents here: nothing offers " + lending.Capability)}
	}
	// lentAgents resolves the names of the lent agents to definitions; an unknown name is its error.
	how, err := lentAgents(w.Options)
	switch {
	case err != nil:
		return []Finding{fail("correct the names under agents of "+lending.Capability+", or the definitions", "agents cannot be lent: %v", err)}
	case !c.Authorizes(lending.Capability):
		return []Finding{warn("name who may under authorize, such as {from: role/worker, invoke: ["+lending.Capability+"]}", "%s, but no rule allows it", how)}
	}
	return []Finding{ok("%s", how)}
}

// lentAgents says in a sentence which agents the node lends, "" if it lends none.
// The error says what is wrong with the configuration of agents.spawn.
func lentAgents(c node.Config) (string, error) {
	all, err := c.Definitions(node.Known(nil))
	if err != nil {
		return "", err
	}
	for _, p := range c.Settings.Capabilities {
		if !p.LendsAgents() {
			continue
		}
		for _, name := range p.Agents {
			_, problem := all.Find(name)
			err = errors.Join(err, problem)
		}
		cfg := p.LenderConfig(c.Settings.Budget)
		return fmt.Sprintf("other nodes may spawn %s here, as far as authorize lets them: %d at a time, %d of one node, each for up to %v",
			strings.Join(p.Agents, ", "), cfg.Max, cfg.PerNode, cfg.MaxLifetime), err
	}
	return "", err
}
