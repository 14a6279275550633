package identity_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

func TestAssignedRoleCountsInPlaceOfCertificate(t *testing.T) {
	f := found(t, "home")
	bob, dir := f.join(t, "worker", "room=kitchen")
	eve, _ := f.join(t, "worker")
	was := identity.Peer{ID: bob.ID(), Authority: "home", Role: "worker", Labels: "room=kitchen"}
	want := was
	want.Role, want.Labels = "admin", "gpu=1,room=cellar"
	for _, wrong := range []error{f.Ledger().Assign(bob.ID(), "No Role", nil), f.Ledger().Assign(bob.ID(), "x", []string{"Room=x"})} {
		if !errors.Is(wrong, identity.ErrRole) && !errors.Is(wrong, identity.ErrLabel) {
			t.Errorf("a wrong one: %v", wrong)
		}
	}
	if err := f.Ledger().Assign(bob.ID(), "admin", []string{"room=cellar", "gpu=1"}); err != nil {
		t.Fatal(err)
	}
	first, _ := f.Revocations().Current()
	for name, r := range map[string]*identity.Revocations{"where it was made": f.Revocations(), "another node": eve.Revocations(), "the node itself": bob.Revocations()} {
		if _, err := r.Update(first); err != nil || r.Assigned(was) != want {
			t.Errorf("%s: %+v, %v; want %+v", name, r.Assigned(was), err, want)
		}
		if other := (identity.Peer{ID: eve.ID(), Role: "worker"}); r.Assigned(other) != other {
			t.Errorf("%s: a node without one is %+v", name, r.Assigned(other))
		}
	}
	again, err := identity.Reopen(dir, bob)
	if err != nil || again.Revocations().Assigned(was) != want {
		t.Errorf("after a restart: %v, %+v", err, again)
	}
	reopened, err := identity.OpenCluster(f.dir)
	if err != nil || reopened.Revocations().Assigned(was) != want {
		t.Errorf("the authority after a restart: %v", err)
	}

	// A later one counts, and an older list does not bring back what was.
	if err := f.Ledger().Assign(bob.ID(), "node", nil); err != nil {
		t.Fatal(err)
	}
	second, _ := f.Revocations().Current()
	want.Role, want.Labels = "node", ""
	for _, list := range []*pb.Revocations{second, first, second} {
		if _, err := eve.Revocations().Update(list); err != nil {
			t.Fatal(err)
		}
	}
	if got := eve.Revocations().Assigned(was); got != want {
		t.Errorf("after a second one: %+v, want %+v", got, want)
	}
	if lists, _ := eve.Revocations().Lists(); len(lists) != 1 {
		t.Errorf("%d lists are kept, want 1", len(lists))
	}
	if err := f.Remove(bob.ID()); err != nil {
		t.Fatal(err)
	}
	if list, _ := f.Revocations().Current(); len(list.GetAssignments()) != 0 || !f.Revocations().Has(bob.ID()) {
		t.Errorf("of a removed node there is %v", list)
	}
}

func TestAssignmentsOfTwoHoldersAreMerged(t *testing.T) {
	f := found(t, "home")
	bob, _ := f.join(t, "")
	second, err := f.promote(t, bob)
	if err != nil {
		t.Fatal(err)
	}
	ann, carl := identity.Peer{ID: f.seed.ID(), Role: "node"}, identity.Peer{ID: bob.ID(), Role: "node"}
	for _, err := range []error{f.Ledger().Assign(ann.ID, "a", nil), second.Ledger().Assign(carl.ID, "b", nil), second.Ledger().Assign(ann.ID, "c", nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	one, _ := f.Revocations().Current()
	other, _ := second.Revocations().Current()
	if _, err := f.Revocations().Update(other); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Revocations().Update(one); err != nil {
		t.Fatal(err)
	}
	merged, _ := f.Revocations().Current()
	if _, err := second.Revocations().Update(merged); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*identity.Revocations{"the first": f.Revocations(), "the second": second.Revocations()} {
		lists, _ := r.Lists()
		if r.Assigned(ann).Role != "c" || r.Assigned(carl).Role != "b" || len(lists) != 1 {
			t.Errorf("%s has %s, %s, and %d lists", name, r.Assigned(ann).Role, r.Assigned(carl).Role, len(lists))
		}
	}
}

func TestAssignmentsOfOthersThanTheAuthorityAreRefused(t *testing.T) {
	f, away := found(t, "home"), found(t, "away")
	bob, _ := f.join(t, "worker")
	was := identity.Peer{ID: bob.ID(), Role: "worker"}
	for _, c := range []founded{f, away} {
		if err := c.Ledger().Assign(bob.ID(), "admin", []string{"room=cellar"}); err != nil {
			t.Fatal(err)
		}
	}
	good, _ := f.Revocations().Current()
	foreign, _ := away.Revocations().Current()
	for name, tamper := range map[string]func(*pb.Revocations){
		"another role":      func(l *pb.Revocations) { l.Assignments[0].Role = "root" },
		"another node":      func(l *pb.Revocations) { l.Assignments[0].Node = string(f.seed.ID()) },
		"other labels":      func(l *pb.Revocations) { l.Assignments[0].Labels = nil },
		"a later instant":   func(l *pb.Revocations) { l.Assignments[0].Since++ },
		"twice":             func(l *pb.Revocations) { l.Assignments = append(l.Assignments, l.Assignments[0]) },
		"another cluster's": func(l *pb.Revocations) { l.Assignments = foreign.Assignments },
		"too large":         func(l *pb.Revocations) { l.Assignments[0].Signature = make([]byte, 300<<10) },
	} {
		list := proto.CloneOf(good)
		tamper(list)
		if took, err := bob.Revocations().Update(list); took || err == nil || bob.Revocations().Assigned(was) != was {
			t.Errorf("%s: taken %t, %v, and the node is %+v", name, took, err, bob.Revocations().Assigned(was))
		}
	}
	// A node can leave them out, which holds nothing up for long.
	bare := proto.CloneOf(good)
	bare.Assignments = nil
	for _, list := range []*pb.Revocations{bare, good, bare} {
		if _, err := bob.Revocations().Update(list); err != nil {
			t.Fatal(err)
		}
	}
	if lists, _ := bob.Revocations().Lists(); bob.Revocations().Assigned(was).Role != "admin" || len(lists) != 1 {
		t.Errorf("after a list without them: %+v, %d lists", bob.Revocations().Assigned(was), len(lists))
	}
}
