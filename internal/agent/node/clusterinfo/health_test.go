package clusterinfo

import (
	"strings"
	"testing"

	statedir "symbio/internal/agent/node/state"
	symbiov1 "symbio/proto/symbio/v1"
)

func TestHealthSaysWhatIsWrong(t *testing.T) {
	const self = "00000000000000000000000000000001"
	ann := &symbiov1.Node{Id: self, Name: "ann", State: "self", Authority: new(true), CertDays: 6}
	bob := func(change func(*symbiov1.Node)) *symbiov1.Node {
		n := &symbiov1.Node{Id: "00000000000000000000000000000002", Name: "bob", State: connected, Via: new("dialled"), Addr: "192.0.2.1:7946", CertDays: 6,
			ClockAhead: new(0.2), Labels: map[string]string{"version": "v1", "draining": "true"}}
		change(n)
		return n
	}
	for want, n := range map[string]*symbiov1.Node{
		"":                   bob(func(*symbiov1.Node) {}),
		"renewed before":     bob(func(n *symbiov1.Node) { n.CertDays = 2 }),
		"+90 seconds":        bob(func(n *symbiov1.Node) { n.ClockAhead = new(90.0) }),
		"-90 seconds":        bob(func(n *symbiov1.Node) { n.ClockAhead = new(-90.0) }),
		"refused: it is old": bob(func(n *symbiov1.Node) { n.State, n.Why = "refused", new("it is old") }),
		"cannot be reached":  bob(func(n *symbiov1.Node) { n.State = "unavailable" }),
		"have this name":     bob(func(n *symbiov1.Node) { n.Name = "ann" }),
	} {
		s := Status{Node: "ann", ID: self, Authority: true}
		if err := s.examine(statedir.Dir(t.TempDir()), []*symbiov1.Node{ann, n}, nil, 0); err != nil {
			t.Fatal(err)
		}
		if len(s.Nodes) != 2 || !s.Nodes[1].Draining || s.Nodes[1].Version != "v1" {
			t.Errorf("%q: nodes %+v", want, s.Nodes)
		}
		if (want == "") != (len(s.Problems) == 0) {
			t.Errorf("%q: problems %+v", want, s.Problems)
		}
		for _, p := range s.Problems {
			if !strings.Contains(p.Why, want) || p.Fix == "" {
				t.Errorf("%q: %+v", want, p)
			}
		}
	}
	s := Status{Node: "ann", ID: self}
	if err := s.examine(statedir.Dir(t.TempDir()), []*symbiov1.Node{{Id: self, Name: "ann", State: "self"}}, nil, 0); err != nil ||
		len(s.Problems) != 1 || !strings.Contains(s.Problems[0].Why, "no machine with the authority") {
		t.Errorf("without a holder: %+v, %v", s.Problems, err)
	}
	s = Status{Node: "ann", ID: self, Overdue: "late", Refused: "removed", Authority: true}
	if err := s.examine(statedir.Dir(t.TempDir()), []*symbiov1.Node{ann}, nil, 0); err != nil || len(s.Problems) != 2 {
		t.Errorf("of this node: %+v, %v", s.Problems, err)
	}
}
