package team

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/workspace"
)

// Worktree is a copy of the last commit of a repository in which one agent works. Its changes are put on a branch of its
// own in the repository (design note 0069). Its methods are for one goroutine at a time.
type Worktree struct {
	*OwnWorkspace
	record worktreeRecord
	files  *Workspace
}

// worktreeRecord is what a node that starts again has to know of a worktree that its end has left.
type worktreeRecord struct {
	Dir    string           `json:"dir"` // the agent's directory in the repository
	Agent  string           `json:"agent"`
	Branch workspace.Branch `json:"branch"`
}

// recordFile is the name of the file of the record, beside the directory of the worktree.
const recordFile = "worktree.json"

// Worktree makes a worktree of the repository in which dir is, for an agent. The caller must call Close. The error says also that dir
// is in no repository, or that it has no commit.
func (w *Workspaces) Worktree(ctx context.Context, dir string, agent community.Member) (_ *Worktree, err error) {
	if w == nil {
		return nil, errNoWorkspaces
	}
	t := &Worktree{record: worktreeRecord{Dir: dir, Agent: agent.Name}}
	b := &t.record.Branch
	b.Name = fmt.Sprintf("symbio/%s-%.6s", agent.Name, agent.ID)
	// One that was restarted goes on with what is on its branch.
	if b.Tip, err = workspace.Head(ctx, dir, "refs/heads/"+b.Name); err != nil {
		b.Tip = ""
	}
	if b.Base, err = workspace.Head(ctx, dir, cmp.Or(b.Tip, "HEAD")); err != nil {
		return nil, fmt.Errorf("a worktree for %s: %w", agent.Name, err)
	}
	err = taken(ctx, dir, b.Base, func(s *workspace.Snapshot) (err error) {
		var hash content.Hash
		t.files = &Workspace{Base: s.Manifest, Omitted: s.Omitted, Server: w.Server, Call: w.Server.Local}
		if hash, err = t.files.Client(ctx).Push(ctx, s); err == nil {
			t.OwnWorkspace, err = w.Checkout(ctx, "", hash)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	t.files.Call = t.Call
	if err = t.keep(); err != nil {
		return nil, errors.Join(err, t.OwnWorkspace.Close())
	}
	return t, nil
}

// taken calls do with the snapshot of a commit, whose contents are there until do returns.
func taken(ctx context.Context, dir, commit string, do func(*workspace.Snapshot) error) error {
	into, err := os.MkdirTemp("", "symbio-commit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(into)
	s, err := workspace.TakeCommit(ctx, dir, commit, into, workspace.Options{})
	if err != nil {
		return err
	}
	return do(s)
}

// keep writes the record.
func (t *Worktree) keep() error {
	text, err := json.Marshal(t.record)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(filepath.Dir(t.Dir), recordFile), text, 0o600)
}

// Commit puts what has changed since the last Commit on the branch. It returns a sentence for people that says how to take it; "" if
// nothing has changed.
func (t *Worktree) Commit(ctx context.Context) (offer string, err error) {
	work, err := t.files.Server.Client(t.Call, func(community.Progress) {}).Fetch(ctx, "", t.files.Base)
	if err != nil {
		return "", err
	}
	b, err := work.Patch.Commit(ctx, t.record.Dir, t.record.Branch, "Work of "+t.record.Agent, work.Store)
	if err != nil || b == t.record.Branch {
		return "", err
	}
	t.record.Branch = b
	return t.record.offer(), t.keep()
}

// offer says how the person takes the work on the branch.
func (r worktreeRecord) offer() string {
	return fmt.Sprintf("the work of %s is on branch %s: git merge %[2]s takes it, git branch -D %[2]s drops it, git diff HEAD...%[2]s shows it",
		r.Agent, r.Branch.Name)
}

// Salvage puts what the agents of a node that was killed have changed on their branches, and removes their worktrees below leases, the
// directory that transfer.Config names, before a transfer.Server removes all that is there. It returns a sentence for each branch.
// An error names the place to which a worktree was moved.
func Salvage(ctx context.Context, leases string) (offers []string, err error) {
	files, _ := filepath.Glob(filepath.Join(leases, "*", recordFile)) // the pattern is well-formed
	for _, file := range files {
		offer, failed := salvage(ctx, file)
		if failed != nil {
			moved := filepath.Join(leases+"~", filepath.Base(filepath.Dir(file))) // no node has such a name
			failed = errors.Join(failed, os.MkdirAll(leases+"~", 0o700), os.Rename(filepath.Dir(file), moved))
			err = errors.Join(err, fmt.Errorf("the work of an agent that the end of the node broke off is in %s, and on no branch: %w", moved, failed))
		} else if offer != "" {
			offers = append(offers, offer)
		}
	}
	return offers, err
}

func salvage(ctx context.Context, file string) (offer string, err error) {
	text, err := os.ReadFile(file)
	var r worktreeRecord
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp("", "symbio-salvage-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	store, err := content.Open(content.Config{Dir: temp})
	if err != nil {
		return "", err
	}
	err = taken(ctx, r.Dir, r.Branch.Base, func(s *workspace.Snapshot) error {
		p, _, err := workspace.Diff(ctx, s.Manifest, filepath.Join(filepath.Dir(file), "work"), store, workspace.Limits{})
		if err != nil {
			return err
		}
		b, err := p.Commit(ctx, r.Dir, r.Branch, "Work of "+r.Agent+", which the end of its node broke off", store)
		if b.Tip != "" {
			offer = r.offer()
		}
		return err
	})
	return offer, err
}

// occupancy counts the agents that work in a repository without a worktree. It is safe for concurrent use.
type occupancy struct {
	mu sync.Mutex
	in map[string]int // by directory; guarded by mu
}

// Occupy notes that an agent works in dir itself. It returns whether another one does already, in that repository. The caller must call
// leave, once or more often, when the agent has ended.
func (w *Workspaces) Occupy(ctx context.Context, dir string) (busy bool, leave func()) {
	if w == nil {
		return false, func() {}
	}
	top := workspace.Top(ctx, dir)
	w.occupied.mu.Lock()
	defer w.occupied.mu.Unlock()
	if w.occupied.in == nil {
		w.occupied.in = map[string]int{}
	}
	w.occupied.in[top]++
	return w.occupied.in[top] > 1, sync.OnceFunc(func() {
		w.occupied.mu.Lock()
		defer w.occupied.mu.Unlock()
		if w.occupied.in[top]--; w.occupied.in[top] == 0 {
			delete(w.occupied.in, top)
		}
	})
}
