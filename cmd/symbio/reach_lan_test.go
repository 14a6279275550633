//go:build linux

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A machine that nobody can dial, because its node listens on its own loopback only, is a member for
// all once it has dialled one, who tells it of the rest; as one behind a NAT is.
func TestDialOutOnlyNodeIsReachable(t *testing.T) {
	t.Parallel()
	onASwitch(t, func(t *testing.T) {
		a, b, c := plugIn(t, 1), plugIn(t, 2), plugIn(t, 3)
		listen := map[*host]string{a: "10.77.0.1:7946", b: "127.0.0.1:0", c: "10.77.0.3:7946"}
		up := func(h *host, args ...string) *process {
			file := filepath.Join(h.state, "node.yaml")
			if err := os.WriteFile(file, []byte("discovery: {mdns: false}\nauthorize: [{from: cluster/lab, invoke: [node.info]}]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			p := started(t, h.inside(append([]string{"symbio", "up", "--json", "--name", h.name(), "--config", file}, args...)...))
			p.expect(t, "ready", func(l line) bool { return l.Type == "ready" })
			return p
		}
		a.symbio("cluster", "init", "--name", "lab", "--node", a.name(), "--listen", listen[a])
		nodes := map[*host]*process{a: up(a)}
		for _, h := range []*host{b, c} {
			line := a.symbio("cluster", "token", "--node", a.name())
			pasted := regexp.MustCompile(`symbio (join SYM1-\S+ \S+)`).FindStringSubmatch(line)
			if pasted == nil {
				t.Fatalf("no line to paste in %q", line)
			}
			h.symbio(append(strings.Fields(pasted[1]), "--node", h.name(), "--listen", listen[h])...)
		}
		nodes[b] = up(b, "--peer", listen[a])
		nodes[c] = up(c, "--peer", listen[a])
		begun := time.Now()
		var last time.Time
		for on, others := range map[*host][]string{a: {b.name(), c.name()}, b: {a.name(), c.name()}, c: {a.name(), b.name()}} {
			for len(others) > 0 {
				l := nodes[on].expect(t, strings.Join(others, " and ")+" joined", func(l line) bool { return l.Type == "joined" && slices.Contains(others, l.Name) })
				others = slices.DeleteFunc(others, func(name string) bool { return name == l.Name })
				if l.Time.After(last) {
					last = l.Time
				}
			}
		}
		// c tells b where it is only when b is told of c, which takes up to a second, and says a second later
		// that it cannot call b.
		within(t, "all see all after the last is ready", begun, last, 3*time.Second)
		all := func() {
			t.Helper()
			for h := range nodes {
				for other := range nodes {
					if h == other {
						continue
					}
					if out := h.symbio("invoke", "node.info", "--on", other.name()); !strings.Contains(out, strconv.Quote(other.name())) {
						t.Errorf("%s asked %s who it is: %s", h.name(), other.name(), out)
					}
				}
			}
		}
		all()
		for _, h := range []*host{a, c} {
			if out := h.symbio("nodes", "--json"); !regexp.MustCompile(`"name":"host2","state":"connected"[^{]*"refused":\{\},"via":"reversed"`).MatchString(out) {
				t.Errorf("%s sees %s, want host2 reversed", h.name(), out)
			}
			if out, _ := h.inside("symbio", "doctor").Output(); !strings.Contains(string(out), "reaches host2 at 10.77.0.2:") {
				t.Errorf("the doctor of %s does not say how host2 is reached:\n%s", h.name(), out)
			}
		}

		b.cable(false)
		nodes[a].expect(t, "host2 unavailable", func(l line) bool { return l.Type == "became unavailable" && l.Name == b.name() })
		nodes[c].expect(t, "host2 unavailable", func(l line) bool { return l.Type == "became unavailable" && l.Name == b.name() })
		b.cable(true)
		at := time.Now()
		for _, h := range []*host{a, c} {
			l := nodes[h].expect(t, "host2 available", func(l line) bool { return l.Type == "became available" && l.Name == b.name() })
			within(t, h.name()+" is called back after the heal", at, l.Time, 5*time.Second)
		}
		all()
	})
}
