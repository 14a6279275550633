package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"symbio/agent/tool"
	"symbio/agent/tool/shell"
	"symbio/cmd/symbio/internal/config"
	"symbio/security/sandbox"
)

// boxes are what runs commands here: one that holds them, with the levels that the configuration lets it use, and one
// that does not, for those that the user switched it off for.
type boxes struct {
	held, free func() (*sandbox.Box, error)
}

// newBoxes finds out what this machine can hold when that is first needed, and tells it.
func newBoxes(o Options, name string, tell func(sandbox.Status)) boxes {
	probe := func(levels []sandbox.Level) func() (*sandbox.Box, error) {
		return sync.OnceValues(func() (*sandbox.Box, error) {
			// Not where nodes keep what is theirs, which commands do not see.
			temp := filepath.Join(o.State.Dir, "tmp", name)
			if err := os.MkdirAll(temp, 0o700); err != nil {
				return nil, err
			}
			cfg := o.sandbox()
			cfg.Levels, cfg.Env, cfg.TempDir = levels, os.Environ(), temp
			// Not the context of the call that is first: what it finds out is for all.
			b := sandbox.Probe(context.Background(), cfg)
			tell(b.Status())
			return b, nil
		})
	}
	return boxes{held: probe(o.Config.Sandbox.Allowed()), free: probe([]sandbox.Level{sandbox.Off})}
}

// sandbox is what holds commands on a node with these options.
func (o Options) sandbox() sandbox.Config {
	s := o.Config.Sandbox
	return sandbox.Config{Levels: s.Allowed(), Home: o.Home, Hide: slices.Concat(o.State.Private(), s.Hidden(o.Home))}
}

// Holds finds out what this machine can hold for a node with these options, and leaves nothing behind.
func (o Options) Holds(ctx context.Context) *sandbox.Box { return sandbox.Probe(ctx, o.sandbox()) }

// of is the box that the configuration means.
func (b boxes) of(s config.Sandbox) func() (*sandbox.Box, error) {
	if s.Off() {
		return b.free
	}
	return b.held
}

// commands are the tools that run commands, held by the sandbox that the configuration asks for.
func (n *Node) commands() ([]tool.Tool, error) {
	s := n.opts.Config.Sandbox
	policy, err := s.Policy(n.files.Dir(), n.opts.Home)
	if err != nil {
		return nil, err
	}
	box := n.boxes.of(s)
	cfg := shell.Config{Policy: policy, Box: func(ctx context.Context) (*sandbox.Box, error) {
		if tool.Narrowed(ctx) { // also where the user has switched the sandbox off for the others
			return n.boxes.held()
		}
		return box()
	}}
	if n.skills != nil {
		cfg.SkillDirs = n.skills.Dirs
	}
	return shell.Tools(cfg), nil
}

func (n *Node) reportSandbox(s sandbox.Status) {
	n.events.Publish("sandbox", "", sandboxEvent{s.Level.String(), s.Missing, s.Mend})
}

// sandboxEvent says what holds commands.
type sandboxEvent struct {
	Level   string   `json:"level"`
	Missing []string `json:"missing,omitempty"`
	Mend    string   `json:"mend,omitempty"`
}
