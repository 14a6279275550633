package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"symbio/agent/tool/mcp"
	"symbio/internal/agent/tool/mcp/packages"
	"symbio/internal/security/private"
)

// mcp returns the directory of the MCPBook.
func (s Dir) mcp() string { return filepath.Join(string(s), "mcp") }

// MCP returns the record of trusted MCP servers and of their tools. All nodes
// of the user share it.
func (s Dir) MCP() *MCPBook { return &MCPBook{dir: s.mcp()} }

// Packages returns the installed packages of MCP servers. All nodes of the
// user share them.
func (s Dir) Packages() packages.Store {
	dir, err := filepath.EvalSymlinks(string(s)) // a sandbox wants names without links
	if err != nil {
		dir = string(s)
	}
	return packages.Store{Dir: filepath.Join(dir, "packages")}
}

// MCPLogins returns the logins at MCP servers. All nodes of the user share them.
func (s Dir) MCPLogins() mcp.Logins {
	return private.Book[mcp.Login]{Dir: filepath.Join(s.mcp(), "logins"), Key: func(l mcp.Login) string { return l.URL }}
}

// MCPBook has one file for each trusted entry of a project, and one for each
// server whose tools were listed. It is safe for concurrent use in one process;
// between processes, the last writer of a file wins.
type MCPBook struct {
	dir string
	mu  sync.Mutex // makes read, change and write of a file one step
}

// Dirs returns the directories whose modification time changes with the trusted
// entries.
func (b *MCPBook) Dirs() []string { return []string{filepath.Join(b.dir, "trusted")} }

// Trusted reports whether a person trusts exactly this entry in this place. A
// file that another user could have written does not count.
func (b *MCPBook) Trusted(s mcp.Server) bool {
	_, err := private.Read(b.trusted(s.Hash), maxRecord)
	return err == nil
}

// Trust records that a person trusts an entry.
func (b *MCPBook) Trust(s mcp.Server) error {
	text, err := json.Marshal(map[string]string{"name": s.Name, "file": s.File, "entry": s.Text})
	if err != nil {
		return err
	}
	return private.Replace(b.trusted(s.Hash), text)
}

// Revoke removes an entry. It reports whether the entry was trusted.
func (b *MCPBook) Revoke(s mcp.Server) (bool, error) {
	err := os.Remove(b.trusted(s.Hash))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// trusted returns the file of a trusted entry.
func (b *MCPBook) trusted(hash string) string { return filepath.Join(b.dir, "trusted", hash) }

// tools returns the file of the pinned tools of a server.
func (b *MCPBook) tools(hash string) string { return filepath.Join(b.dir, "tools", hash) }

const (
	// maxPins is the number of pinned tools of one server.
	maxPins = 1024
	// maxRecord is the largest file that is read, in bytes: enough for maxPins
	// with long names.
	maxRecord = 4 << 20
)

// pins reads the pinned tools of a server: hashes of their descriptions by
// name.
func (b *MCPBook) pins(server string) (map[string]string, error) {
	text, err := private.Read(b.tools(server), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	pins := map[string]string{}
	if err == nil {
		err = json.Unmarshal(text, &pins)
	}
	return pins, err
}

// Pinned implements mcp.Pins. If the file cannot be read, it returns a hash
// that matches no tool, so that a person is asked.
func (b *MCPBook) Pinned(server, tool string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	pins, err := b.pins(server)
	if err != nil {
		return "unreadable"
	}
	return pins[tool]
}

// Pin implements mcp.Pins.
func (b *MCPBook) Pin(server string, tools map[string]string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	pins, err := b.pins(server)
	if err != nil {
		pins = map[string]string{} // a person has just approved these; the others will be asked about again
	}
	maps.Copy(pins, tools)
	if len(pins) > maxPins {
		return fmt.Errorf("%d tools of one server are kept already", maxPins)
	}
	text, err := json.Marshal(pins)
	if err != nil {
		return err
	}
	return private.Replace(b.tools(server), text)
}
