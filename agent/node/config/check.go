package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"reflect"
	"strings"

	"symbio/agent/tool/security"
	"symbio/discovery/dns"
	"symbio/discovery/static"
	"symbio/internal/agent/lending"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/permission/authorize"
)

// capabilityName matches the names that a capability may have: the names that
// the wire protocol allows.
var capabilityName = lazyregexp.New(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// Check returns all mistakes of c that can be found without the machine,
// joined; each names its key. Files, commands and models need not exist: those
// are checked when the node starts, and by `symbio doctor`.
func (c Config) Check() error {
	var wrong []error
	// bad reports one mistake. The checks of all parts get it, so that one run
	// reports every mistake.
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	names := map[string]bool{}
	for i, p := range c.Capabilities {
		where := fmt.Sprintf("capabilities[%d] %q", i, p.Name)
		switch {
		case len(p.Name) > 64 || !capabilityName().MatchString(p.Name):
			bad("%s: name: write up to 64 letters, digits, _ and -, in parts separated by dots, such as text.count", where)
		case strings.HasPrefix(p.Name, authorize.OwnersPrefix), strings.HasPrefix(p.Name, authorize.SessionsPrefix),
			strings.HasPrefix(p.Name, authorize.FleetPrefix), strings.HasPrefix(p.Name, authorize.ArtifactsPrefix),
			strings.HasPrefix(p.Name, authorize.AgentsPrefix) && p.Name != lending.Capability:
			prefix, _, _ := strings.Cut(p.Name, ".")
			bad("%s: name: names that begin with %s. are reserved for the node; choose another", where, prefix)
		case names[p.Name]:
			bad("%s: name: an earlier capability has this name; names are unique", where)
		case p.checkLending() != nil:
			bad("%s: %w", where, p.checkLending())
		case countTrue(len(p.Exec) > 0, p.Agent != "", p.MCP != "", p.Model != "", p.LendsAgents()) != 1:
			bad("%s: write exactly one of exec, agent, mcp and model", where)
		case p.MCP != "" && !mcpTool().MatchString(p.MCP):
			bad("%s: mcp: write SERVER/TOOL, such as files/search_files", where)
		case p.Model != "" && p.checkModel() != nil:
			bad("%s: %w", where, p.checkModel())
		case p.Timeout < 0:
			bad("%s: timeout is negative; write 0 for the default", where)
		case countTrue(p.Progress, p.Text) > 0 && len(p.Exec) == 0:
			bad("%s: progress is for exec only, as is text; the progress of agents, MCP servers and models is always sent", where)
		case p.Concurrency < 0:
			bad("%s: concurrency is negative; write 0 for the default", where)
		case p.Sandbox != nil && p.MCP != "":
			bad("%s: sandbox is for exec only; write the sandbox of an MCP server in mcp.json", where)
		case p.Sandbox != nil && len(p.Exec) == 0:
			bad("%s: sandbox is for exec only; the commands of agents have the sandbox of the node", where)
		case p.Sandbox != nil:
			p.Sandbox.checkCapability(func(format string, args ...any) { bad("%s: "+format, append([]any{where}, args...)...) })
		}
		names[p.Name] = true
	}
	if c.Approvals.Timeout <= 0 {
		bad("approvals.timeout has to be above 0: write how long a call waits for a decision, such as 10m")
	}
	c.checkReports(bad)
	if _, err := security.Preset(c.Security); err != nil && c.Security != "" {
		bad("security: %w", err)
	}
	c.Sandbox.check(bad)
	c.Session.check(bad)
	c.Artifacts.check(bad)
	c.Placement.check(c.Labels, bad)
	c.Web.check(bad)
	c.Node.check(bad)
	c.Discovery.check(bad)
	c.checkModels(bad)
	c.MCP.check(bad)
	c.Skills.check(bad)
	if _, err := c.Permissions.Policy(); err != nil {
		bad("permissions: %w", err)
	}
	if _, err := authorize.New(c.Authorize); err != nil {
		bad("authorize: %w", err)
	}
	for _, key := range invalidNumbers(c.Budget, func(n float64) bool { return n >= 0 }) {
		bad("budget.%s is negative", key)
	}
	return errors.Join(append(wrong, c.Limits.check())...)
}

// checkReports validates where the node reports its work: the metrics and the dashboard.
func (c Config) checkReports(bad func(string, ...any)) {
	if _, _, err := net.SplitHostPort(c.Reports.Metrics); err != nil && c.Reports.Metrics != "" {
		bad("metrics: %w; write HOST:PORT, such as 127.0.0.1:9464", err)
	}
	c.checkDashboard(bad)
}

// countTrue returns how many of the conditions are true.
func countTrue(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// invalidNumbers returns the keys of the numeric fields of a struct for which
// valid is false. valid gets NaN for the YAML value .nan, and must be false for
// it: a comparison such as n >= 0 is.
func invalidNumbers(of any, valid func(float64) bool) (keys []string) {
	for field, v := range reflect.ValueOf(of).Fields() {
		if !v.CanInt() && !v.CanFloat() || v.CanInt() && valid(float64(v.Int())) || v.CanFloat() && valid(v.Float()) {
			continue
		}
		keys = append(keys, field.Tag.Get("yaml"))
	}
	return keys
}

// maxMessage is the largest value of limits.message, in bytes. The transport's
// frames are sized for a catalog update, the largest message between nodes; a
// larger payload would not fit.
const maxMessage = 4 << 20

// check requires positive numbers: a limit of 0 would refuse every call, which
// no reader of "0" expects.
func (l Limits) check() error {
	var wrong []error
	for _, key := range invalidNumbers(l, func(n float64) bool { return n > 0 }) {
		wrong = append(wrong, fmt.Errorf("limits.%s has to be above 0", key))
	}
	if l.Message > maxMessage {
		wrong = append(wrong, fmt.Errorf("limits.message: at most %d bytes; send larger data as a file", maxMessage))
	}
	return errors.Join(wrong...)
}

// checkDashboard reports an address that other machines could reach.
func (c Config) checkDashboard(bad func(format string, args ...any)) {
	if at, err := netip.ParseAddrPort(c.Reports.Dashboard); c.Reports.Dashboard != "" && (err != nil || !at.Addr().IsLoopback()) {
		bad("dashboard: %q: write IP:PORT of this machine alone, such as 127.0.0.1:7950; `symbio dashboard --lan` serves other machines", c.Reports.Dashboard)
	}
}

// check reports a URL at which no WebSocket can be accepted.
func (n Node) check(bad func(string, ...any)) {
	if n.WebSocket == "" {
		return
	}
	// A URL that another node can dial is one that this node can be asked at.
	if _, err := static.New(static.Config{Peers: []string{n.WebSocket}}); err != nil {
		bad("node.websocket: %w", err)
	} else if u, err := url.Parse(n.WebSocket); err != nil || u.Scheme != "ws" || u.Port() == "" || u.RawQuery != "" {
		bad("node.websocket: %q: write ws://HOST:PORT/PATH, such as ws://127.0.0.1:8080/symbio; the proxy before it ends TLS", n.WebSocket)
	}
}

// check lets the sources of discovery validate their own settings, so that the
// rules are in one place.
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
				bad("discovery.interfaces.%s: %q is not a pattern for names of interfaces; write one such as eth0 or docker*", key, p)
			}
		}
	}
}
