package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/agent/tool/security"
	"symbio/security/identity"
	"symbio/security/permission"
	"symbio/security/permission/authorize"
)

// Config is everything that can be configured; architecture, "Configuration", describes the keys.
type Config struct {
	Node         Node              `yaml:"node"`
	Discovery    Discovery         `yaml:"discovery"`
	Agents       string            `yaml:"agents"` // a directory of definitions; "" = none but the built-in one
	Model        Models            `yaml:"model"`
	Providers    Providers         `yaml:"providers"`
	Prices       llm.Prices        `yaml:"prices"`      // by model, for a million tokens
	Windows      Windows           `yaml:"windows"`     // by model, in tokens; others = 128,000
	Workspace    string            `yaml:"workspace"`   // where agents work; "" = where the node was started
	Directories  []string          `yaml:"directories"` // more directories whose files agents may be allowed to use
	Capabilities []Capability      `yaml:"capabilities"`
	Authorize    []authorize.Rule  `yaml:"authorize"`
	Security     string            `yaml:"security"` // a preset of permissions and sandbox together; see WithSecurity
	Permissions  permission.Config `yaml:"permissions"`
	Approvals    Approvals         `yaml:"approvals"`
	Sandbox      Sandbox           `yaml:"sandbox"`
	Skills       Skills            `yaml:"skills"`
	MCP          MCP               `yaml:"mcp"`
	Budget       budget.Limits     `yaml:"budget"`
	Limits       Limits            `yaml:"limits"`
	Tools        Tools             `yaml:"tools"`
	Web          Web               `yaml:"web"`
	Log          Log               `yaml:"log"`
}

// Log is the file of a node's log; "" = standard error alone. At Max MiB it is put aside, and the three latest are kept.
type Log struct {
	File string `yaml:"file"`
	Max  int    `yaml:"max"`
}

// Approvals say how a person is asked.
type Approvals struct {
	// Timeout is how long a decision waits for a person; then it is a denial.
	Timeout time.Duration `yaml:"timeout"`
	// Unattended lets the agents wait, too, that nobody watches from a terminal (symbio spawn, and agents that
	// serve a capability), for `symbio approvals`. Without it they are denied at once what has to be asked.
	Unattended bool `yaml:"unattended"`
}

// Limits bound what other nodes can make this one do. What is over one is refused at once; `symbio
// nodes --json` counts it.
type Limits struct {
	Message      int           `yaml:"message"`      // bytes of a payload
	Partial      int           `yaml:"partial"`      // bytes of one call's output ahead of its answer
	NodeCalls    int           `yaml:"node_calls"`   // of all nodes at a time, fairly shared
	AgentCalls   int           `yaml:"agent_calls"`  // of all nodes to one agent at a time
	Rate         float64       `yaml:"rate"`         // refused calls a second of one node, in the long run
	Burst        int           `yaml:"burst"`        // refused calls of one node at once, before the rate counts
	PeerMembers  int           `yaml:"peer_members"` // that are taken of one node
	Capabilities int           `yaml:"capabilities"` // that are taken of one node, and that this one offers
	Depth        int           `yaml:"depth"`        // of nested JSON
	Call         time.Duration `yaml:"call"`         // how long a call may take
	Mailbox      int           `yaml:"mailbox"`      // signals that wait for one agent
	Agents       int           `yaml:"agents"`       // that live here
	Connections  int           `yaml:"connections"`  // open at a time, proven or not
	PerNode      int           `yaml:"per_node"`     // of them of one node
	Handshakes   int           `yaml:"handshakes"`   // connections that are proving themselves at a time

	HandshakeRate  float64 `yaml:"handshake_rate"`  // connections of one address that prove nothing, a second, in the long run
	HandshakeBurst int     `yaml:"handshake_burst"` // of them at once, before the rate counts
	Joins          int     `yaml:"joins"`           // tries of one address to join the cluster, a minute

	Grace time.Duration `yaml:"grace"` // after its end in which a certificate is renewed, where the authority is
}

// Node says what the node is called and where it listens.
type Node struct {
	Name   string `yaml:"name"`   // "" = the machine's name, numbered if taken
	Listen string `yaml:"listen"` // host:port; "" = loopback, any port; in a cluster, what init or join was told
}

// Discovery says how other nodes are found.
type Discovery struct {
	MDNS       bool       `yaml:"mdns"`
	Peers      []string   `yaml:"peers"` // host:port each
	DNS        []string   `yaml:"dns"`   // _symbio._tcp.example or name:port each
	Interfaces Interfaces `yaml:"interfaces"`
}

// Interfaces chooses among the LAN's network interfaces by name, with patterns as in path.Match. An
// empty Allow allows all, and Deny wins. It is for mDNS; loopback is not the LAN's.
type Interfaces struct {
	Allow []string `yaml:"allow"`
	Deny  []string `yaml:"deny"`
}

// Capability is something that the node offers to other nodes: a command, an agent or a model.
type Capability struct {
	Name        string        `yaml:"name"`
	Description string        `yaml:"description"`
	Exec        []string      `yaml:"exec"`          // JSON on standard input, JSON on standard output
	Agent       string        `yaml:"agent"`         // the name of a definition
	MCP         string        `yaml:"mcp,omitempty"` // SERVER/TOOL of an MCP server
	Model       Models        `yaml:"model"`         // of this node, for others: with the name model.chat
	Input       any           `yaml:"input"`
	Output      any           `yaml:"output"`
	Idempotent  bool          `yaml:"idempotent"`
	Timeout     time.Duration `yaml:"timeout"`     // 0 = a minute for commands, the budget's for agents
	Concurrency int           `yaml:"concurrency"` // calls at a time; 0 = 16
	// Progress lets callers read what a command writes to standard error, line by line. Otherwise nobody
	// but this node's log does: it may name paths, or worse.
	Progress bool `yaml:"progress"`
	// Sandbox is what holds a command, where it is not what holds all commands of this node. With a preset it stands
	// by itself, which may be more or less than the node's; without one, what it names takes the place of the node's.
	Sandbox *Sandbox `yaml:"sandbox,omitempty"`
	// Lending is how agents are lent, with the name agents.spawn.
	Lending `yaml:",inline"`
}

// Concurrency is how many calls of a capability are served at a time, unless it says otherwise: each is a process or an agent
// with a model.
const Concurrency = 16

// Schemas returns the JSON schemas of what the capability takes and gives; nil = none is configured.
func (c Capability) Schemas() (input, output json.RawMessage, err error) {
	encode := func(key string, v any) (text json.RawMessage) {
		if v != nil && err == nil {
			if text, err = json.Marshal(v); err != nil {
				err = fmt.Errorf("%s: %w", key, err)
			}
		}
		return text
	}
	return encode("input", c.Input), encode("output", c.Output), err
}

// Skills says where skills are looked for, beside the standard places.
type Skills struct {
	Enabled  bool     `yaml:"enabled"`
	Discover bool     `yaml:"discover"` // look in the standard places
	Dirs     []string `yaml:"dirs"`
	// Share says which skills of this node's disk other nodes may fetch, as far as authorize lets them.
	Share Share `yaml:"share"`
	// WideGrants lets skills ask for every command (Bash) and every tool (*).
	WideGrants bool `yaml:"wide_grants"`

	SkillUse     `yaml:",inline"`
	SkillReading `yaml:",inline"`
}

// Default is the configuration of a node that was told nothing: loopback only, what would be asked
// is asked, and other nodes of the same user may call.
func Default() Config {
	return Config{
		Node:        Node{Listen: "127.0.0.1:0"},
		Discovery:   Discovery{MDNS: true},
		Model:       "auto",
		Authorize:   []authorize.Rule{{From: "local", Invoke: []string{"*"}, Send: []string{"*"}}},
		Permissions: permission.Config{Preset: "standard"},
		Skills:      defaultSkills(),
		MCP:         defaultMCP(),
		Sandbox:     Sandbox{Preset: "standard"},
		Approvals:   Approvals{Timeout: 10 * time.Minute}, // somebody comes back from a coffee
		Tools:       Tools{SearchAbove: 40},
		Log:         Log{Max: 10},
		Budget:      budget.Limits{Depth: 3, Agents: 16, SpawnsPerMinute: 30, Wall: 30 * time.Minute, ModelCalls: 1000, Tokens: 10_000_000},
		// The numbers and their reasons are those of community.Config, actor.Config and grpcpeer.Limits.
		Limits: Limits{
			Message: 1 << 20, Partial: 16 << 20, NodeCalls: 256, AgentCalls: 64, Rate: 50, Burst: 100, PeerMembers: 1024, Capabilities: 256, Depth: 64, Call: 5 * time.Minute,
			Mailbox: 1024, Agents: 10_000, Connections: 256, PerNode: 4, Handshakes: 32,
			HandshakeRate: 5, HandshakeBurst: 20, Joins: 10, Grace: identity.Grace,
		},
	}
}

// WithSecurity returns the configuration with the presets of permissions and sandbox that a preset of package security sets.
func (c Config) WithSecurity(name string) (Config, error) {
	s, err := security.Preset(name)
	if err != nil {
		return c, err
	}
	c.Security, c.Permissions.Preset, c.Sandbox.Preset = name, s.Permissions.Preset, s.Sandbox
	return c, nil
}

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// Load reads a file over the defaults. from says where each value came from.
func Load(file string) (c Config, from Origins, err error) {
	f, err := os.Open(file)
	if err != nil {
		return Config{}, nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Config{}, nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if len(text) > maxFile {
		return Config{}, nil, fmt.Errorf("%s is larger than %d KiB", file, maxFile>>10)
	}
	if c, from, err = Parse(file, text); err != nil {
		return Config{}, nil, err
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	c.Resolve(dir)
	return c, from, err
}

// Resolve makes the paths of a file in dir absolute; ~ is the home directory. A command without a slash is looked up in PATH.
func (c *Config) Resolve(dir string) {
	home, _ := os.UserHomeDir()
	at := func(path *string) {
		if rest, ok := strings.CutPrefix(*path, "~"); ok && home != "" && (rest == "" || rest[0] == '/') {
			*path = filepath.Join(home, rest)
		}
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	c.Model.resolve(at)
	at(&c.Agents)
	at(&c.Workspace)
	at(&c.MCP.File)
	at(&c.Log.File)
	for i := range c.Skills.Dirs {
		at(&c.Skills.Dirs[i])
	}
	c.Skills.resolve(at)
	for i := range c.Directories {
		at(&c.Directories[i])
	}
	for i, p := range c.Capabilities {
		c.Capabilities[i].Model.resolve(at)
		if len(p.Exec) > 0 && strings.ContainsRune(p.Exec[0], '/') {
			at(&p.Exec[0])
		}
	}
}

// Parse reads a file's text over the defaults and checks what can be checked without the machine.
func Parse(file string, text []byte) (Config, Origins, error) {
	c := Default()
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return Config{}, nil, fmt.Errorf("%s: %s", file, Plain(err))
	}
	from := Origins{}
	from.read(file, "", &doc)
	if _, ok := from["authorize"]; ok {
		c.Authorize = nil // what is written replaces the default, it does not add to it
	}
	c = c.readSecurity(&doc, from)
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, nil, fmt.Errorf("%s: %s", file, Plain(err))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Config{}, nil, fmt.Errorf("%s: more than one YAML document", file)
	}
	c.Permissions = c.Permissions.In(file)
	if err := c.Check(); err != nil {
		return Config{}, nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, from, nil
}

// readSecurity applies the key security, before the others are read: what they say themselves stands. What is wrong with it
// is for Check.
func (c Config) readSecurity(doc *yaml.Node, from Origins) Config {
	var keys struct{ Security string }
	_ = doc.Decode(&keys) // the mistakes of other keys are found when they are read
	next, err := c.WithSecurity(keys.Security)
	if err != nil {
		return c
	}
	for _, key := range []string{"permissions.preset", "sandbox.preset"} {
		if from[key] == "" {
			from[key] = from["security"]
		}
	}
	return next
}

var unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)

// Plain puts the errors of a YAML decoder into the words of the file, on one line, without the names of Go
// types.
func Plain(err error) string {
	text := err.Error()
	var typed *yaml.TypeError
	if errors.As(err, &typed) {
		text = ""
		for i, e := range typed.Errors {
			if i > 0 {
				text += "; "
			}
			text += e
		}
	}
	text = unknownKey.ReplaceAllString(text, "unknown key $1")
	return goType.ReplaceAllString(text, "a different kind of value")
}

var goType = regexp.MustCompile(`(?:config|permission|agent|cases|time)\.[A-Za-z]+|\[\](?:config|permission|cases)\.[A-Za-z]+`)
