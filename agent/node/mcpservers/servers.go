// Package mcpservers has the MCP servers of a node: it reads the files that list them, takes up changes of those files, holds each
// server by a sandbox, and offers their tools as capabilities to other nodes. Package agent/tool/mcp talks to them.
package mcpservers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"symbio/agent/node/config"
	"symbio/agent/node/exec"
	"symbio/agent/node/state"
	"symbio/agent/tool"
	"symbio/agent/tool/mcp"
)

// projectFile is the file in which other programs look for a project's MCP servers, too.
const projectFile = ".mcp.json"

// Config says where the servers are, and what holds them.
type Config struct {
	MCP config.MCP
	// Workspace is where agents work and servers run.
	Workspace string
	// Writable are the other directories where agents may be let write.
	Writable []string
	Home     string
	Getenv   func(string) string
	State    state.Dir
	Runner   *exec.Runner
	Version  string
	// Report gets what happens to servers. Default: not reported.
	Report func(mcp.Status)
	// Warn gets what a person should know. Default: not reported.
	Warn   func(capability, why string)
	Logger *slog.Logger
}

// userFile is the user's own list of MCP servers.
func (c Config) userFile() string {
	if c.MCP.File != "" {
		return c.MCP.File
	}
	dir := c.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.Home, ".config")
	}
	return filepath.Join(dir, "symbio", "mcp.json")
}

// files are those with MCP servers, the user's own first.
func (c Config) files() []string {
	files := []string{c.userFile()}
	if c.MCP.Project {
		files = append(files, filepath.Join(c.Workspace, projectFile))
	}
	return files
}

// List lists the configured servers, the user's own first. notes are what in the files is not used. A file of the project
// that cannot be read is a note.
func (c Config) List() (servers []mcp.Server, notes []string, err error) {
	servers, notes, unread, err := c.read()
	if unread != nil {
		notes = append(notes, unread.Error())
	}
	return servers, notes, err
}

// read reads the files. unread is why that of a project cannot be.
func (c Config) read() (servers []mcp.Server, notes []string, unread, err error) {
	if !c.MCP.Enabled {
		return nil, nil, nil, nil
	}
	for i, file := range c.files() {
		own, told, err := mcp.Read(file, i > 0, c.Getenv)
		notes = append(notes, told...)
		if err != nil && i > 0 {
			unread = err
			continue
		}
		if err != nil {
			return nil, notes, nil, fmt.Errorf("the MCP servers: %w", err)
		}
		for _, s := range own {
			if _, err := config.ParseSandbox(s.Sandbox); err != nil && s.Problem == "" {
				s.Problem = err.Error()
			}
			servers = append(servers, s)
		}
	}
	return servers, notes, unread, nil
}

// Servers are the MCP servers of a node. It is safe for concurrent use.
type Servers struct {
	*mcp.Manager
	// Notes are what in the files was not used at the start.
	Notes []string

	cfg  Config
	mu   sync.Mutex
	mark string // how the files looked when they were read; guarded by mu
}

// Open reads the files. Nothing is started before it is needed.
func Open(c Config) (*Servers, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Warn == nil {
		c.Warn = func(string, string) {}
	}
	s := &Servers{cfg: c, mark: c.mark()} // before they are read: Refresh sees what changes meanwhile
	servers, notes, err := c.List()
	if err != nil {
		return nil, err
	}
	for _, note := range notes {
		c.Logger.Warn("mcp servers", "note", note)
	}
	book := c.State.MCP()
	s.Notes, s.Manager = notes, mcp.New(mcp.Config{
		Servers: servers, Trusted: book.Trusted, Pins: book, Version: c.Version, Report: c.Report, Logger: c.Logger,
		StartTimeout: c.MCP.StartTimeout, CallTimeout: c.MCP.CallTimeout,
		Box: func(s mcp.Server) (mcp.Box, error) {
			own, err := config.ParseSandbox(s.Sandbox)
			if err != nil {
				return mcp.Box{}, err
			}
			box, policy, err := c.Runner.Hold(own)
			return mcp.Box{Box: box, Policy: policy, Dir: c.Workspace}, err
		},
	})
	return s, nil
}

// Refresh takes up what has changed in the files since it was last called. A file that cannot be read changes nothing:
// another program may be writing it. It costs three calls of the system, some microseconds: agents call it in each turn.
func (s *Servers) Refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cfg.MCP.Enabled {
		return
	}
	mark := s.cfg.mark() // before they are read
	if mark == s.mark || !s.cfg.usersOwn(s.cfg.userFile()) {
		return
	}
	s.mark = mark
	servers, notes, unread, err := s.cfg.read()
	for _, note := range notes {
		s.cfg.Logger.Warn("mcp servers", "note", note)
	}
	if err = errors.Join(err, unread); err != nil {
		s.cfg.Logger.Warn("the mcp servers stay as they are", "err", err)
		s.cfg.Warn("", "the MCP servers stay as they are: "+err.Error())
		return
	}
	s.SetServers(servers)
}

// Tools are the tools of the servers, as their files are now.
func (s *Servers) Tools(ctx context.Context) []tool.Tool {
	s.Refresh()
	return s.Manager.Tools(ctx)
}

// Tool finds a tool of a server, as their files are now.
func (s *Servers) Tool(ctx context.Context, server, name string) (*mcp.Tool, error) {
	s.Refresh()
	return s.Manager.Tool(ctx, server, name)
}

// mark is how the files look: another text when one of them, or what people trust, has changed.
func (c Config) mark() string { return marks(slices.Concat(c.files(), c.State.MCP().Dirs())...) }
