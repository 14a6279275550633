package clusterinfo_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	if err := c.Remove(identity.NodeID(id)); err != nil {
		t.Fatal(err)
	}
	key, err := identity.LoadOrCreateKey(t.TempDir() + "/key.pem")
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Issue(key, "a")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := clusterinfo.Find(c, "a", nil); err != nil || r.ID != again.ID() {
		t.Errorf("a is %q (%v), want %q, which was not removed", r.ID, err, again.ID())
	}
}

func TestNodes(t *testing.T) {
	state, id := cluster(t)
	alone, err := clusterinfo.Nodes(state, nil, errNotRunning, -1)
	if err != nil || len(alone) != 1 || alone[0].ID != id || alone[0].State != clusterinfo.Unknown || alone[0].Expires.IsZero() {
		t.Errorf("without a running node: %+v, %v", alone, err)
	}
	live := []*symbiov1.Node{{Id: id, Name: "a", State: "self"}, {Id: "b1", Name: "b", State: "connected"}, {Id: "c1", Name: "c", State: "left"}}
	all, err := clusterinfo.Nodes(state, live, nil, -1)
	if err != nil || len(all) != 2 || all[0].State != "self" || all[1].Name != "b" {
		t.Errorf("with one: %+v, %v", all, err)
	}
	elsewhere, err := clusterinfo.Nodes(statedir.Dir(t.TempDir()), live, nil, -1)
	if err != nil || len(elsewhere) != 3 {
		t.Errorf("without the authority: %+v, %v", elsewhere, err)
	}
}

func TestLook(t *testing.T) {
	state, id := cluster(t)
	s, err := clusterinfo.Look(t.Context(), state, "a", 0)
	if len(s.Problems) != 1 || s.Problems[0].Fix != "symbio up" || s.Nodes == nil {
		t.Errorf("without a running node: problems %+v, nodes %v", s.Problems, s.Nodes)
	}
	if err != nil || s.Cluster != "lan" || !s.Authority || s.ID != id || s.Days < 1 || len(s.Holders) != 1 || s.Holders[0].State != clusterinfo.Unknown {
		t.Errorf("got %+v, %v", s, err)
	}
	if _, err := clusterinfo.Look(t.Context(), state, "b", 0); !errors.Is(err, statedir.ErrNoCluster) {
		t.Errorf("a node of no cluster: %v", err)
	}
}

func TestNodeThatCannotComeBackAgesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const grace = 30 * 24 * time.Hour
		state, _ := cluster(t)
		c, err := state.OpenCluster()
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, name := range []string{"gone", "removed"} {
			k, err := identity.LoadOrCreateKey(t.TempDir() + "/key.pem")
			if err != nil {
				t.Fatal(err)
			}
			i, err := c.Issue(k, name)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, string(i.ID()))
		}
		if err := c.Remove(identity.NodeID(ids[1])); err != nil {
			t.Fatal(err)
		}
		listed := func(grace time.Duration, live ...*symbiov1.Node) (names []string) {
			all, err := clusterinfo.Nodes(state, live, nil, grace)
			if err != nil {
				t.Error(err)
			}
			for _, n := range all {
				if n.Name != "a" {
					names = append(names, n.Name)
				}
			}
			slices.Sort(names)
			return names
		}
		for _, tt := range []struct {
			after time.Duration
			want  string
		}{{6 * 24 * time.Hour, "gone removed"}, {2 * 24 * time.Hour, "gone"}, {grace - 2*24*time.Hour, "gone"}, {2 * 24 * time.Hour, ""}} {
			time.Sleep(tt.after)
			if got := strings.Join(listed(grace), " "); got != tt.want {
				t.Errorf("listed: %q, want %q", got, tt.want)
			}
		}
		if got := listed(-1); len(got) != 2 {
			t.Errorf("with all: %q", got)
		}
		if got := listed(grace, &symbiov1.Node{Id: ids[0], Name: "gone", State: "connected"}); len(got) != 1 {
			t.Errorf("one that is connected: %q", got)
		}
	})
}
