// Package mcpservers has the MCP servers of a node: it reads the files that
// list them, takes up changes of those files, holds each server by a sandbox,
// and offers their tools as capabilities to other nodes. Package agent/tool/mcp
// talks to them.
package mcpservers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"symbio/agent/node/config"
	"symbio/agent/tool"
	"symbio/agent/tool/mcp"
	"symbio/internal/agent/node/exec"
	"symbio/internal/agent/node/state"
	"symbio/internal/agent/tool/mcp/packages"
)

// projectFile is the file in which a project lists MCP servers. Other programs
// use the same name.
const projectFile = ".mcp.json"

// Config says which servers there are, and how they are run.
type Config struct {
	MCP config.MCP
	// Workspace is the working directory of the servers.
	Workspace string
	// Writable are the other directories that commands may write.
	Writable []string
	Home     string
	// ConfigDir is the user's directory for the configuration of symbio.
	ConfigDir string
	Getenv    func(string) string
	State     state.Dir
	Runner    *exec.Runner
	Version   string
	// Report gets each change of a server's state. It must not block. Default:
	// not reported.
	Report func(mcp.Status)
	// Warn gets messages for the person who runs the node. Default: not
	// reported.
	Warn   func(capability, why string)
	Logger *slog.Logger
}

// userFile returns the path of the user's list of servers.
func (c Config) userFile() string {
	if c.MCP.File != "" {
		return c.MCP.File
	}
	return filepath.Join(c.ConfigDir, "mcp.json")
}

// File returns the path of the user's list of servers, or of the project's.
func (c Config) File(project bool) string {
	if project {
		return filepath.Join(c.Workspace, projectFile)
	}
	return c.userFile()
}

// files returns the files with servers, the user's first, because its entries
// win.
func (c Config) files() []string { return []string{c.userFile(), c.File(true)} }

// List returns the configured servers, the user's first, and notes about
// what is ignored in the files. A project file that cannot be read is a note,
// so that a repository cannot keep a node from starting; the user's file is an
// error.
func (c Config) List() (servers []mcp.Server, notes []string, err error) {
	servers, notes, unread, err := c.read()
	if unread != nil {
		notes = append(notes, unread.Error())
	}
	return servers, notes, err
}

// read reads the files. unread is the error of the project file.
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
			s.Argv = c.State.Packages().Argv(s.Command, s.Args)
			servers = append(servers, s)
		}
	}
	return servers, notes, unread, nil
}

// Servers are the MCP servers of a node. It is safe for concurrent use.
type Servers struct {
	*mcp.Manager
	// Notes say what was ignored in the files at the start.
	Notes []string

	cfg  Config
	mu   sync.Mutex
	mark string // fileState when the files were last read; guarded by mu
}

// Open reads the files. It starts no server; a server starts when its tools are
// first needed.
func Open(c Config) (*Servers, error) {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Warn == nil {
		c.Warn = func(string, string) {}
	}
	s := &Servers{cfg: c, mark: c.mark()} // before reading, so that Refresh sees a change in between
	servers, notes, err := c.List()
	if err != nil {
		return nil, err
	}
	for _, note := range notes {
		c.Logger.Warn("mcp servers", "note", note)
	}
	book := c.State.MCP()
	s.Notes, s.Manager = notes, mcp.New(mcp.Config{
		Servers: servers, Trusted: book.Trusted, Pins: book, Root: c.Workspace, Logins: c.State.MCPLogins(), Version: c.Version,
		Report: c.Report, Logger: c.Logger, StartTimeout: c.MCP.StartTimeout,
		Box: func(s mcp.Server) (mcp.Box, error) {
			own, err := config.ParseSandbox(s.Sandbox)
			if err != nil {
				return mcp.Box{}, err
			}
			box, policy, err := c.Runner.Hold(own)
			if s.Argv != nil {
				policy = c.State.Packages().Admit(policy)
			}
			return mcp.Box{Box: box, Policy: policy, Dir: c.Workspace}, err
		},
	})
	return s, nil
}

// Installer returns what installs the packages of servers. It runs in a sandbox
// even if the node's is off.
func (s *Servers) Installer() (packages.Installer, error) {
	box, _, err := s.cfg.Runner.Hold(&config.Sandbox{Preset: "standard"})
	return packages.Installer{Store: s.cfg.State.Packages(), Box: box, Home: s.cfg.Home}, err
}

// Refresh applies changes of the files since the last call. A file that cannot
// be read changes nothing: another program may be writing it. Agents call it in
// each turn, so it costs three system calls if nothing has changed.
func (s *Servers) Refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cfg.MCP.Enabled {
		return
	}
	mark := s.cfg.mark() // before reading
	if mark == s.mark || !s.cfg.isUserFile(s.cfg.userFile()) {
		return
	}
	s.mark = mark
	servers, notes, unread, err := s.cfg.read()
	for _, note := range notes {
		s.cfg.Logger.Warn("mcp servers", "note", note)
	}
	if err = errors.Join(err, unread); err != nil {
		s.cfg.Logger.Warn("mcp servers not reloaded", "err", err)
		s.cfg.Warn("", "the MCP servers were not reloaded: "+err.Error())
		return
	}
	s.SetServers(servers)
}

// Tools is mcp.Manager.Tools for the servers that the files list now.
func (s *Servers) Tools(ctx context.Context, wait bool) (all []tool.Tool, missing map[string]string) {
	s.Refresh()
	return s.Manager.Tools(ctx, wait)
}

// Tool returns one tool of a server that the files list now.
func (s *Servers) Tool(ctx context.Context, server, name string) (*mcp.Tool, error) {
	s.Refresh()
	return s.Manager.Tool(ctx, server, name)
}

// mark returns a text that changes when the files, the trusted entries or the
// installed packages change.
func (c Config) mark() string {
	return fileState(slices.Concat(c.files(), c.State.MCP().Dirs(), []string{c.State.Packages().Records()})...)
}

// fileState returns a text that changes when one of the files changes: times
// and sizes. It reads no contents, because it is called in each turn of an
// agent.
func fileState(files ...string) string {
	var b strings.Builder
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			b.WriteString("none\n")
			continue
		}
		fmt.Fprintf(&b, "%d %d\n", info.ModTime().UnixNano(), info.Size())
	}
	return b.String()
}

// isUserFile reports whether only the user can write a file: it is outside of
// the directories that commands may write, or in symbio's configuration
// directory, which the sandbox protects. Changes of other files are ignored
// until a restart, because an agent could have made them.
func (c Config) isUserFile(file string) bool {
	file = realPath(file)
	if strings.Contains(filepath.ToSlash(file), "/.config/symbio/") {
		return true
	}
	for _, dir := range append(slices.Clip(c.Writable), c.Workspace) {
		if rel, err := filepath.Rel(realPath(dir), file); err != nil || filepath.IsLocal(rel) {
			return false
		}
	}
	return true
}

// realPath resolves the links of the existing part of a path.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(realPath(dir), filepath.Base(path))
	}
	return path
}
