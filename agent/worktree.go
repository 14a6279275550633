package agent

import (
	"context"

	"symbio/community"
	"symbio/internal/agent/team"
)

// ownWorktree is the worktree of an agent; its zero value is none.
type ownWorktree struct {
	tree   *team.Worktree
	events *events // tell the person what becomes of it
	leave  func()  // says that a program does not work in the directory of its node any more; nil = it does not
}

// open returns the worktree that the definition of the order asks for, unless something else gave the agent a workspace; nil = none. A
// program of another maker also gets one if another program works in the repository. A restarted agent goes on with the work on its branch.
func (w *ownWorktree) open(cfg *Config, o Order, program bool, self community.Member, e *events) (_ *Workspace, err error) {
	ctx := context.Background() // an actor that starts its agent has no context
	if w.tree == nil && o.Workspace.Dir != cfg.Dir {
		return nil, nil
	}
	wanted := o.Definition.Worktree || w.tree != nil
	if program && !wanted {
		if wanted, w.leave = cfg.Workspaces.Occupy(ctx, cfg.Dir); wanted {
			w.leave()
		}
	}
	if !wanted {
		return nil, nil
	}
	w.events = e
	if w.tree, err = cfg.Workspaces.Worktree(ctx, cfg.Dir, self); err == nil {
		if !o.Definition.Worktree {
			e.notice("Another agent works in " + cfg.Dir + ": this one works in a copy of the last commit, and its work comes back as a branch.")
		}
		return &Workspace{w.tree.Dir, w.tree.Tools}, nil
	}
	if !o.Definition.Worktree {
		e.notice("Another agent works in " + cfg.Dir + ", too, and this one has no worktree: " + err.Error())
		err = nil
	}
	return nil, err
}

// commit puts the changes of the agent on its branch, and tells the person where they are.
func (w *ownWorktree) commit(ctx context.Context) {
	if w.tree == nil {
		return
	}
	offer, err := w.tree.Commit(context.WithoutCancel(ctx)) // an interrupted task has changes, too
	if err != nil {
		offer = "The changes are on no branch: " + err.Error()
	}
	if offer != "" {
		w.events.notice(offer)
	}
}

// close is commit at the end of the agent. It removes the worktree.
func (w *ownWorktree) close(ctx context.Context) {
	if w.leave != nil {
		w.leave()
	}
	if w.commit(ctx); w.tree != nil {
		if err := w.tree.Close(); err != nil {
			w.events.notice("The worktree is removed when the node starts again: " + err.Error())
		}
	}
}
