package node

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"symbio/agent/tool/mcp"
	"symbio/cmd/symbio/internal/config"
	"symbio/security/sandbox"
)

// projectMCP is the file in which other programs look for a project's MCP servers, too.
const projectMCP = ".mcp.json"

// userMCP is the user's own list of MCP servers.
func (o Options) userMCP() string {
	if file := o.Config.MCP.File; file != "" {
		return file
	}
	dir := o.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(o.Home, ".config")
	}
	return filepath.Join(dir, "symbio", "mcp.json")
}

// mcpFiles are those with MCP servers, the user's own first.
func (o Options) mcpFiles() []string {
	files := []string{o.userMCP()}
	if o.Config.MCP.Project {
		files = append(files, filepath.Join(o.Workspace(), projectMCP))
	}
	return files
}

// MCPServers are those of a node with these options, the user's own first. notes are what in the files is not used.
func (o Options) MCPServers() (servers []mcp.Server, notes []string, err error) {
	servers, notes, unread, err := o.readMCP()
	if unread != nil {
		notes = append(notes, unread.Error()) // a project does not keep the node from starting
	}
	return servers, notes, err
}

// readMCP reads the files. unread is why that of a project cannot be.
func (o Options) readMCP() (servers []mcp.Server, notes []string, unread, err error) {
	if !o.Config.MCP.Enabled {
		return nil, nil, nil, nil
	}
	for i, file := range o.mcpFiles() {
		own, told, err := mcp.Read(file, i > 0, o.Getenv)
		notes = append(notes, told...)
		if err != nil && i > 0 {
			unread = err
			continue
		}
		if err != nil {
			return nil, notes, nil, fmt.Errorf("the MCP servers: %w", err)
		}
		for _, s := range own {
			if _, err := config.OwnSandbox(s.Sandbox); err != nil && s.Problem == "" {
				s.Problem = err.Error()
			}
			servers = append(servers, s)
		}
	}
	return servers, notes, unread, nil
}

// MCP is what talks to the MCP servers of a node with these options. Nothing is started before it is needed.
func (o Options) MCP(name string, report func(mcp.Status), log *slog.Logger) (_ *mcp.Manager, notes []string, err error) {
	return o.newMCP(newBoxes(o, name, func(sandbox.Status) {}), report, log)
}

func (o Options) newMCP(b boxes, report func(mcp.Status), log *slog.Logger) (*mcp.Manager, []string, error) {
	servers, notes, err := o.MCPServers()
	if err != nil {
		return nil, notes, err
	}
	book := o.State.MCP()
	if err := book.Make(); len(servers) > 0 && err != nil {
		return nil, notes, fmt.Errorf("the MCP servers: %w", err)
	}
	return mcp.New(mcp.Config{
		Servers: servers, Trusted: book.Trusted, Pins: book, Version: o.Version, Report: report, Logger: log,
		StartTimeout: o.Config.MCP.Start, CallTimeout: o.Config.MCP.Call,
		Box: func(s mcp.Server) (mcp.Box, error) {
			own, err := config.OwnSandbox(s.Sandbox)
			if err != nil {
				return mcp.Box{}, err
			}
			held := o.Config.Sandbox.Over(own)
			policy, err := held.Policy(o.Workspace(), o.Home)
			if err != nil {
				return mcp.Box{}, err
			}
			box, err := b.of(held)()
			return mcp.Box{Box: box, Policy: policy, Dir: o.Workspace()}, err
		},
	}), notes, nil
}

func (n *Node) openMCP() error {
	n.mcpFiles.mark = n.opts.mcpMark() // before they are read: what changes meanwhile is seen at the first look
	m, notes, err := n.opts.newMCP(n.boxes, n.reportMCP, n.log)
	if err != nil {
		return err
	}
	for _, note := range notes {
		n.log.Warn("mcp servers", "note", note)
	}
	n.mcp = m
	return nil
}

func (n *Node) reportMCP(s mcp.Status) {
	n.events.Publish("mcp", "", mcpEvent{s.Server.Name, string(s.State), s.Why, s.Tools})
}

// mcpEvent says how an MCP server is.
type mcpEvent struct {
	Server string `json:"server"`
	State  string `json:"state"`
	Why    string `json:"why,omitempty"`
	Tools  int    `json:"tools,omitempty"`
}
