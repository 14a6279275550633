package demo

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"gopkg.in/yaml.v3"

	"symbio/agent/lending"
	statedir "symbio/agent/node/state"
	"symbio/agent/tool/skill"
)

// surveyor is `NAME` of the agent's definition that both nodes have.
//
//go:embed surveyor.md
var surveyor []byte

// setup is the directory of the tour's two nodes. They have a state directory, and with it an
// authority, of their own, so that they neither see nor change the user's nodes.
type setup struct {
	options Options
	// dir is the temporary directory of the tour.
	dir string
	// state is the state directory of both nodes, below dir.
	state statedir.Dir
}

// restartedConfig is the configuration of node b after it was killed.
const restartedConfig = "b-again.yaml"

// The capabilities of node b that the tour uses.
const (
	renderCapability = "report.render"
	lendCapability   = lending.Capability
)

// prepare writes the configuration of both nodes into dir: a has the surveyor, b lends one and
// renders reports.
func prepare(dir string, o Options) (setup, error) {
	s := setup{options: o, dir: dir, state: statedir.Dir(filepath.Join(dir, "symbio"))}
	agents := filepath.Join(dir, "agents")
	if err := os.Mkdir(agents, 0o700); err != nil {
		return s, err
	}
	a, err := yaml.Marshal(s.nodeA(agents))
	if err != nil {
		return s, err
	}
	b, err := yaml.Marshal(s.nodeB(agents, s.firstModel()))
	if err != nil {
		return s, err
	}
	again, err := yaml.Marshal(s.nodeB(agents, s.model()))
	if err != nil {
		return s, err
	}
	mcp, err := mcpConfig(o.Self)
	if err != nil {
		return s, err
	}
	for name, text := range map[string][]byte{"agents/surveyor.md": surveyor, "a.yaml": a, "b.yaml": b, restartedConfig: again, "servers.json": mcp} {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), text, 0o600); err != nil {
			return s, err
		}
	}
	return s, nil
}

// model returns the model of both nodes as a configuration names it.
func (s setup) model() string {
	return cmp.Or(s.options.Model, "func:"+ModelName)
}

// firstModel returns the model of node b when it starts for the first time.
func (s setup) firstModel() string {
	if s.options.Crash {
		return "func:" + StuckModelName
	}
	return s.model()
}

// renderRule returns the rule that allows node a to have its report rendered. In a tour that kills
// node b there is none: the scripted user is asked, and says yes when b is there again.
func (s setup) renderRule() []string {
	if s.options.Crash {
		return nil
	}
	return []string{"invoke_capability(" + renderCapability + ")"}
}

// deniedFile is the name of the files that a rule denies to all agents of the tour: it shows that a
// skill cannot lift a denial.
const deniedFile = ".env"

// nodeA returns the configuration of node a. Its agents may work with each other, activate skills
// and read the parts. Looking around at the top needs approval until a skill allows it; writing the
// report needs it always. No skill lifts what stands under deny.
//
// The permissions of a skill count only on the node where it is active. A sub-agent on the other
// node activates it there, and is held to these rules, too.
func (s setup) nodeA(agents string) map[string]any {
	return map[string]any{
		"node": map[string]any{"name": "a"},
		// The tour must not depend on skills in the surveyed directory, nor on the user's MCP
		// servers.
		"skills":    map[string]any{"discover": false, "tools": skill.Names()},
		"mcp":       map[string]any{"enabled": false},
		"workspace": s.options.Dir,
		"agents":    agents,
		"model":     s.model(),
		// The function has no limit on its context, so nothing needs to be shortened.
		"context_windows": map[string]any{"func": 10 * maxTokens},
		"directories":     []string{filepath.Dir(s.options.Report)},
		// Its helpers stay here but for the one that it sends to b itself, and none has to wait, so that the tour is the same each time.
		"placement": map[string]any{"strategy": "local", "local": 2 * maxParts},
		"permissions": map[string]any{
			"preset": "none",
			"allow":  slices.Concat(skill.Names(), s.renderRule(), []string{"Read(./*/**)", "Glob(./*/**)", "Grep(./*/**)", "find_members", "replicate_agent", "invoke_capability(" + lendCapability + ")"}),
			"deny":   []string{"Read(" + deniedFile + ")"},
		},
		"budget": map[string]any{"depth": 1, "agents": maxParts, "spawns_per_minute": 2 * maxParts, "model_calls": maxCalls, "tokens": maxTokens},
	}
}

// The budget of the tour, over both nodes. Parts beyond maxParts are in the report as not surveyed.
// Each part takes a few model calls; a part of a large directory takes some 20,000 tokens, and more
// are reserved before an answer than it uses in the end.
const (
	maxParts  = 128
	maxCalls  = 1000
	maxTokens = 10_000_000
)

// nodeB returns the configuration of node b. It runs an MCP server and offers its one tool as a
// capability, and lends its surveyor for one part with the permissions of the skill and no others.
func (s setup) nodeB(agents, model string) map[string]any {
	return map[string]any{
		"node":        map[string]any{"name": "b"},
		"skills":      map[string]any{"discover": false, "tools": skill.Names()},
		"mcp":         map[string]any{"file": filepath.Join(s.dir, "servers.json"), "project": false},
		"workspace":   s.options.Dir,
		"agents":      agents,
		"model":       model,
		"permissions": map[string]any{"preset": "none", "allow": skill.Names(), "deny": []string{"Read(" + deniedFile + ")"}},
		"capabilities": []map[string]any{
			{"name": renderCapability, "description": "Renders a survey, given as JSON, as a Markdown report.", "mcp": serverName + "/" + renderTool, "idempotent": true},
			{"name": lendCapability, "agents": []string{"surveyor"}, "budget": map[string]any{"model_calls": 50, "tokens": 1_000_000, "wall": "10m"}},
		},
	}
}

// startNodes starts both nodes and returns when node a knows what node b offers. When mDNS does not
// work on this machine, a is started again with the address of b. After an error no node runs.
func (s setup) startNodes(ctx context.Context, p *observer) (c nodeProcesses, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	b, err := s.startNode(ctx, p, "b")
	if err != nil {
		return nil, err
	}
	c = nodeProcesses{b}
	a, err := s.startNode(ctx, p, "a")
	if err != nil {
		return c, err
	}
	c = nodeProcesses{b, a}
	if !wait(ctx, p.met, meetTimeout) && ctx.Err() == nil {
		// There is no multicast on the loopback interface of this machine.
		p.note("a", fmt.Sprintf("no answer by mDNS on this machine; a is told b's address, %s", b.ready.Listen))
		c = nodeProcesses{b}
		if err := a.stop(); err != nil {
			return c, err
		}
		if a, err = s.startNode(ctx, p, "a", "--peer", b.ready.Listen); err != nil {
			return c, err
		}
		c = nodeProcesses{b, a}
		if !wait(ctx, p.met, meetTimeout) && ctx.Err() == nil {
			return c, errors.New("node a did not reach node b, neither by mDNS nor by its address")
		}
	}
	if !wait(ctx, p.ready, readyTimeout) && ctx.Err() == nil {
		return c, fmt.Errorf("node b did not offer %s and %s within %v", renderCapability, lendCapability, readyTimeout)
	}
	return c, ctx.Err()
}
