package mcp

import (
	"context"
	"errors"
	"os"
	"sync"

	"symbio/agent/tool"
	"symbio/security/sandbox"
)

// Load reads the servers of file, such as ".mcp.json", and returns an open Manager of them and of
// cfg.Servers. The caller must call Close. A file that does
// not exist has no servers; other errors of reading it are returned. Variables in the file are
// the process's.
//
// Load trusts the entries, since the program has named their file, unless cfg.Trusted is set: then
// they belong to a project, and only trusted ones are started. Notes about unknown keys go to
// cfg.Logger.
func Load(file string, cfg Config) (*Manager, error) {
	servers, notes, err := Read(file, cfg.Trusted != nil, os.Getenv)
	if err != nil {
		return nil, err
	}
	cfg.Servers = append(cfg.Servers[:len(cfg.Servers):len(cfg.Servers)], servers...)
	m := New(cfg)
	for _, note := range notes {
		m.cfg.Logger.Warn("mcp servers", "note", note)
	}
	m.Open()
	return m, nil
}

// Open runs m in the background until Close, in place of a call of Run. Call it once.
func (m *Manager) Open() {
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	// Run returns nil only: the errors of servers are in their Status.
	m.running.Go(func() { _ = m.Run(ctx) })
}

// Close stops the servers and returns when all that they started has ended. It does nothing if m is
// not open.
func (m *Manager) Close() {
	if m.cancel != nil {
		m.cancel()
	}
	m.running.Wait()
}

// AllTools starts all servers and returns the tools of those that are ready, named
// mcp__SERVER__TOOL. The error joins the reasons why the other servers are not
// ready; the tools are valid even then.
func (m *Manager) AllTools(ctx context.Context) ([]tool.Tool, error) {
	some, err := m.ToolsOf(ctx, "")
	all := make([]tool.Tool, len(some))
	for i, t := range some {
		all[i] = t
	}
	return all, err
}

// defaultBox returns a Config.Box that runs programs under sandbox.Standard in the working
// directory of the process. It probes the machine once, at the first call.
func defaultBox() func(Server) (Box, error) {
	probe := sync.OnceValues(func() (Box, error) {
		dir, err := os.Getwd()
		if err != nil {
			return Box{}, err
		}
		policy, err := sandbox.Standard(dir)
		return Box{Box: sandbox.Probe(context.Background(), sandbox.Config{Env: os.Environ()}), Policy: policy, Dir: dir}, err
	})
	return func(s Server) (Box, error) {
		if len(s.Sandbox) > 0 {
			return Box{}, errors.New("its entry has a sandbox of its own, which only a node reads; in a Go program set mcp.Config.Box")
		}
		return probe()
	}
}
