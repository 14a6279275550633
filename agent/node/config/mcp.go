package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"time"

	"gopkg.in/yaml.v3"
)

// MCP says which MCP servers agents have.
type MCP struct {
	Enabled bool `yaml:"enabled"`
	// File is the user's own list of servers; "" = mcp.json beside the configuration: that of --config if it has one
	// beside it, else the user's.
	File string `yaml:"file"`
	// Project has the .mcp.json of the workspace read, too. What stands there is not started before a person has
	// trusted it (symbio mcp trust).
	Project bool `yaml:"project"`
	// Start and Call are how long the start of a server and a call of a tool may take.
	Start time.Duration `yaml:"start"`
	Call  time.Duration `yaml:"call"`
}

// defaultMCP has the times of mcp.Config.
func defaultMCP() MCP {
	return MCP{Enabled: true, Project: true, Start: 30 * time.Second, Call: 5 * time.Minute}
}

func (m MCP) check(bad func(string, ...any)) {
	if m.Start <= 0 || m.Call <= 0 {
		bad("mcp.start and mcp.call have to be above 0")
	}
}

// mcpTool is SERVER/TOOL: what a capability may be.
var mcpTool = regexp.MustCompile(`^[^/]+/.+$`)

// OwnSandbox reads what holds one command, from a text of YAML or JSON; with nothing in it, it is nil.
func OwnSandbox(text []byte) (*Sandbox, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	s := new(Sandbox)
	if err := dec.Decode(s); err != nil {
		return nil, errors.New("sandbox: " + Plain(err))
	}
	var wrong []error
	s.checkOwn(func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) })
	return s, errors.Join(wrong...)
}
