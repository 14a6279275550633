package agent

import (
	"context"

	"symbio/internal/agent/team"
)

// ownWorktree is the worktree of an agent; nil = it has none. leave is set for a program that works in the directory of its node: it says
// that the program does not any more.
type ownWorktree struct {
	*team.Worktree
	leave func()
}

// openWorktree gives the agent a worktree if its definition says so and nothing else gave it a workspace, and a program of another maker
// also if another one works in the repository already. A restarted agent goes on with the work on its branch.
func (i *instance) openWorktree() (err error) {
	cfg, ctx := i.factory.cfg, context.Background() // the agent is being started by its actor, which has no context
	wanted := i.order.Definition.Worktree || i.worktree.Worktree != nil
	if i.worktree.Worktree == nil && i.order.Workspace.Dir != cfg.Dir {
		return nil
	}
	if i.guest != nil && !wanted {
		if wanted, i.worktree.leave = cfg.Workspaces.Occupy(ctx, cfg.Dir); wanted {
			i.worktree.leave()
		}
	}
	if !wanted {
		return nil
	}
	if i.worktree.Worktree, err = cfg.Workspaces.Worktree(ctx, cfg.Dir, i.self); err != nil {
		if i.order.Definition.Worktree {
			return err
		}
		i.events.notice("Another agent works in " + cfg.Dir + ", too, and this one has no worktree: " + err.Error())
		return nil
	}
	i.order.Workspace, i.permissions.dir = &Workspace{i.worktree.Dir, i.worktree.Tools}, i.worktree.Dir
	return nil
}

// commitWorktree puts what the agent has changed in its worktree on its branch, and tells the person where it is.
func (i *instance) commitWorktree(ctx context.Context) {
	if i.worktree.Worktree == nil {
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
	if i.worktree.leave != nil {
		i.worktree.leave()
	}
	if i.worktree.Worktree == nil {
		return
	}
	i.commitWorktree(ctx)
	if err := i.worktree.Close(); err != nil { // the next start of the node removes it
		i.factory.cfg.Logger.Warn("worktree not removed", "agent", i.self.ID, "err", err)
	}
}
