package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"symbio/agent/budget"
	"symbio/agent/tool/security"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/permission/authorize"
	"symbio/internal/security/visible"
	"symbio/security/identity"
	"symbio/security/permission"
)

// Config is a whole configuration file. reference.yaml describes each key; a
// test compares the two. Default returns the values of a file with no keys. A
// Config is plain data: copy it before you change it in another goroutine.
type Config struct {
	Node         Node              `yaml:"node"`
	Labels       map[string]string `yaml:"labels"` // of this node, by which tasks are placed
	Discovery    Discovery         `yaml:"discovery"`
	Agents       string            `yaml:"agents"` // a directory of definitions; "" = none but the built-in one
	Model        Models            `yaml:"model"`
	Effort       string            `yaml:"effort"` // of agents without one of their own: low, medium or high; "" = the model's
	Services     Services          `yaml:",inline"`
	Workspace    string            `yaml:"workspace"`   // where agents work; "" = the working directory of the node's start
	Directories  []string          `yaml:"directories"` // more directories whose files rules can allow to agents
	Capabilities []Capability      `yaml:"capabilities"`
	Placement    Placement         `yaml:"placement"`
	Authorize    []authorize.Rule  `yaml:"authorize"`
	Security     string            `yaml:"security"` // a preset of permissions and sandbox together; see WithSecurity
	Permissions  permission.Config `yaml:"permissions"`
	Approvals    Approvals         `yaml:"approvals"`
	Sandbox      Sandbox           `yaml:"sandbox"`
	Context      Context           `yaml:"context"`
	Skills       Skills            `yaml:"skills"`
	MCP          MCP               `yaml:"mcp"`
	Budget       budget.Limits     `yaml:"budget"`
	Session      Session           `yaml:"session"`
	Artifacts    Artifacts         `yaml:"artifacts"`
	Limits       Limits            `yaml:"limits"`
	Web          Web               `yaml:"web"`
	Reports      Reports           `yaml:",inline"`
}

// Context says what agents are told of the place in which they work.
type Context struct {
	// Files adds the AGENTS.md of the user and of the workspace, or CLAUDE.md
	// where there is none, and what they import as @path.
	Files bool `yaml:"files"`
	// Environment adds the date, the system, git's branch, and what commands
	// may do.
	Environment bool `yaml:"environment"`
}

// Reports says where the node reports its work.
type Reports struct {
	Log       Log    `yaml:"log"`
	Dashboard string `yaml:"dashboard"` // where symbio up serves the dashboard, host:port; "" = it does not
	Metrics   string `yaml:"metrics"`   // HOST:PORT; "" = not served
}

// Log configures the log file.
type Log struct {
	File string `yaml:"file"` // "" = standard error only
}

// Approvals says how long calls wait for a person's decision, and which agents
// may wait at all.
type Approvals struct {
	// Timeout is how long a call waits for a decision. After it the call is
	// denied.
	Timeout time.Duration `yaml:"timeout"`
	// Unattended lets agents without a terminal (symbio agents spawn, and agents
	// behind a capability) wait for a decision by `symbio approvals`. Without
	// it, a call of theirs that needs a decision is denied at once.
	Unattended bool `yaml:"unattended"`
}

// Limits bound what other nodes can make this node do. A call over a limit is
// refused at once, and `symbio nodes --json` counts the refusals. All values
// must be above 0. The limits that no operator has a reason to turn are
// constants of packages community, actor and grpcpeer.
type Limits struct {
	Message     int           `yaml:"message"`      // bytes of one message
	NodeCalls   int           `yaml:"node_calls"`   // concurrent calls of all nodes together; each node gets a fair share
	CallTimeout time.Duration `yaml:"call_timeout"` // duration of one call
	Connections int           `yaml:"connections"`  // open connections, authenticated or not
	// CertificateGrace is how long after its expiry a certificate is still
	// renewed by a node that holds the authority.
	CertificateGrace time.Duration `yaml:"certificate_grace"`
}

// Node says what the node is called and where it listens.
type Node struct {
	Name   string `yaml:"name"`   // "" = the machine's name, numbered if taken
	Listen string `yaml:"listen"` // host:port; "" = loopback with any port, or in a cluster the address of init or join
	// WebSocket is the URL, ws://host:port/path, at which the node accepts WebSockets, which come by a proxy; "" = none.
	WebSocket string `yaml:"websocket"`
}

// Discovery says how other nodes are found.
type Discovery struct {
	MDNS       bool       `yaml:"mdns"`
	Peers      []string   `yaml:"peers"` // host:port or the URL of a WebSocket each
	Roots      string     `yaml:"roots"` // a PEM file of authorities of the proxies of wss peers, beside the system's; "" = none
	DNS        []string   `yaml:"dns"`   // _symbio._tcp.example or name:port each
	Interfaces Interfaces `yaml:"interfaces"`
}

// Interfaces selects the network interfaces that mDNS uses, by name, with
// patterns as in path.Match. An empty Allow allows all, and Deny wins over
// Allow. Loopback is never used.
type Interfaces struct {
	Allow []string `yaml:"allow"`
	Deny  []string `yaml:"deny"`
}

// Capability is an operation that this node offers to other nodes. Exactly one
// of Exec, Agent, MCP, Model and Lending.Agents says what answers the calls.
type Capability struct {
	Name        string        `yaml:"name"`
	Description string        `yaml:"description"`
	Exec        []string      `yaml:"exec"`          // a command: JSON on standard input, JSON on standard output
	Agent       string        `yaml:"agent"`         // the name of a definition
	MCP         string        `yaml:"mcp,omitempty"` // SERVER/TOOL of an MCP server
	Model       Models        `yaml:"model"`         // a model of this node, under the name model.chat
	Input       any           `yaml:"input"`         // JSON schema of the arguments
	Output      any           `yaml:"output"`        // JSON schema of the result
	Idempotent  bool          `yaml:"idempotent"`    // a caller may repeat a call whose result was lost
	Text        bool          `yaml:"text"`          // the command of Exec prints text, which becomes a JSON string
	Timeout     time.Duration `yaml:"timeout"`       // 0 = a minute for commands, the budget's for agents
	Concurrency int           `yaml:"concurrency"`   // concurrent calls; 0 = 16
	// Progress sends callers what the command writes to standard error, line by
	// line. It is off by default, because such lines may contain paths or
	// secrets; this node's log has them in any case.
	Progress bool `yaml:"progress"`
	// Sandbox restricts the command of Exec. With a preset it replaces the
	// node's sandbox, and may be weaker or stronger; without one, the keys that
	// it has replace the keys of the node's sandbox.
	Sandbox *Sandbox `yaml:"sandbox,omitempty"`
	// Lending is used by the capability agents.spawn only.
	Lending `yaml:",inline"`
}

// Concurrency is the default number of concurrent calls of one capability. It
// is small because each call is a process, or an agent with a model.
const Concurrency = 16

// Schemas returns the JSON schemas of the arguments and of the result. A schema
// that is not configured is nil. An error names the key whose value has no JSON
// form, such as a mapping with numbers as keys.
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

// Default returns the configuration of a node without a configuration file. It
// is safe: the node listens on loopback only, a person decides on risky calls,
// and only nodes of the same user may call.
func Default() Config {
	return Config{
		Node:        Node{Listen: "127.0.0.1:0"},
		Discovery:   Discovery{MDNS: true},
		Model:       "auto",
		Authorize:   []authorize.Rule{{From: "local", Invoke: []string{"*"}, Send: []string{"*"}}},
		Permissions: permission.Config{Preset: "standard"},
		Context:     Context{Files: true, Environment: true},
		Skills:      defaultSkills(),
		MCP:         MCP{Enabled: true, StartTimeout: 30 * time.Second}, // as mcp.Config has it, which says why
		Sandbox:     Sandbox{Preset: "standard"},
		Approvals:   Approvals{Timeout: 10 * time.Minute}, // a coffee break
		Placement:   defaultPlacement(),
		Session:     defaultSession(),
		Artifacts:   Artifacts{MaxSize: 1 << 30, Keep: Age(24 * time.Hour)},
		Budget:      budget.Limits{Depth: 3, Agents: 16, SpawnsPerMinute: 30, Wall: 30 * time.Minute, ModelCalls: 1000, Tokens: 10_000_000},
		// The numbers and their reasons are as in community.Config and
		// grpcpeer.Limits.
		Limits: Limits{Message: 1 << 20, NodeCalls: 256, CallTimeout: 5 * time.Minute, Connections: 256, CertificateGrace: identity.Grace},
	}
}

// WithSecurity returns c with the two presets, of permissions and of the
// sandbox, that the named security preset stands for. An unknown name is an
// error that lists the known ones; then c is returned as it was.
func (c Config) WithSecurity(name string) (Config, error) {
	s, err := security.Preset(name)
	if err != nil {
		return c, err
	}
	c.Security, c.Permissions.Preset, c.Sandbox.Preset = name, s.Permissions.Preset, s.Sandbox
	return c, nil
}

// maxFile bounds a configuration file, in bytes: 1 MiB. A larger file is a
// mistake, such as a wrong path.
const maxFile = 1 << 20

// Load reads a file over the defaults, checks it, and makes its paths absolute.
// from says where each value came from. The error names the file, and the line
// as far as it is known; it wraps fs.ErrNotExist if there is no such file.
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

// Resolve makes relative paths absolute: they start in dir, the directory of
// the configuration file. A leading ~ is the home directory. A command without
// a slash stays as it is, because it is looked up in PATH.
func (c *Config) Resolve(dir string) {
	home, _ := os.UserHomeDir()
	makeAbsolute := func(path *string) {
		if rest, ok := strings.CutPrefix(*path, "~"); ok && home != "" && (rest == "" || rest[0] == '/') {
			*path = filepath.Join(home, rest)
		}
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	c.Model.resolve(makeAbsolute)
	makeAbsolute(&c.Agents)
	makeAbsolute(&c.Discovery.Roots)
	makeAbsolute(&c.Workspace)
	makeAbsolute(&c.MCP.File)
	makeAbsolute(&c.Reports.Log.File)
	c.Skills.resolve(makeAbsolute)
	for i := range c.Directories {
		makeAbsolute(&c.Directories[i])
	}
	for i, p := range c.Capabilities {
		c.Capabilities[i].Model.resolve(makeAbsolute)
		if len(p.Exec) > 0 && strings.ContainsRune(p.Exec[0], '/') {
			makeAbsolute(&p.Exec[0])
		}
	}
}

// Parse reads a file's text over the defaults and calls Check. It does not
// touch the disk: file is used in messages and origins only. Unknown keys, keys
// with an earlier name and a second YAML document are errors.
func Parse(file string, text []byte) (Config, Origins, error) {
	c := Default()
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		why := strings.TrimPrefix(PlainError(err), "yaml: ")
		if !strings.HasPrefix(why, "line ") {
			why = "line 1: " + why // yaml.v3 leaves it out
		}
		return Config{}, nil, fmt.Errorf("%s: %s", file, strings.Replace(why, "character that cannot start any token", "character that begins no value, such as a tab: indent with spaces", 1))
	}
	from := Origins{}
	if len(doc.Content) > 0 && doc.Content[0].Kind != yaml.MappingNode && doc.Content[0].ShortTag() != "!!null" {
		return Config{}, nil, fmt.Errorf("%s: line %d: write keys and their values, such as model: auto", file, doc.Content[0].Line)
	}
	from.read(file, "", &doc)
	if _, ok := from["authorize"]; ok {
		c.Authorize = nil // the decoder would write into the default's slice; a file's rules replace the default ones
	}
	c = c.readSecurity(&doc, from)
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, nil, fmt.Errorf("%s: %s", file, DecodeError(text, err))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Config{}, nil, fmt.Errorf("%s: more than one YAML document", file)
	}
	c.Permissions = c.Permissions.In(file)
	if err := c.Check(); err != nil {
		return Config{}, nil, from.locate(file, err)
	}
	return c, from, nil
}

// readSecurity applies the key security before the other keys are decoded, so
// that permissions.preset and sandbox.preset of the same file win over it. It
// ignores an unknown preset, because Check reports it.
func (c Config) readSecurity(doc *yaml.Node, from Origins) Config {
	var keys struct{ Security string }
	_ = doc.Decode(&keys) // Parse decodes the whole document again and reports the errors
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

// unknownKey, presetOnly and goType match the parts of a yaml.v3 error that name
// Go types, which a reader of the file does not know.
var (
	unknownKey = lazyregexp.New(`field (\S+) not found in type [\w.]+`)
	presetOnly = lazyregexp.New("cannot unmarshal !!str `([^`]*)` into permission.Config")
	goType     = lazyregexp.New(`(?:config|permission|agent|cases|time)\.[A-Za-z]+|\[\](?:config|permission|cases)\.[A-Za-z]+`)
)

// suggestKey returns what a person is told about a match of unknownKey: which known key was probably meant.
func suggestKey(match string) string {
	key := strings.Fields(match)[1]
	switch {
	case key == "servers" && strings.HasSuffix(match, ".MCP"):
		return "unknown key servers; MCP servers are in a file of their own, mcp.json: symbio mcp add writes it"
	case key == "level" && strings.HasSuffix(match, ".Log"):
		return "unknown key level; the flag --log-level sets what is logged"
	}
	all, _ := Reference() // a test reports its error
	var known []string
	for _, k := range all {
		if name := strings.TrimSuffix(k.Name[strings.LastIndexByte(k.Name, '.')+1:], "[]"); name != key { // known at another place
			known = append(known, name)
		}
	}
	return "unknown key " + key + visible.Suggest(key, known)
}

// PlainError returns the message of a YAML decoder's error on one line, without
// the names of Go types. Several mistakes are joined with semicolons.
func PlainError(err error) string {
	text := err.Error()
	var typed *yaml.TypeError
	if errors.As(err, &typed) {
		text = strings.Join(typed.Errors, "; ")
	}
	text = unknownKey().ReplaceAllStringFunc(text, suggestKey)
	text = presetOnly().ReplaceAllString(text, "write {preset: $1} instead of $1")
	return goType().ReplaceAllString(text, "a different kind of value")
}

// OfferedBy returns the capabilities of the configuration that agents answer,
// by the name of the definition.
func (c Config) OfferedBy() map[string][]string {
	by := map[string][]string{}
	for _, p := range c.Capabilities {
		if p.Agent != "" {
			by[p.Agent] = append(by[p.Agent], p.Name)
		}
	}
	return by
}
