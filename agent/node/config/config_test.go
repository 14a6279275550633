package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"symbio/agent/node/config"
)

func TestEmptyFileIsTheDefault(t *testing.T) {
	c, _, err := config.Parse("f", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Node.Listen, "127.0.0.1:0"; got != want {
		t.Errorf("listen = %q, want loopback: %q", got, want)
	}
	if len(c.Authorize) != 1 || c.Authorize[0].From != "local" {
		t.Errorf("authorize = %+v, want this user's own nodes only", c.Authorize)
	}
}

func TestMistakesNameTheLineAndTheKey(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"unknown key":            {"node:\n  nmae: x\n", "line 2: unknown key nmae; did you mean \"name\"?"},
		"servers of MCP":         {"mcp: {servers: {}}\nnode: {nmae: x}\n", "mcp.json: symbio mcp add writes it; line 2: unknown key nmae;"},
		"unknown top key":        {"sandbx: {}\n", "line 1: unknown key sandbx; did you mean \"sandbox\"?"},
		"wrong kind of value":    {"budget:\n  depth: deep\n", "line 2: budget.depth has to be a whole number"},
		"broken YAML":            {"node: [\n", "line 1"},
		"bad rule":               {"permissions: {allow: ['Bash(git:*']}\n", "Bash(git:*"},
		"exec and agent":         {"capabilities: [{name: a, exec: [x], agent: y}]\n", "exactly one of exec, agent, mcp and model"},
		"neither exec nor agent": {"capabilities: [{name: a}]\n", "exactly one of exec, agent, mcp and model"},
		"name twice":             {"capabilities: [{name: a, exec: [x]}, {name: a, exec: [x]}]\n", "an earlier capability has this name"},
		"a perception's prefix":  {"capabilities: [{name: 'a b', exec: [x]}]\n", "letters, digits"},
		"negative budget":        {"budget: {agents: -1}\n", "budget.agents is negative"},
		"authorize by name":      {"authorize: [{from: kitchen, invoke: ['*']}]\n", "kitchen"},
		"bad peer":               {"discovery: {peers: [kitchen]}\n", "kitchen"},
		"bad URL of a peer":      {"discovery: {peers: ['https://kitchen/']}\n", "https is not a scheme of WebSockets"},
		"TLS of its own":         {"node: {websocket: 'wss://127.0.0.1:8443/'}\n", "the proxy before it ends TLS"},
		"no port":                {"node: {websocket: 'ws://127.0.0.1/symbio'}\n", "write ws://HOST:PORT/PATH"},
		"no URL":                 {"node: {websocket: '127.0.0.1:8080'}\n", "write ws://HOST:PORT/PATH"},
		"bad name":               {"discovery: {dns: ['10.0.0.7:7946']}\n", "discovery.peers"},
		"bad interface":          {"discovery: {interfaces: {deny: ['eth[']}}\n", "discovery.interfaces.deny"},
		"no limit":               {"limits: {connections: 0}\n", "limits.connections has to be above 0"},
		"no number":              {"budget: {cost: .nan}\n", "budget.cost is negative"},
		"a huge message":         {"limits: {message: 1000000000}\n", "limits.message: at most 4194304 bytes"},
		"an unknown limit":       {"limits: {mesage: 1}\n", "line 1: unknown key mesage"},
		"negative concurrency":   {"capabilities: [{name: a, exec: [x], concurrency: -1}]\n", "concurrency is negative"},
		"a cluster's pattern":    {"authorize: [{from: cluster/*, invoke: ['*']}]\n", "cluster/NAME"},
		"a model nobody has":     {"model: gpt\n", "names no model"},
		"a list with one":        {"model: ['openai:a', gpt]\n", "line 1: \"gpt\" names no model"},
		"an empty list":          {"model: []\n", "line 1: the list of models is empty"},
		"a list of maps":         {"model: [{a: b}]\n", "line 1"},
		"a negative price":       {"prices: {'openai:a': {input: -1}}\n", "prices: \"openai:a\""},
		"an unknown price":       {"prices: {'openai:a': {inputs: 1}}\n", "unknown key inputs"},
		"a key in a file":        {"providers: {anthropic: {api_key: x}}\n", "unknown key api_key"},
		"a star in the middle":   {"providers: {without_images: ['a*b']}\n", "providers.without_images"},
		"a model by its name":    {"capabilities: [{name: my.model, model: 'openai:a'}]\n", "name: write model.chat"},
		"another's model":        {"capabilities: [{name: model.chat, model: 'peer:a/b'}]\n", "is a model of another node"},
		"a model with a schema":  {"capabilities: [{name: model.chat, model: 'openai:a', input: {}}]\n", "leave out input"},
		"a model and an agent":   {"capabilities: [{name: model.chat, model: 'openai:a', agent: b}]\n", "exactly one of exec, agent, mcp and model"},
		"no such exposure":       {"skills: {overrides: {a: sometimes}}\n", "skills.overrides: a: unknown exposure \"sometimes\""},
		"no such tool":           {"skills: {tools: [skill_run]}\n", "skills.tools: there is no tool \"skill_run\""},
		"no room for skills":     {"skills: {max_active: 0}\n", "skills.max_active has to be above 0"},
		"a registry by its name": {"skills: {registry: {node: hub, trust: ['*']}}\n", "skills.registry: write node, its name, and key"},
		"a registry's pattern":   {"skills: {registry: {node: hub, key: 0123456789abcdef0123456789abcdef, trust: ['team[']}}\n", "skills.registry.trust"},
		"no such life":           {"skills: {grant_ttl: day}\n", "skills.grant_ttl"},
		"two documents":          {"model: auto\n---\nmodel: auto\n", "more than one"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := config.Parse("symbio.yaml", []byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "symbio.yaml") {
				t.Errorf("error = %v, want one with the file and %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "config.") {
				t.Errorf("error %q speaks of Go types", err)
			}
		})
	}
}

func TestSecuritySetsRulesAndSandbox(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                      {"standard", "standard"},
		"security: standard":    {"standard", "standard"},
		"security: development": {"development", "off"},
		"security: restrictive": {"restrictive", "restrictive"},
		"security: read-only":   {"read_only", "restrictive"},
		"security: readOnly":    {"read_only", "restrictive"},
		"security: read_only":   {"read_only", "restrictive"},
		"security: restrictive\nsandbox: {preset: standard}\npermissions: {allow: [Write], session_memory: false}": {"restrictive", "standard"},
	} {
		c, from, err := config.Parse("f", []byte(text))
		if err != nil {
			t.Fatal(text, err)
		}
		if got := [2]string{c.Permissions.Preset, c.Sandbox.Preset}; got != want {
			t.Errorf("%q has the presets %v, want %v", text, got, want)
		}
		if p, err := c.Permissions.Policy(); err != nil || p.NoMemory != strings.Contains(text, "session_memory") {
			t.Errorf("%q: no memory %v, %v", text, p.NoMemory, err)
		}
		if at := from.Of("permissions.preset"); text != "" && at != "f:1" {
			t.Errorf("%q: the preset is from %s", text, at)
		}
	}
	_, _, err := config.Parse("f", []byte("security: lax"))
	if err == nil || !strings.Contains(err.Error(), "write one of standard, workspace, development, restrictive, read_only") {
		t.Errorf("an unknown word: %v", err)
	}
}

func TestWrittenRulesForCallersReplaceTheDefault(t *testing.T) {
	for text, want := range map[string]int{
		"model: auto\n":   1,
		"authorize:\n":    0,
		"authorize: []\n": 0,
		"authorize: [{from: '*', invoke: [a]}, {from: local, send: [b]}]\n": 2,
	} {
		c, _, err := config.Parse("f", []byte(text))
		if err != nil || len(c.Authorize) != want {
			t.Errorf("%q: %d rules (%v), want %d", text, len(c.Authorize), err, want)
		}
	}
}

func TestConfigValuesKnowTheirOrigin(t *testing.T) {
	c, from, err := config.Parse("f", []byte("node:\n  name: kitchen\nbudget: {wall: 5m}\ndiscovery:\n  peers:\n    - 10.0.0.7:7946\n  dns: [_symbio._tcp.example]\n  interfaces: {deny: [docker*]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Budget.Wall != 5*time.Minute {
		t.Errorf("wall = %v, want 5m", c.Budget.Wall)
	}
	from.Set("model", "flag --model")
	values, err := c.Values(from)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, v := range values {
		got[v.Key] = v.String() + " from " + v.From
	}
	for key, want := range map[string]string{
		"node.name":                  "kitchen from f:2",
		"node.listen":                "127.0.0.1:0 from default",
		"model":                      "auto from flag --model",
		"budget.wall":                "5m0s from f:3",
		"budget.depth":               "3 from default",
		"discovery.dns":              `["_symbio._tcp.example"] from f:7`,
		"discovery.interfaces.deny":  `["docker*"] from f:8`,
		"discovery.interfaces.allow": `[] from default`,
		"discovery.peers":            `["10.0.0.7:7946"] from f:6`,
		"limits.call_timeout":        "5m0s from default",
	} {
		if got[key] != want {
			t.Errorf("%s = %q, want %q", key, got[key], want)
		}
	}
}

func TestPathsInAFileAreRelativeToIt(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "symbio.yaml")
	text := "agents: ./agents\nskills: {dirs: [more]}\ncapabilities: [{name: wc, exec: [./wc.sh, ./x]}, {name: cat, exec: [cat]}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{
		{c.Agents, filepath.Join(dir, "agents")},
		{c.Skills.Dirs[0], filepath.Join(dir, "more")},
		{c.Capabilities[0].Exec[0], filepath.Join(dir, "wc.sh")},
		{c.Capabilities[0].Exec[1], "./x"},
		{c.Capabilities[1].Exec[0], "cat"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("path = %q, want %q", pair[0], pair[1])
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("node: {name: kitchen, listen: 127.0.0.1:0}\nauthorize:\n - {from: '*', invoke: ['text.*']}\n")
	f.Add("a: &a [*a]\n")
	f.Add("capabilities: [{name: x, exec: [], input: {1: 2}}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, from, err := config.Parse("f", []byte(text))
		if err == nil {
			if _, err := c.Values(from); err != nil {
				t.Errorf("a valid configuration cannot be shown: %v", err)
			}
		}
	})
}

func TestModelsAreATextOrAList(t *testing.T) {
	for text, want := range map[string]config.Models{
		"":                                   "auto",
		"model: openai:a\n":                  "openai:a",
		"model: [anthropic:a, openai:b]\n":   "anthropic:a,openai:b",
		"model: 'anthropic:a, openai:b'\n":   "anthropic:a, openai:b",
		"model:\n  - openai:a\n  - auto\n":   "openai:a,auto",
		"model: ['scripted:a b.yaml', auto]": "scripted:a b.yaml,auto",
	} {
		c, _, err := config.Parse("f", []byte(text))
		if err != nil || c.Model != want {
			t.Errorf("%q: %q, %v; want %q", text, c.Model, err, want)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte("model: ['scripted:s.yaml', 'scripted:/t.yaml']\ncapabilities: [{name: model.chat, model: 'scripted:s.yaml'}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := config.Load(file)
	here := config.Models("scripted:" + filepath.Join(dir, "s.yaml"))
	if err != nil || c.Model != here+",scripted:/t.yaml" || c.Capabilities[0].Model != here {
		t.Errorf("models %q and %q, %v; want those of the file's directory", c.Model, c.Capabilities[0].Model, err)
	}
}
