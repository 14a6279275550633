package agent

import (
	"context"
	"errors"
	"path/filepath"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/team"
	"symbio/internal/agent/workspace"
	"symbio/internal/agent/workspace/transfer"
	"symbio/security/permission"
)

// ownWorkspace is a directory that was made for one agent, with the tools for it.
type ownWorkspace struct {
	Workspace
	*transfer.Checkout
	closeTools func() error
}

// Close closes the tools and removes the directory. It may be called more than once.
func (w *ownWorkspace) Close() error { return errors.Join(w.closeTools(), w.Checkout.Close()) }

// errNoWorkspaces is for a node that was set up without Config.Workspaces.
var errNoWorkspaces = community.Explain(community.ErrUnavailable, "the node gives no agent a workspace of its own")

// checkout makes a workspace that a node has sent, "" = this one, and opens it.
func (f *Factory) checkout(ctx context.Context, node community.NodeID, manifest content.Hash) (*ownWorkspace, error) {
	if f.cfg.Workspaces == nil {
		return nil, errNoWorkspaces
	}
	c, err := f.cfg.Workspaces.Checkout(ctx, node, manifest)
	if err != nil {
		return nil, err
	}
	w, closeTools, err := f.cfg.OpenWorkspace(c)
	if err != nil {
		return nil, errors.Join(community.Explain(community.ErrUnavailable, "its workspace cannot be opened there"), err, c.Close())
	}
	return &ownWorkspace{w, c, closeTools}, nil
}

// sendWorkspace sends the agent's files with call: those that the agent may read without asking. It
// returns the hash by which the other side makes a workspace of them.
func (a *Agent) sendWorkspace(ctx context.Context,
	call func(context.Context, []byte) ([]byte, error)) (hash content.Hash, w *team.Workspace, err error) {
	server, dir := a.instance.factory.cfg.Workspaces, a.instance.workspace.Dir
	if server == nil {
		return hash, nil, errNoWorkspaces
	}
	// The task may have waited for a place: those that it is done for judge, too.
	chain := a.instance.permissions.at(ctx).chain()
	taken, err := workspace.Take(ctx, dir, workspace.Options{Denied: func(path string) bool {
		path = filepath.Join(dir, path)
		read := permission.Call{Tool: "Read", Args: map[string]any{"file_path": path}, Dir: dir}
		return !tool.MayRead(ctx, path) || chain.Judge(read).Action != permission.Allow
	}})
	if err != nil {
		return hash, nil, err
	}
	w = &team.Workspace{Base: taken.Manifest, Omitted: taken.Omitted, Server: server, Call: call}
	hash, err = w.Client(ctx).Push(ctx, taken)
	return hash, w, err
}

// spawnInCopy starts a sub-agent on this node that works in a copy of the agent's files, so that both
// can write at the same time.
func (a *Agent) spawnInCopy(ctx context.Context, r team.SpawnRequest, why string) (*team.Child, error) {
	f := a.instance.factory
	hash, w, err := a.sendWorkspace(ctx, f.cfg.Workspaces.Local)
	if err != nil {
		return nil, err
	}
	own, err := f.checkout(ctx, "", hash)
	if err != nil {
		return nil, err
	}
	c, err := a.spawnHere(ctx, r, why, func(child *instance) { child.workspace, child.copied = own.Workspace, own })
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	w.Call = own.Call
	c.Workspace = w
	return c, nil
}
