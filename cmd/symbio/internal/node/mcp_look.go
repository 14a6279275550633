package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"symbio/agent/tool"
	"symbio/agent/tool/mcp"
)

// mcpFiles is what of the files of MCP servers, and of what people trust of them, was taken up.
type mcpFiles struct {
	mu   sync.Mutex
	mark string // how they looked then; guarded by mu
}

// mcpMark is how the files look: another text when one of them has changed.
func (o Options) mcpMark() string {
	var b strings.Builder
	for _, path := range append(o.mcpFiles(), o.State.MCP().trusted("")) {
		info, err := os.Stat(path)
		if err != nil {
			b.WriteString("none\n")
			continue
		}
		fmt.Fprintf(&b, "%d %d\n", info.ModTime().UnixNano(), info.Size())
	}
	return b.String()
}

// ownMCPFile says that only the user writes their own list of MCP servers, which nobody is asked about: it lies outside
// of where agents may be let write, or in the directory that they are kept from there. Any other counts as it was when the
// node started, which somebody did on purpose.
func (o Options) ownMCPFile() bool {
	file := realPath(o.userMCP())
	if strings.Contains(filepath.ToSlash(file), "/.config/symbio/") {
		return true
	}
	for _, dir := range slices.Concat([]string{o.Workspace()}, o.Config.Directories, o.Config.Sandbox.Writes(o.Home)) {
		if rel, err := filepath.Rel(realPath(dir), file); err != nil || filepath.IsLocal(rel) {
			return false
		}
	}
	return true
}

// realPath is a path without links, as far as it is there.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(realPath(dir), filepath.Base(path))
	}
	return path
}

// lookMCP takes up what has changed in the files of MCP servers since it was last asked. A file that cannot be read
// changes nothing: somebody may be writing it. It asks the system for three files' times, some microseconds: agents call
// it in each turn.
func (n *Node) lookMCP() {
	f := &n.mcpFiles
	f.mu.Lock()
	defer f.mu.Unlock()
	if !n.opts.Config.MCP.Enabled {
		return
	}
	mark := n.opts.mcpMark() // before they are read: what changes meanwhile is seen the next time
	if mark == f.mark || !n.opts.ownMCPFile() {
		return
	}
	f.mark = mark
	servers, notes, unread, err := n.opts.readMCP()
	for _, note := range notes {
		n.log.Warn("mcp servers", "note", note)
	}
	if err = errors.Join(err, unread); err != nil {
		n.log.Warn("the mcp servers stay as they are", "err", err)
		n.events.Publish("warning", "", warningEvent{Why: "the MCP servers stay as they are: " + err.Error()})
		return
	}
	n.mcp.Take(servers)
}

// moreTools are the tools of the MCP servers, as their files are now.
func (n *Node) moreTools(ctx context.Context) []tool.Tool {
	n.lookMCP()
	return n.mcp.Tools(ctx)
}

// mcpTool finds a tool of an MCP server, as their files are now.
func (n *Node) mcpTool(ctx context.Context, server, name string) (*mcp.Tool, error) {
	n.lookMCP()
	return n.mcp.Tool(ctx, server, name)
}
