package demo

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"symbio/agent/tool/skill"
	"symbio/cmd/symbio/internal/node"
)

//go:embed survey.yaml surveyor.md
var files embed.FS

// stage is the directory in which the tour's two nodes live, apart from the user's own nodes: they
// have a state directory, and with it an authority, of their own.
type stage struct {
	options Options
	dir     string
	state   node.State
}

// prepare writes what the nodes are: a has the surveyor, b renders reports.
func prepare(dir string, o Options) (stage, error) {
	s := stage{options: o, dir: dir, state: node.State{Dir: filepath.Join(dir, "symbio")}}
	agents := filepath.Join(dir, "agents")
	if err := os.Mkdir(agents, 0o700); err != nil {
		return s, err
	}
	surveyor, err := files.ReadFile("surveyor.md")
	if err != nil {
		return s, err
	}
	script, err := files.ReadFile("survey.yaml")
	if err != nil {
		return s, err
	}
	a, err := yaml.Marshal(s.nodeA(agents))
	if err != nil {
		return s, err
	}
	b, err := yaml.Marshal(s.nodeB())
	if err != nil {
		return s, err
	}
	for name, text := range map[string][]byte{"agents/surveyor.md": surveyor, "survey.yaml": script, "a.yaml": a, "b.yaml": b} {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), text, 0o600); err != nil {
			return s, err
		}
	}
	return s, nil
}

// nodeA allows its agents to write the one report, to work with each other and to take skills. Looking around
// is asked about, and so denied, because nobody is there to be asked: until a skill grants it. What stands
// under deny no skill lifts.
func (s stage) nodeA(agents string) map[string]any {
	return map[string]any{
		"node":        map[string]any{"name": "a"},
		"skills":      map[string]any{"discover": false, "tools": skill.Names()}, // the tour is the same, whatever skills the directory brings
		"mcp":         map[string]any{"enabled": false},                          // nor what servers the user has
		"workspace":   s.options.Dir,
		"agents":      agents,
		"model":       "scripted:" + filepath.Join(s.dir, "survey.yaml"),
		"directories": []string{filepath.Dir(s.options.Report)},
		"permissions": map[string]any{
			"preset": "none",
			"allow":  append(skill.Names(), "Write("+s.options.Report+")", "find_members", "replicate_agent", "send_signal", "invoke_capability(report.render)"),
			"deny":   []string{"Read(.env)"},
		},
		"budget": map[string]any{"depth": 1, "agents": maxParts, "spawns_per_minute": 2 * maxParts},
	}
}

// maxParts bounds the sub-agents of the tour; a directory with more parts gives some agents several.
const maxParts = 128

func (s stage) nodeB() map[string]any {
	return map[string]any{
		"node": map[string]any{"name": "b"},
		"mcp":  map[string]any{"enabled": false},
		"capabilities": []map[string]any{{
			"name": "report.render", "description": "Renders a survey, given as JSON, as a Markdown report.",
			"exec": []string{s.options.Self, "render-report"}, "idempotent": true,
			// It is this program itself, and the tour is to work where nothing holds a command.
			"sandbox": map[string]any{"preset": "off"},
		}},
	}
}

// enter starts both nodes and returns when a knows what b offers.
func (s stage) enter(ctx context.Context, p *play) (cast, error) {
	b, err := s.start(ctx, p, "b")
	if err != nil {
		return nil, err
	}
	a, err := s.start(ctx, p, "a")
	if err != nil {
		return nil, errors.Join(err, cast{b}.leave())
	}
	if p.met(ctx, meeting) {
		return cast{a, b}, nil
	}
	if ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), cast{a, b}.leave())
	}
	// No multicast on this machine's loopback: go on with the address in hand.
	p.note("a", fmt.Sprintf("no answer by mDNS on this machine; a is told b's address, %s", b.ready.Listen))
	if err := a.leave(); err != nil {
		return nil, errors.Join(err, cast{b}.leave())
	}
	if a, err = s.start(ctx, p, "a", "--peer", b.ready.Listen); err != nil {
		return nil, errors.Join(err, cast{b}.leave())
	}
	if !p.met(ctx, meeting) {
		return nil, errors.Join(errors.New("node a did not reach node b, neither by mDNS nor by its address"), cast{a, b}.leave())
	}
	return cast{a, b}, nil
}
