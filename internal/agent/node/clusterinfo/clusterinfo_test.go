package clusterinfo_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/internal/agent/node/clusterinfo"
	statedir "symbio/internal/agent/node/state"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

var errNotRunning = errors.New("no node is running")

// cluster makes a cluster with one node, a, and returns where its state is and the node's id.
func cluster(t *testing.T) (state statedir.Dir, id string) {
	t.Helper()
	state = statedir.Dir(t.TempDir())
	i, err := state.Node("a").InitCluster("lan", "")
	if err != nil {
		t.Fatal(err)
	}
	return state, string(i.ID())
}

func TestFind(t *testing.T) {
	state, id := cluster(t)
	c, err := state.OpenCluster()
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("e", len(id))
	live := []*symbiov1.Node{{Id: other, Name: "b", State: "connected", Authority: new(true)}, {Id: strings.Repeat("f", len(id)), Name: "c", State: "unavailable"}}
	for what, want := range map[string]string{"a": id, id: id, id[:6]: id, id[:5]: "", "b": other, "eeeeee": other, "c": "", "nobody": "", strings.Repeat("d", len(id)): strings.Repeat("d", len(id))} {
		r, err := clusterinfo.Find(c, what, func() ([]*symbiov1.Node, error) { return live, nil })
		if r.ID != identity.NodeID(want) || (err != nil) != (want == "") || want == "" && status.Code(err) != codes.NotFound {
			t.Errorf("%q is %q (%v), want %q", what, r.ID, err, want)
		}
		if r.Holds != (want == other || want == id && r.Holds) {
			t.Errorf("%q holds the authority: %t", what, r.Holds)
		}
	}
	if _, err := clusterinfo.Find(c, "b", func() ([]*symbiov1.Node, error) { return nil, errNotRunning }); status.Code(err) != codes.NotFound {
		t.Errorf("without a running node: %v", err)
	}
}

func TestFindTakesTheNodeThatJoinedAgain(t *testing.T) {
	state, id := cluster(t)
	c, err := state.OpenCluster()
	if err != nil {
		t.Fatal(err)
	}
	before, err := identity.LoadOrCreateKey(t.TempDir() + "/key.pem")
	if err != nil {
		t.Fatal(err)
	}
	old, err := c.Issue(before, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(old.ID()); err != nil {
		t.Fatal(err)
	}
	if r, err := clusterinfo.Find(c, "a", nil); err != nil || string(r.ID) != id {
		t.Errorf("a is %q (%v), want %q, which was not removed", r.ID, err, id)
	}
}

func TestNodes(t *testing.T) {
	state, id := cluster(t)
	alone, err := clusterinfo.Nodes(state, nil, errNotRunning)
	if err != nil || len(alone) != 1 || alone[0].ID != id || alone[0].State != clusterinfo.Unknown || alone[0].Expires.IsZero() {
		t.Errorf("without a running node: %+v, %v", alone, err)
	}
	live := []*symbiov1.Node{{Id: id, Name: "a", State: "self"}, {Id: "b1", Name: "b", State: "connected"}, {Id: "c1", Name: "c", State: "left"}}
	all, err := clusterinfo.Nodes(state, live, nil)
	if err != nil || len(all) != 2 || all[0].State != "self" || all[1].Name != "b" {
		t.Errorf("with one: %+v, %v", all, err)
	}
	elsewhere, err := clusterinfo.Nodes(statedir.Dir(t.TempDir()), live, nil)
	if err != nil || len(elsewhere) != 3 {
		t.Errorf("without the authority: %+v, %v", elsewhere, err)
	}
}

func TestLook(t *testing.T) {
	state, id := cluster(t)
	s, err := clusterinfo.Look(t.Context(), state, "a")
	if err != nil || s.Cluster != "lan" || !s.Authority || s.ID != id || s.Days < 1 || len(s.Holders) != 1 || s.Holders[0].State != clusterinfo.Unknown {
		t.Errorf("got %+v, %v", s, err)
	}
	if _, err := clusterinfo.Look(t.Context(), state, "b"); !errors.Is(err, statedir.ErrNoCluster) {
		t.Errorf("a node of no cluster: %v", err)
	}
}
