package cli

import (
	"strings"
	"testing"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	symbiov1 "symbio/proto/symbio/v1"
)

// On a terminal of 80 columns a list has each node, member or capability on one line, with an id that can be typed, and
// what is particular to it before what each node has. Elsewhere nothing is cut.
func TestListsFit80Columns(t *testing.T) {
	const a, b = "3845ff2409939451c8a233049edfa089", "3845ff2409d9451c8a233049edfa0891"
	capability := func(name string, local bool) *symbiov1.OfferedCapability {
		return &symbiov1.OfferedCapability{Capability: &symbiov1.Capability{Name: name, Description: strings.Repeat("what it does ", 12)}, NodeName: "kitchen", Local: local, Available: true}
	}
	lists := []struct {
		name        string
		print       func(*command.Env) error
		first, rest string // begin of the first row, and what the pipe has of it
	}{
		{"members", func(env *command.Env) error {
			return printMembers(env, []*symbiov1.LocatedMember{
				{Id: a, Name: "kitchen", NodeName: "kitchen", Local: true, Available: true, Provides: []string{"agents.inspect", "approvals.list", "node.info", "word.count"}},
				{Id: b, Name: "general", NodeName: "kitchen", Accepts: []string{"task"}},
			})
		}, "3845ff24099  kitchen  kitchen (here)  available    word.count, 3 of", a + "\tkitchen\tkitchen (here)\t-\tagents.inspect,approvals.list,node.info,word.count\tavailable\n"},
		{"nodes", func(env *command.Env) error {
			return printNodes(env, []*symbiov1.Node{
				{Id: a, Name: "kitchen", State: "connected", Addr: "192.168.178.121:17001", RttMs: 12.5, Running: new(uint32(1)), Free: new(uint32(8)), Waiting: new(uint32(0)), Labels: map[string]string{"arch": "amd64", "room": "kitchen"}},
				{Id: b, Name: "desk"},
			})
		}, "3845ff24099  kitchen  connected  192.168.178.121:17001  12.5 ms  1, 8 free", a + "\tkitchen\tconnected\t192.168.178.121:17001\t12.5 ms\t1, 8 free, 0 wait\tarch=amd64 room=kitchen"},
		{"capabilities", func(env *command.Env) error {
			return printCapabilities(env, []*symbiov1.OfferedCapability{capability("agents.inspect", true), capability("word.count", false)})
		}, "word.count      kitchen         available  what it does", "word.count\tkitchen\tavailable\tno\twhat it does"},
	}
	for _, l := range lists {
		var shown, piped strings.Builder
		if err := l.print(&command.Env{Out: &shown, OutIsTerminal: true}); err != nil {
			t.Fatal(err)
		}
		if err := l.print(&command.Env{Out: &piped}); err != nil {
			t.Fatal(err)
		}
		_, rows, _ := strings.Cut(shown.String(), "\n")
		if !strings.HasPrefix(rows, l.first) {
			t.Errorf("%s on a terminal:\n%swant first\n%s", l.name, shown.String(), l.first)
		}
		for line := range strings.Lines(shown.String()) {
			if terminal.Width(strings.TrimSuffix(line, "\n")) >= 80 {
				t.Errorf("%s: too wide: %s", l.name, line)
			}
		}
		if !strings.HasPrefix(piped.String(), l.rest) {
			t.Errorf("%s in a pipe:\n%swant first\n%s", l.name, piped.String(), l.rest)
		}
	}
}
