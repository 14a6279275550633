//go:build system && linux

package lan_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"symbio/internal/community/waittest"

	"symbio/cmd/symbio/symbiotest"
	symbiov1 "symbio/proto/symbio/v1"
)

// olderProgram builds the program with the protocol's minor version lowered by one, in which nodes of it name themselves and by
// which others know what they may say to them. It returns the path of the program, and the older and the present version.
func olderProgram(t *testing.T) (program, older, present string) {
	t.Helper()
	const root = "../../../.."
	dir, overlay := t.TempDir(), map[string]string{}
	replace := func(name string, change func(text string) string) {
		t.Helper()
		path, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := change(string(text))
		if changed == string(text) {
			t.Fatalf("%s has no version of the protocol in it", name)
		}
		overlay[path] = filepath.Join(dir, strconv.Itoa(len(overlay))+".go")
		if err := os.WriteFile(overlay[path], []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace("transport/grpcpeer/config.go", func(text string) string {
		m := regexp.MustCompile(`var protocol = version\{(\d+), (\d+)\}`).FindStringSubmatch(text)
		if m == nil {
			return text
		}
		minor, err := strconv.Atoi(m[2])
		if err != nil || minor == 0 {
			t.Skipf("version %s.%s is the first one of its major version: no older node works with it", m[1], m[2])
		}
		older, present = fmt.Sprintf("%s.%d", m[1], minor-1), m[1]+"."+m[2]
		return strings.Replace(text, m[0], fmt.Sprintf("var protocol = version{%s, %d}", m[1], minor-1), 1)
	})
	replace("agent/node/node.go", func(text string) string {
		return strings.Replace(text, `const Protocol = "`+present+`"`, `const Protocol = "`+older+`"`, 1)
	})
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "symbio")
	if err := symbiotest.GoBuild("-overlay", file, "-o", program, root+"/cmd/symbio"); err != nil {
		t.Fatal(err)
	}
	return program, older, present
}

// Three nodes call each other while one after the other is drained, stopped, and started again as a program whose protocol is one
// minor version newer. No call fails, and each node keeps its id.
func TestRollingUpgradeFailsNoCall(t *testing.T) {
	t.Parallel()
	symbiotest.OnASwitch(t, func(t *testing.T) {
		program, older, present := olderProgram(t)
		l := symbiotest.NewLab(t, symbiotest.PlugIn(t, 1), symbiotest.PlugIn(t, 2), symbiotest.PlugIn(t, 3))
		l.Program = program
		names := []string{"a", "b", "c"}
		for i, name := range names {
			l.Up(l.Hosts[i], name)
		}
		see := func(name, version string) { // all others see the node, with that version
			symbiotest.Await(t, name+" has version "+version+" for all others", func() bool {
				for _, n := range l.Nodes {
					if p := n.Peer(name); n.Name != name && (p.GetProtocol() != version || n.Sees()[name] == "") {
						return false
					}
				}
				return true
			})
		}
		ids := map[string]string{}
		for _, name := range names {
			ids[name] = l.Nodes[name].Ready().ID
		}
		for _, name := range names {
			see(name, older)
		}

		ends, done := map[string]chan struct{}{}, map[string]func() []symbiotest.Call{}
		call := func(name string) {
			ends[name] = make(chan struct{})
			done[name] = l.Nodes[name].Calls(4, "slow", "", ends[name])
		}
		finish := func(name string) {
			close(ends[name])
			calls := done[name]()
			for _, c := range calls {
				if c.Err != nil {
					t.Errorf("a call of node %s at %s: %v", name, c.Begun.Format(time.TimeOnly), c.Err)
				}
			}
			t.Logf("%d calls of node %s", len(calls), name)
		}
		for _, name := range names {
			call(name)
		}
		for i, name := range names {
			old := l.Nodes[name]
			// Callers ask the first other node by name: c has served while the ones before it were away.
			symbiotest.Await(t, "a call that "+name+" serves", func() bool { return len(old.LinesSince(time.Time{}, isServed)) > 0 })
			finish(name) // programs that use this node are told to use another one
			t.Logf("%s", l.Hosts[i].Symbio("nodes", "drain", "--stop", "--node", name))
			old.Ended(t)
			l.Program = "symbio"
			upgraded := l.Up(l.Hosts[i], name)
			if id := upgraded.Ready().ID; id != ids[name] {
				t.Errorf("node %s was %s and is %s after the upgrade", name, ids[name], id)
			}
			see(name, present)
			call(name)
			for _, other := range l.Nodes {
				request := &symbiov1.CallRequest{Capability: "slow", On: name}
				if other.Name == name {
					continue
				}
				if _, err := other.Client.Call(waittest.Context(t), request); err != nil {
					t.Errorf("node %s calls the upgraded node %s: %v", other.Name, name, err)
				}
			}
		}
		for _, name := range names {
			finish(name)
		}
	})
}
