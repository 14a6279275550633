package identity_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/security/identity"
)

func TestOpenTokensAreListedAndRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := found(t, "home")
		token := f.token(t, 2*time.Hour, "worker")
		time.Sleep(time.Minute)
		kept := f.token(t, time.Hour, "")
		open, err := f.Ledger().OpenTokens()
		if err != nil || len(open) != 2 || open[0].Role != "node" || open[1].Role != "worker" || open[0].Created.Sub(open[1].Created) != time.Minute ||
			open[0].Expires.Sub(open[0].Created) != time.Hour {
			t.Fatalf("open are %+v, %v", open, err)
		}
		if strings.Contains(token.Text(), open[1].ID) || len(open[1].ID) != 16 {
			t.Errorf("%q shows something of the secret", open[1].ID)
		}
		if err := f.Ledger().RevokeToken(open[1].ID); err != nil {
			t.Fatal(err)
		}
		if _, err := f.ask(t, token, key(t)); !errors.Is(err, identity.ErrTokenExpired) || !strings.Contains(err.Error(), "it was revoked at") {
			t.Errorf("with the revoked one: %v", err)
		}
		if _, err := f.ask(t, kept, key(t)); err != nil {
			t.Errorf("with the other one: %v", err)
		}
		if open, err := f.Ledger().OpenTokens(); len(open) != 0 || err != nil {
			t.Errorf("open are %+v, %v", open, err)
		}
		if err := f.Ledger().RevokeToken("0000000000000000"); !errors.Is(err, identity.ErrTokenUnknown) {
			t.Errorf("one that nobody made: %v", err)
		}
	})
}

func TestNodeOfTheAuthoritysMachineTakesNoUsedName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := found(t, "home")
		if _, err := f.Issue(key(t), "seed"); !errors.Is(err, identity.ErrNameTaken) || !strings.Contains(err.Error(), "symbio up --name NAME") {
			t.Errorf("got %v, want %v and what to do", err, identity.ErrNameTaken)
		}
		if err := f.Ledger().NoteLeft(f.seed.ID()); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Issue(key(t), "seed"); err != nil {
			t.Errorf("after that node has left: %v", err)
		}
	})
}

func TestAuthorityIsGivenUp(t *testing.T) {
	f := found(t, "home")
	carl, _ := f.join(t, "")
	bob, bobDir := f.join(t, "worker")
	second, err := f.promote(t, bob)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(carl.ID()); err != nil {
		t.Fatal(err)
	}
	k, dir, stranger := key(t), filepath.Join(t.TempDir(), "member"), filepath.Join(t.TempDir(), "stranger")
	if _, err := f.Issue(k, "desk"); err != nil {
		t.Fatal(err)
	}
	if err := f.Ledger().GiveUp(map[string]*identity.Key{dir: k, stranger: key(t)}); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.OpenCluster(f.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the authority is still there: %v", err)
	}
	desk, err := identity.OpenMember(dir, k)
	if err != nil {
		t.Fatal(err)
	}
	if desk.Cluster() != nil || !desk.Revocations().Has(carl.ID()) {
		t.Errorf("the node holds the authority: %t, or forgot who was removed", desk.Cluster() != nil)
	}
	trusts(t, desk, bob)
	if _, err := identity.OpenMember(stranger, key(t)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a node that was never of the cluster is a member: %v", err)
	}
	request, err := desk.RenewRequest()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Renew(identity.Peer{ID: desk.ID(), Authority: "home", Role: "node"}, request); err != nil {
		t.Errorf("the other holder does not renew it: %v", err)
	}
	if _, err := identity.MemberOf(bobDir); err != nil {
		t.Error(err)
	}
}

func TestRecordSaysWhetherAHolderGaveUp(t *testing.T) {
	f := found(t, "home")
	bob, _ := f.join(t, "")
	carl, _ := f.join(t, "")
	if _, err := f.promote(t, bob); err != nil {
		t.Fatal(err)
	}
	holds := func(id identity.NodeID) bool {
		t.Helper()
		all, err := f.Nodes()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if r.ID == id {
				return r.IsHolder()
			}
		}
		return false
	}
	for _, gaveUp := range []bool{false, true, true, false} {
		for _, id := range []identity.NodeID{bob.ID(), carl.ID(), "00000000000000000000000000000000"} {
			if err := f.Ledger().NoteGivenUp(id, gaveUp); err != nil {
				t.Fatal(err)
			}
		}
		if holds(bob.ID()) == gaveUp || holds(carl.ID()) {
			t.Errorf("gave up %t: bob holds it %t, carl %t", gaveUp, holds(bob.ID()), holds(carl.ID()))
		}
	}
	if err := f.Ledger().NoteGivenUp(bob.ID(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := f.promote(t, bob); err != nil || !holds(bob.ID()) {
		t.Errorf("promoted again: %v, holds it %t", err, holds(bob.ID()))
	}
}
