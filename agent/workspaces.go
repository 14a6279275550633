package agent

import (
	"context"
	"errors"
	"fmt"
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

// Close closes the tools and removes the directory. It may be called more than once, and on nil.
func (w *ownWorkspace) Close() error {
	if w == nil {
		return nil
	}
	return errors.Join(w.closeTools(), w.Checkout.Close())
}

// errNoWorkspaces is for a node that was set up without Config.Workspaces.
var errNoWorkspaces = community.Explain(community.ErrUnavailable, "the node gives no agent a workspace of its own")

// checkout makes a workspace that a node has sent, "" = this one, and opens it.
func (f *Factory) checkout(ctx context.Context, node community.NodeID, manifest content.Hash) (*ownWorkspace, error) {
	if f.cfg.Workspaces.Server == nil {
		return nil, errNoWorkspaces
	}
	c, err := f.cfg.Workspaces.Server.Checkout(ctx, node, manifest)
	if err != nil {
		return nil, err
	}
	w, closeTools, err := f.cfg.Workspaces.Open(c)
	if err != nil {
		return nil, errors.Join(community.Explain(community.ErrUnavailable, "its workspace cannot be opened there"), err, c.Close())
	}
	return &ownWorkspace{w, c, closeTools}, nil
}

// sendWorkspace sends the agent's files to a node, the zero Member = this one, if the request asks for that: those that the agent
// may read without asking. It returns the hash by which the other side makes a workspace of them.
func (s *subAgents) sendWorkspace(ctx context.Context, r team.SpawnRequest, node community.Member) (hash content.Hash, w *team.Workspace, err error) {
	server, dir := s.parent.factory.cfg.Workspaces.Server, s.parent.order.Workspace.Dir
	if !r.Workspace {
		return hash, nil, nil
	}
	if server == nil {
		return hash, nil, errNoWorkspaces
	}
	// The task may have waited for a place: those that it is done for judge, too.
	chain := s.parent.permissions.at(ctx).chain()
	taken, err := workspace.Take(ctx, dir, workspace.Options{Denied: func(path string) bool {
		path = filepath.Join(dir, path)
		read := permission.Call{Tool: "Read", Args: map[string]any{"file_path": path}, Dir: dir}
		return !tool.MayRead(ctx, path) || chain.Judge(read).Action != permission.Allow
	}})
	if err != nil {
		return hash, nil, err
	}
	w = &team.Workspace{Base: taken.Manifest, Omitted: taken.Omitted, Server: server, Call: server.Local}
	if node.ID != "" {
		w.Call = s.borrower.CallWorkspace(node)
	}
	if hash, err = w.Client(ctx).Push(ctx, taken); err != nil && node.ID != "" {
		err = fmt.Errorf("send the workspace to node %s: %w", node.Name, err)
	}
	return hash, w, err
}
