package config

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"gopkg.in/yaml.v3"

	"symbio/internal/security/lazyregexp"
)

// MCP configures the MCP servers whose tools agents can call. Servers of the
// workspace's .mcp.json need no key: one starts only after a person has trusted
// it (symbio mcp trust). How long a call may take, mcp.json says for each server.
type MCP struct {
	Enabled bool `yaml:"enabled"`
	// File is the user's list of servers. "" = mcp.json in the directory of the
	// --config file if there is one, else in the user's configuration
	// directory.
	File string `yaml:"file"`
	// StartTimeout bounds the start of a server.
	StartTimeout time.Duration `yaml:"start_timeout"`
}

func (m MCP) check(bad func(string, ...any)) {
	if m.StartTimeout <= 0 {
		bad("mcp.start_timeout has to be above 0; write a duration such as 30s")
	}
}

// mcpTool matches SERVER/TOOL, the form of a capability's mcp.
var mcpTool = lazyregexp.New(`^[^/]+/.+$`)

// ParseSandbox reads the sandbox of one command from YAML or JSON, as it stands
// beside a server in mcp.json. It returns nil for an empty text, and an error
// that joins all mistakes.
func ParseSandbox(text []byte) (*Sandbox, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	s := new(Sandbox)
	if err := dec.Decode(s); err != nil {
		return nil, errors.New("sandbox: " + DecodeError(text, err))
	}
	var wrong []error
	s.checkCapability(func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) })
	return s, errors.Join(wrong...)
}
