//go:build system && linux

package lan_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"
)

// A machine that nobody can dial, because its node listens on its own loopback only, is a member for
// all once it has dialled one, who tells it of the rest; as one behind a NAT is.
func TestDialOutOnlyNodeIsReachable(t *testing.T) {
	t.Parallel()
	symbiotest.OnASwitch(t, func(t *testing.T) {
		a, b, c := symbiotest.PlugIn(t, 1), symbiotest.PlugIn(t, 2), symbiotest.PlugIn(t, 3)
		listen := map[*symbiotest.Host]string{a: "10.77.0.1:7946", b: "127.0.0.1:0", c: "10.77.0.3:7946"}
		up := func(h *symbiotest.Host, args ...string) *symbiotest.Process {
			file := filepath.Join(h.State, "node.yaml")
			if err := os.WriteFile(file, []byte("discovery: {mdns: false}\nauthorize: [{from: cluster/lab, invoke: [node.info]}]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			p := symbiotest.Started(t, h.Inside(append([]string{"symbio", "up", "--json", "--name", h.Name(), "--config", file}, args...)...))
			p.Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
			return p
		}
		a.Symbio("cluster", "init", "--name", "lab", "--node", a.Name(), "--listen", listen[a])
		nodes := map[*symbiotest.Host]*symbiotest.Process{a: up(a)}
		for _, h := range []*symbiotest.Host{b, c} {
			line := a.Symbio("cluster", "token", "--node", a.Name())
			pasted := regexp.MustCompile(`symbio (cluster join SYM1-\S+ \S+)`).FindStringSubmatch(line)
			if pasted == nil {
				t.Fatalf("no line to paste in %q", line)
			}
			h.Symbio(append(strings.Fields(pasted[1]), "--node", h.Name(), "--listen", listen[h])...)
		}
		nodes[b] = up(b, "--peer", listen[a])
		nodes[c] = up(c, "--peer", listen[a])
		begun := time.Now()
		var last time.Time
		for on, others := range map[*symbiotest.Host][]string{a: {b.Name(), c.Name()}, b: {a.Name(), c.Name()}, c: {a.Name(), b.Name()}} {
			for len(others) > 0 {
				l := nodes[on].Expect(t, strings.Join(others, " and ")+" joined", func(l symbiotest.Line) bool { return l.Type == "joined" && slices.Contains(others, l.Name) })
				others = slices.DeleteFunc(others, func(name string) bool { return name == l.Name })
				if l.Time.After(last) {
					last = l.Time
				}
			}
		}
		// c tells b where it is only when b is told of c, which takes up to a second, and says a second later
		// that it cannot call b.
		symbiotest.Within(t, "all see all after the last is ready", begun, last, 3*time.Second)
		all := func() {
			t.Helper()
			for h := range nodes {
				for other := range nodes {
					if h == other {
						continue
					}
					if out := h.Symbio("invoke", "node.info", "--on", other.Name()); !strings.Contains(out, strconv.Quote(other.Name())) {
						t.Errorf("%s asked %s who it is: %s", h.Name(), other.Name(), out)
					}
				}
			}
		}
		all()
		for _, h := range []*symbiotest.Host{a, c} {
			if out := h.Symbio("nodes", "--json"); !regexp.MustCompile(`"name":"host2","state":"connected"[^{]*"refused":\{\},"via":"reversed"`).MatchString(out) {
				t.Errorf("%s sees %s, want host2 reversed", h.Name(), out)
			}
			if out, _ := h.Inside("symbio", "doctor").Output(); !strings.Contains(string(out), "reaches host2 at 10.77.0.2:") {
				t.Errorf("the doctor of %s does not say how host2 is reached:\n%s", h.Name(), out)
			}
		}

		b.Cable(false)
		nodes[a].Expect(t, "host2 unavailable", func(l symbiotest.Line) bool { return l.Type == "became unavailable" && l.Name == b.Name() })
		nodes[c].Expect(t, "host2 unavailable", func(l symbiotest.Line) bool { return l.Type == "became unavailable" && l.Name == b.Name() })
		b.Cable(true)
		at := time.Now()
		for _, h := range []*symbiotest.Host{a, c} {
			l := nodes[h].Expect(t, "host2 available", func(l symbiotest.Line) bool { return l.Type == "became available" && l.Name == b.Name() })
			symbiotest.Within(t, h.Name()+" is called back after the heal", at, l.Time, 5*time.Second)
		}
		all()
	})
}
