package agent

import (
	"context"
	"path/filepath"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/team"
	"symbio/security/permission"
)

// sendWorkspace sends the agent's files to a node, the zero Member = this one, if the request asks for that: those that the agent
// may read without asking. It returns the hash by which the other side makes a workspace of them.
func (s *subAgents) sendWorkspace(ctx context.Context, r team.SpawnRequest, node community.Member) (hash content.Hash, w *team.Workspace, err error) {
	if !r.Workspace {
		return hash, nil, nil
	}
	dir := s.parent.order.Workspace.Dir
	// The task may have waited for a place: those that it is done for judge, too.
	chain := s.parent.permissions.at(ctx).chain()
	denied := func(path string) bool {
		path = filepath.Join(dir, path)
		read := permission.Call{Tool: "Read", Args: map[string]any{"file_path": path}, Dir: dir}
		return !tool.MayRead(ctx, path) || chain.Judge(read).Action != permission.Allow
	}
	return s.parent.factory.cfg.Workspaces.Send(ctx, dir, denied, node, s.borrower.CallWorkspace(node))
}
