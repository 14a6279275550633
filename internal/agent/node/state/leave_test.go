package state_test

import (
	"path/filepath"
	"strings"
	"testing"

	"symbio/internal/agent/node/state"
	"symbio/security/identity"
)

// A machine with the authority leaves when no other node needs it, or another machine holds it. The
// authority is set aside, so the machine is outside of the cluster from then on.
func TestMachineWithTheAuthorityLeaves(t *testing.T) {
	s := state.Dir(t.TempDir())
	a := s.Node("a")
	if _, err := a.InitCluster("lab", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	c, err := s.OpenCluster()
	if err != nil {
		t.Fatal(err)
	}
	other, err := identity.LoadOrCreateKey(filepath.Join(t.TempDir(), "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Issue(other, "b"); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := a.LeaveCluster(); err == nil || !strings.Contains(err.Error(), "symbio cluster promote NODE") {
		t.Fatal(err)
	}
	if err := c.Remove(other.ID()); err != nil {
		t.Fatal(err)
	}
	if cluster, _, advice, err := a.LeaveCluster(); !strings.Contains(advice, "kept with the old key, in authority;") || err != nil || cluster != "lab" {
		t.Fatal(cluster, err)
	}
	if _, err := s.OpenCluster(); err == nil {
		t.Error("the authority is still there")
	}
	if _, err := a.InitCluster("next", "127.0.0.1:0"); err != nil {
		t.Error(err)
	}
}

// Of two nodes of one machine each can leave, and the authority stays for the other.
func TestAuthorityStaysForAnotherNodeOfTheMachine(t *testing.T) {
	s := state.Dir(t.TempDir())
	a, b := s.Node("a"), s.Node("b")
	if _, err := a.InitCluster("lab", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	old, err := b.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, advice, err := b.LeaveCluster(); err != nil || !strings.Contains(advice, "the authority of cluster lab stays on this machine, for node a;") {
		t.Errorf("%q, %v", advice, err)
	}
	c, err := s.OpenCluster()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(old.ID()); err != nil {
		t.Fatal(err)
	}
	if _, _, advice, err := a.LeaveCluster(); err != nil || !strings.Contains(advice, "kept with the old key, in authority;") {
		t.Errorf("the last one: %q, %v", advice, err)
	}
}
