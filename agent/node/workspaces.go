package node

import (
	"symbio/agent"
	"symbio/agent/node/state"
	"symbio/agent/workspace"
	"symbio/agent/workspace/transfer"
	"symbio/community"
)

// concurrentTransfers is how many calls of transfers are served at a time. Each
// takes up to 4 MiB of memory, and a transfer makes four at once.
const concurrentTransfers = 32

// openTransfer returns what sends and takes the workspaces of agents. It removes
// those that an earlier process left behind.
func openTransfer(p *parts) (*transfer.Server, error) {
	w := p.cfg.Settings.Workspaces()
	sent, leases := state.Workspaces(p.kept)
	return transfer.New(transfer.Config{
		Dir: sent, Leases: leases, Cache: int64(w.Cache), MaxMessage: p.cfg.Settings.Limits.Message,
		Limits: workspace.Limits{Files: w.MaxFiles, Size: int64(w.MaxSize)},
	})
}

// offerWorkspaces offers agents.workspace, with which nodes send the files that
// their agents here work with, and fetch what these changed.
func offerWorkspaces(p *parts) error {
	if p.cfg.Settings.Workspaces().Off {
		return nil
	}
	c := community.Capability{Name: transfer.Capability, Description: "Takes the files of agents that other nodes spawn here, and gives back what they changed."}
	return p.offer(c, p.workspaces.Provider(p.lender.Checkout), community.WithConcurrency(concurrentTransfers))
}

// openLease returns the function that opens a workspace that was made for one
// agent.
func openLease(p *parts) func(at *transfer.Checkout) (agent.Workspace, func() error, error) {
	return func(at *transfer.Checkout) (agent.Workspace, func() error, error) {
		files, tools, err := p.cfg.openCheckout(at, p.runner, p.skills, p.fetchSkill)
		if err != nil {
			return agent.Workspace{}, nil, err
		}
		return agent.Workspace{Dir: at.Dir, Tools: tools}, files.Close, nil
	}
}
