package config

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"strings"

	"symbio/agent/lending"
	"symbio/agent/tool/security"
	"symbio/discovery/dns"
	"symbio/discovery/static"
	"symbio/security/permission/authorize"
)

// capabilityName is what a capability may be called; the prefix agent.perception. is the wire's own.
var capabilityName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// Check returns everything that is wrong with c, joined.
func (c Config) Check() error {
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	names := map[string]bool{}
	for i, p := range c.Capabilities {
		where := fmt.Sprintf("capabilities[%d] %q", i, p.Name)
		switch {
		case len(p.Name) > 64 || !capabilityName.MatchString(p.Name):
			bad("%s: the name is up to 64 letters, digits, _ and -, in parts separated by dots", where)
		case strings.HasPrefix(p.Name, authorize.OwnersPrefix), strings.HasPrefix(p.Name, authorize.AgentsPrefix) && p.Name != lending.Capability:
			prefix, _, _ := strings.Cut(p.Name, ".")
			bad("%s: names that begin with %s. are the node's own", where, prefix)
		case names[p.Name]:
			bad("%s: that name is there twice", where)
		case p.checkLending() != nil:
			bad("%s: %w", where, p.checkLending())
		case ways(len(p.Exec) > 0, p.Agent != "", p.MCP != "", p.Model != "", p.Lends()) != 1:
			bad("%s: give it either exec, agent, mcp or model", where)
		case p.MCP != "" && !mcpTool.MatchString(p.MCP):
			bad("%s: mcp is SERVER/TOOL", where)
		case p.Model != "" && p.checkOffered() != nil:
			bad("%s: %w", where, p.checkOffered())
		case p.Timeout < 0:
			bad("%s: the timeout is negative", where)
		case p.Progress && len(p.Exec) == 0:
			bad("%s: progress is for exec; what an agent, an MCP server or a model does is always told to who listens", where)
		case p.Concurrency < 0:
			bad("%s: the concurrency is negative", where)
		case p.Sandbox != nil && p.MCP != "":
			bad("%s: sandbox is for exec; what holds an MCP server stands beside it in its file", where)
		case p.Sandbox != nil && len(p.Exec) == 0:
			bad("%s: sandbox is for exec; what an agent runs is held as all commands of agents are", where)
		case p.Sandbox != nil:
			p.Sandbox.checkOwn(func(format string, args ...any) { bad("%s: "+format, append([]any{where}, args...)...) })
		}
		names[p.Name] = true
	}
	if c.Approvals.Timeout <= 0 {
		bad("approvals.timeout: want how long a decision waits for a person, such as 10m")
	}
	if c.Log.Max <= 0 {
		bad("log.max: want the size in MiB at which a new file is begun, such as 10")
	}
	if _, err := security.Preset(c.Security); err != nil && c.Security != "" {
		bad("security: %w", err)
	}
	c.Sandbox.check(bad)
	c.Tools.check(bad)
	c.Windows.check(bad)
	c.Web.check(bad)
	c.Discovery.check(bad)
	c.checkModels(bad)
	c.MCP.check(bad)
	c.Skills.SkillUse.check(bad)
	c.Skills.SkillReading.check(bad)
	if _, err := c.Permissions.Policy(); err != nil {
		bad("permissions: %w", err)
	}
	if _, err := authorize.New(c.Authorize); err != nil {
		bad("authorize: %w", err)
	}
	for _, key := range numbersNot(c.Budget, func(n float64) bool { return n >= 0 }) {
		bad("budget.%s is negative", key)
	}
	return errors.Join(append(wrong, c.Limits.check())...)
}

// ways counts how many of them are used.
func ways(used ...bool) (n int) {
	for _, u := range used {
		if u {
			n++
		}
	}
	return n
}

// numbersNot returns the keys of the numbers in a struct that are not right. What is not a number is not right either.
func numbersNot(of any, right func(float64) bool) (keys []string) {
	for field, v := range reflect.ValueOf(of).Fields() {
		if !v.CanInt() && !v.CanFloat() || v.CanInt() && right(float64(v.Int())) || v.CanFloat() && right(v.Float()) {
			continue
		}
		keys = append(keys, field.Tag.Get("yaml"))
	}
	return keys
}

// maxMessage is what an event of the catalog, the largest message between nodes, leaves room for.
const maxMessage = 4 << 20

func (l Limits) check() error {
	var wrong []error
	for _, key := range numbersNot(l, func(n float64) bool { return n > 0 }) {
		wrong = append(wrong, fmt.Errorf("limits.%s has to be above 0", key))
	}
	if l.Message > maxMessage {
		wrong = append(wrong, fmt.Errorf("limits.message: at most %d bytes; more belongs in a file", maxMessage))
	}
	return errors.Join(wrong...)
}

func (d Discovery) check(bad func(string, ...any)) {
	if _, err := static.New(static.Config{Peers: d.Peers}); err != nil {
		bad("discovery.peers: %w", err)
	}
	if _, err := dns.New(dns.Config{Names: d.DNS}); err != nil {
		bad("discovery.dns: %w", err)
	}
	for key, patterns := range map[string][]string{"allow": d.Interfaces.Allow, "deny": d.Interfaces.Deny} {
		for _, p := range patterns {
			if _, err := path.Match(p, ""); err != nil || p == "" {
				bad("discovery.interfaces.%s: %q is no pattern for the names of interfaces, such as eth0 or docker*", key, p)
			}
		}
	}
}
