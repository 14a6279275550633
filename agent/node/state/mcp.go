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
	"symbio/security/private"
)

func (s Dir) mcp() string { return filepath.Join(string(s), "mcp") }

// MCP is where what people trust of MCP servers is kept, and what their tools were when they were first listed. It is
// the user's, for all nodes.
func (s Dir) MCP() *MCPBook { return &MCPBook{dir: s.mcp()} }

// MCPBook keeps a file for each entry of a project that is trusted, and one for each server whose tools were listed.
type MCPBook struct {
	dir string
	mu  sync.Mutex // one write at a time
}

// Dirs are the directories whose time of change says that something else is trusted now.
func (b *MCPBook) Dirs() []string { return []string{filepath.Join(b.dir, "trusted")} }

// Trusted says whether a person trusts exactly this entry, in this place. What another user could have written says
// nothing.
func (b *MCPBook) Trusted(s mcp.Server) bool {
	_, err := private.Read(b.trusted(s.Hash), mostRecord)
	return err == nil
}

// Trust keeps that a person trusts an entry.
func (b *MCPBook) Trust(s mcp.Server) error {
	text, err := json.Marshal(map[string]string{"name": s.Name, "file": s.File, "entry": s.Text})
	if err != nil {
		return err
	}
	return private.Replace(b.trusted(s.Hash), text)
}

// Revoke forgets it; false = it was not trusted.
func (b *MCPBook) Revoke(s mcp.Server) (bool, error) {
	err := os.Remove(b.trusted(s.Hash))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (b *MCPBook) trusted(hash string) string { return filepath.Join(b.dir, "trusted", hash) }
func (b *MCPBook) tools(hash string) string   { return filepath.Join(b.dir, "tools", hash) }

const (
	// mostPins of a server are kept; more tools than that it cannot have at a time.
	mostPins = 1024
	// mostRecord bounds a file, in bytes: an entry as long as a configuration may be, or mostPins with long names.
	mostRecord = 4 << 20
)

func (b *MCPBook) pins(server string) (map[string]string, error) {
	text, err := private.Read(b.tools(server), mostRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	pins := map[string]string{}
	if err == nil {
		err = json.Unmarshal(text, &pins)
	}
	return pins, err
}

// Pinned is mcp.Pins's. Where the record cannot be read, nothing that there is was seen before.
func (b *MCPBook) Pinned(server, tool string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	pins, err := b.pins(server)
	if err != nil {
		return "unreadable"
	}
	return pins[tool]
}

// Pin is mcp.Pins's.
func (b *MCPBook) Pin(server string, tools map[string]string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	pins, err := b.pins(server)
	if err != nil {
		pins = map[string]string{} // a person has just said yes to this one; the others are first again
	}
	maps.Copy(pins, tools)
	if len(pins) > mostPins {
		return fmt.Errorf("%d tools of one server are kept already", mostPins)
	}
	text, err := json.Marshal(pins)
	if err != nil {
		return err
	}
	return private.Replace(b.tools(server), text)
}
