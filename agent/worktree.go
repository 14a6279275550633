package agent

import (
	"context"
)

// openWorktree gives the agent a worktree if its definition says so and nothing else gave it a workspace. A restarted agent goes on
// with what is on its branch.
func (i *instance) openWorktree() (err error) {
	if !i.order.Definition.Worktree || i.worktree == nil && i.order.Workspace.Dir != i.factory.cfg.Dir {
		return nil
	}
	// The agent is being started by its actor, which has no context.
	if i.worktree, err = i.factory.cfg.Workspaces.Worktree(context.Background(), i.factory.cfg.Dir, i.self); err != nil {
		return err
	}
	i.order.Workspace, i.permissions.dir = &Workspace{i.worktree.Dir, i.worktree.Tools}, i.worktree.Dir
	return nil
}

// commitWorktree puts what the agent has changed in its worktree on its branch, and tells the person where it is.
func (i *instance) commitWorktree(ctx context.Context) {
	if i.worktree == nil {
		return
	}
	offer, err := i.worktree.Commit(context.WithoutCancel(ctx), "Work of "+i.self.Name) // an interrupted task has changes, too
	if err != nil {
		offer = "The changes of " + i.self.Name + " are on no branch: " + err.Error()
	}
	if offer != "" {
		i.events.notice(offer)
	}
}

// closeWorktree is commitWorktree at the end of the agent. The worktree is removed.
func (i *instance) closeWorktree(ctx context.Context) {
	i.commitWorktree(ctx)
	if i.worktree != nil {
		if err := i.worktree.Close(); err != nil { // the next start of the node removes it
			i.factory.cfg.Logger.Warn("worktree not removed", "agent", i.self.ID, "err", err)
		}
	}
}
