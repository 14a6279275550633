package node

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"symbio/agent/tool"
	"symbio/agent/tool/shell"
	"symbio/security/sandbox"
)

// commands are the tools that run commands, held by the sandbox that the configuration asks for. What this
// machine can hold is found out at the first of them.
func (n *Node) commands() ([]tool.Tool, error) {
	s := n.opts.Config.Sandbox
	policy, err := s.Policy(n.files.Dir())
	if err != nil {
		return nil, err
	}
	temp := filepath.Join(n.opts.State.node(n.name), "tmp")
	probe := sync.OnceValues(func() (*sandbox.Box, error) {
		if err := os.MkdirAll(temp, 0o700); err != nil {
			return nil, err
		}
		// Not the context of the call that is first: what it finds out is for all.
		box := sandbox.Probe(context.Background(), sandbox.Config{Levels: s.Allowed(), Env: os.Environ(), Home: n.opts.Home, TempDir: temp})
		st := box.Status()
		n.events.Publish("sandbox", "", sandboxEvent{st.Level.String(), st.Missing, st.Mend})
		return box, nil
	})
	return shell.Tools(shell.Config{
		Box:       func(context.Context) (*sandbox.Box, error) { return probe() },
		Policy:    policy,
		SkillDirs: n.skillDirs,
	}), nil
}

// skillDirs are the directories of the skills that an agent has active; none when that cannot be known now.
func (n *Node) skillDirs(ctx context.Context, agent string) []string {
	if n.skills == nil {
		return nil
	}
	dirs, err := n.skills.ActiveDirs(ctx, agent)
	if err != nil {
		n.log.Warn("active skills not known", "agent", agent, "err", err)
	}
	return dirs
}

// sandboxEvent says what holds the commands of agents.
type sandboxEvent struct {
	Level   string   `json:"level"`
	Missing []string `json:"missing,omitempty"`
	Mend    string   `json:"mend,omitempty"`
}
