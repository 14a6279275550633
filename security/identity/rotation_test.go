package identity_test

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// rotate makes the nodes go through the stages up to last, as connections do.
func rotate(t *testing.T, holder *identity.Identity, last identity.Stage, nodes ...*identity.Identity) {
	t.Helper()
	if err := holder.Rotation().Begin(false); err != nil {
		t.Fatal(err)
	}
	for stage := identity.StageTrust; ; stage++ {
		if got := holder.Rotation().State().Stage; got != stage {
			t.Fatalf("the holder is at stage %d, want %d", got, stage)
		}
		for _, n := range nodes {
			if took, err := n.Rotation().Take(holder.Rotation().Standing().GetSuccession()); !took || err != nil {
				t.Fatalf("stage %d was taken: %t, %v", stage, took, err)
			}
			if stage == identity.StageCertify {
				renewAt(t, holder, n)
			}
		}
		if stage == last {
			return
		}
		if err := holder.Rotation().Advance(stage); err != nil {
			t.Fatal(err)
		}
	}
}

// renewAt renews a node whose certificate is of an authority that was replaced.
func renewAt(t *testing.T, holder, n *identity.Identity) {
	t.Helper()
	if !n.Due() {
		t.Fatal("a node is not due though its authority was replaced")
	}
	if here, err := n.RenewHere(); here {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	request, err := n.RenewRequest()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := holder.Cluster().Renew(identity.Peer{ID: n.ID(), Authority: "home", Role: "node"}, request)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Renewed(reply); err != nil || n.Due() {
		t.Fatalf("renewed: %v, and it is due again: %t", err, n.Due())
	}
}

// late renews a node over a connection of the protocol of joins.
func late(t *testing.T, holder, n *identity.Identity) error {
	t.Helper()
	s, _, serverErr, clientErr := handshake(t, holder.JoinTLS(), n.ProtocolClientTLS(identity.JoinProtocol, holder.ID()))
	if err := errors.Join(serverErr, clientErr); err != nil {
		return err
	}
	request, err := n.RenewRequest()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := holder.Cluster().RenewLate(s, request, identity.Grace)
	if err != nil {
		return err
	}
	return n.Renewed(reply)
}

func TestAuthorityIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := found(t, "home")
		bob, bobDir := f.join(t, "")
		off, offDir := f.join(t, "")
		gone, _ := f.join(t, "")
		if err := f.Remove(gone.ID()); err != nil {
			t.Fatal(err)
		}
		list, _ := f.Revocations().Current()
		if _, err := bob.Revocations().Update(list); err != nil {
			t.Fatal(err)
		}
		token, tag := f.token(t, 0, ""), f.Tag()
		oldKey, err := os.ReadFile(filepath.Join(f.dir, "authority.pem"))
		if err != nil {
			t.Fatal(err)
		}

		rotate(t, f.seed, identity.StageTrust, bob)
		trusts(t, f.seed, bob)
		trusts(t, off, bob)
		if bob.Due() {
			t.Error("a node is due before certificates are by the new authority")
		}
		if err := f.seed.Rotation().Advance(identity.StageTrust); err != nil {
			t.Fatal(err)
		}
		if _, err := bob.Rotation().Take(f.seed.Rotation().Standing().GetSuccession()); err != nil {
			t.Fatal(err)
		}
		renewAt(t, f.seed, bob)
		trusts(t, f.seed, bob)
		trusts(t, off, f.seed) // which shows its old certificate
		trusts(t, f.seed, off)
		if _, _, _, err := handshake(t, bob.ServerTLS(), off.ClientTLS("")); err == nil {
			t.Error("a node that knows nothing of the new authority trusts it")
		}
		if _, err := f.ask(t, token, key(t)); err != nil {
			t.Errorf("a token of the old authority: %v", err)
		}

		list, _ = f.Revocations().Current()
		if _, err := bob.Revocations().Update(list); err != nil || !bob.Revocations().Has(gone.ID()) {
			t.Errorf("the list of the new authority: %v", err)
		}
		if err := f.seed.Rotation().Advance(identity.StageCertify); err != nil {
			t.Fatal(err)
		}
		if _, err := bob.Rotation().Take(f.seed.Rotation().Standing().GetSuccession()); err != nil {
			t.Fatal(err)
		}
		trusts(t, f.seed, bob)
		newKey, err := os.ReadFile(filepath.Join(f.dir, "authority.pem"))
		if err != nil || string(newKey) == string(oldKey) {
			t.Errorf("the file of the authority has the old key: %v", err)
		}
		if _, err := os.Stat(filepath.Join(f.dir, "next.pem")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the new key is in two files: %v", err)
		}
		if _, err := f.ask(t, token, key(t)); !errors.Is(err, identity.ErrTokenUsed) {
			t.Errorf("a token of the old authority that is used up: %v", err)
		}
		for name, token := range map[string]identity.Token{"new": f.token(t, 0, ""), "old": token} {
			if !token.Fits(bobDir) {
				t.Errorf("the %s token is not of bob's cluster", name)
			}
		}

		// A node that was off has a certificate that no node trusts, and gets the next one.
		if _, _, err, _ := handshake(t, bob.ServerTLS(), off.ClientTLS("")); err == nil {
			t.Error("the old authority is still trusted")
		}
		time.Sleep(20 * 24 * time.Hour)
		if err := late(t, f.seed, off); err != nil {
			t.Fatalf("the node that was off: %v", err)
		}
		renewBoth := func(n *identity.Identity) {
			if n.Expired() {
				if err := late(t, f.seed, n); err != nil {
					t.Fatal(err)
				}
			}
		}
		renewBoth(bob)
		trusts(t, off, bob)

		// As processes that start anew have it.
		c, err := identity.OpenCluster(f.dir)
		if err != nil || c.Tag() != tag || !c.Revocations().Has(gone.ID()) {
			t.Fatalf("the cluster opened again: %v", err)
		}
		seed, err := c.Issue(identity.KeyOf(f.seed), "seed")
		if err != nil {
			t.Fatal(err)
		}
		for name, dir := range map[string]string{"bob": bobDir, "off": offDir} {
			was := map[string]*identity.Identity{"bob": bob, "off": off}[name]
			again, err := identity.Reopen(dir, was)
			if err != nil {
				t.Fatalf("%s opened again: %v", name, err)
			}
			trusts(t, seed, again)
			if again.Tag() != tag || again.Due() {
				t.Errorf("%s has tag %s and is due: %t; want %s", name, again.Tag(), again.Due(), tag)
			}
		}

		// And once more.
		if err := seed.Rotation().Begin(false); !errors.Is(err, identity.ErrRotating) {
			t.Errorf("a second rotation while nodes may come back: %v", err)
		}
		if err := seed.Rotation().Begin(true); err != nil {
			t.Errorf("a second rotation: %v", err)
		}
	})
}

func TestNodeThatComesTooLateAfterARotationJoinsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := found(t, "home")
		off, _ := f.join(t, "")
		rotate(t, f.seed, identity.StageDone)
		time.Sleep(identity.LateRenewal + 8*24*time.Hour)
		if err := late(t, f.seed, off); err == nil {
			t.Error("it was renewed")
		}
	})
}

// The second holder was restarted in the middle, and the first one is gone at the end.
func TestHolderGoesOnWithTheKeyOfTheNewAuthority(t *testing.T) {
	f := found(t, "home")
	bob, bobDir := f.join(t, "")
	second, err := f.promote(t, bob)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.seed.Rotation().Begin(false); err != nil {
		t.Fatal(err)
	}
	if f.seed.Rotation().Standing().GetHasKey() != true {
		t.Error("the node that begins has no key")
	}
	entrust(t, f.seed, bob, second.dir)
	if !bob.Rotation().Standing().GetHasKey() {
		t.Fatal("the second holder has no key of the new authority")
	}
	c, err := identity.OpenCluster(second.dir)
	if err != nil {
		t.Fatal(err)
	}
	if bob, err = identity.ReopenAt(c, bobDir, bob); err != nil {
		t.Fatal(err)
	}
	if err := bob.Rotation().Advance(identity.StageTrust); err != nil {
		t.Fatal(err)
	}
	if here, err := bob.RenewHere(); !here || err != nil || bob.Due() {
		t.Errorf("the holder renewed itself: %t, %v, and is due: %t", here, err, bob.Due())
	}
	trusts(t, f.seed, bob)
	if _, err := f.seed.Rotation().Take(bob.Rotation().Standing().GetSuccession()); err != nil {
		t.Fatal(err)
	}
	trusts(t, f.seed, bob)
	if err := bob.Rotation().Advance(identity.StageCertify); err != nil {
		t.Fatal(err)
	}
	if c, err = identity.OpenCluster(second.dir); err != nil {
		t.Fatal(err)
	}
	if bob, err = identity.ReopenAt(c, bobDir, bob); err != nil {
		t.Fatal(err)
	}
	third := founded{bob.Cluster(), second.dir, bob}
	carl, _ := third.join(t, "")
	trusts(t, carl, bob)
}

// entrust sends what a holder has to another node.
func entrust(t *testing.T, from, to *identity.Identity, dir string) {
	t.Helper()
	r, key, err := to.Prepare(from.ID())
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := from.Cluster().Entrust(from.ID(), to.ID(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Take(sealed, dir); err != nil {
		t.Fatal(err)
	}
}

func TestHolderWithoutTheNewKeyIsAMember(t *testing.T) {
	f := found(t, "home")
	bob, bobDir := f.join(t, "")
	second, err := f.promote(t, bob)
	if err != nil {
		t.Fatal(err)
	}
	rotate(t, f.seed, identity.StageCertify, bob)
	if bob.Cluster() != nil {
		t.Error("it holds an authority of which it has no key")
	}
	if _, err := identity.OpenCluster(second.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opened: %v", err)
	}
	if again, err := identity.Reopen(bobDir, bob); err != nil || again.Due() {
		t.Errorf("opened again: %v", err)
	}
}

func TestOfTwoRotationsOneGoesOn(t *testing.T) {
	for range 4 { // the winner is by chance
		f := found(t, "home")
		bob, _ := f.join(t, "")
		carl, _ := f.join(t, "")
		second, err := f.promote(t, bob)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []*identity.Identity{f.seed, bob} {
			if err := n.Rotation().Begin(false); err != nil {
				t.Fatal(err)
			}
		}
		// Each tells the others, in every order.
		one, other := f.seed.Rotation().Standing(), bob.Rotation().Standing()
		for _, n := range []*identity.Identity{carl, f.seed, bob} {
			for _, s := range []*pb.Standing{one, other} {
				if _, err := n.Rotation().Take(s.GetSuccession()); err != nil {
					t.Fatal(err)
				}
			}
		}
		won := carl.Rotation().State().Successor
		winner, loser, dir := f.seed, bob, second.dir
		if bob.Rotation().Standing().GetHasKey() {
			winner, loser, dir = bob, f.seed, f.dir
		}
		if f.seed.Rotation().State().Successor != won || bob.Rotation().State().Successor != won || loser.Rotation().Standing().GetHasKey() {
			t.Fatal("the nodes do not agree on one")
		}
		if err := loser.Rotation().Advance(identity.StageTrust); err != nil || carl.Rotation().State().Stage != identity.StageTrust {
			t.Errorf("a holder without the key went on: %v", err)
		}
		entrust(t, winner, loser, dir)
		for _, stage := range []identity.Stage{identity.StageTrust, identity.StageCertify} {
			if err := loser.Rotation().Advance(stage); err != nil {
				t.Fatal(err)
			}
			for _, n := range []*identity.Identity{winner, carl} {
				if _, err := n.Rotation().Take(loser.Rotation().Standing().GetSuccession()); err != nil {
					t.Fatal(err)
				}
				if stage == identity.StageTrust && n == carl {
					renewAt(t, loser, n)
				}
			}
		}
		trusts(t, carl, f.seed)
	}
}

func TestHostileSuccessionIsRefused(t *testing.T) {
	f, away := found(t, "home"), found(t, "home")
	bob, _ := f.join(t, "")
	rotate(t, f.seed, identity.StageTrust)
	rotate(t, away.seed, identity.StageTrust)
	good, foreign := f.seed.Rotation().Standing().GetSuccession(), away.seed.Rotation().Standing().GetSuccession()
	for name, change := range map[string]func(*pb.Succession){
		"not signed by the old authority": func(s *pb.Succession) { s.OldSignature = make([]byte, 64) },
		"not signed by the new authority": func(s *pb.Succession) { s.NewSignature = s.GetOldSignature() },
		"another new authority":           func(s *pb.Succession) { s.New, s.NewSignature = foreign.GetNew(), foreign.GetNewSignature() },
		"another cluster's":               func(s *pb.Succession) { proto.Reset(s); proto.Merge(s, foreign) },
		"a later stage":                   func(s *pb.Succession) { s.Stage = 3 },
		"no stage":                        func(s *pb.Succession) { s.Stage = 0 },
		"a stage that does not exist":     func(s *pb.Succession) { s.Stage = 4 },
		"another instant":                 func(s *pb.Succession) { s.Since = timestamppb.New(s.GetSince().AsTime().Add(-time.Hour)) },
		"no instant":                      func(s *pb.Succession) { s.Since = nil },
		"a leaf in place of an authority": func(s *pb.Succession) { s.New, _ = f.seed.Certificate() },
		"a long certificate":              func(s *pb.Succession) { s.New = make([]byte, 1<<20) },
	} {
		s := proto.CloneOf(good)
		change(s)
		if took, err := bob.Rotation().Take(s); took || !errors.Is(err, identity.ErrSuccession) {
			t.Errorf("%s: taken %t, %v; want %v", name, took, err, identity.ErrSuccession)
		}
	}
	if bob.Rotation().State().Stage != identity.StageNone {
		t.Fatal("a hostile succession has an effect")
	}
	// Old messages are of no effect later.
	messages := []*pb.Succession{good}
	for _, from := range []identity.Stage{identity.StageTrust, identity.StageCertify} {
		if err := f.seed.Rotation().Advance(from); err != nil {
			t.Fatal(err)
		}
		messages = append(messages, f.seed.Rotation().Standing().GetSuccession())
	}
	for n, m := range messages {
		if _, err := bob.Rotation().Take(m); err != nil {
			t.Fatal(err)
		}
		for _, old := range messages[:n+1] {
			if took, err := bob.Rotation().Take(old); took || err != nil {
				t.Errorf("stage %d after stage %d: taken %t, %v", old.GetStage(), m.GetStage(), took, err)
			}
		}
	}
	if err := f.seed.Rotation().Begin(true); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Rotation().Take(f.seed.Rotation().Standing().GetSuccession()); err != nil {
		t.Fatal(err)
	}
	for _, old := range messages {
		if took, _ := bob.Rotation().Take(old); took {
			t.Errorf("stage %d of the rotation before was taken", old.GetStage())
		}
	}
}

// A copy of the old key admits no node after the rotation.
func TestOldKeyIsOfNoUseAfterTheRotation(t *testing.T) {
	f := found(t, "home")
	stolen := t.TempDir()
	data, err := os.ReadFile(filepath.Join(f.dir, "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stolen, "authority.pem"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	bob, _ := f.join(t, "")
	rotate(t, f.seed, identity.StageDone, bob)
	thief, err := identity.OpenCluster(stolen)
	if err != nil {
		t.Fatal(err)
	}
	eve, err := thief.Issue(key(t), "eve")
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]*tls.Config{"bob": bob.ServerTLS(), "the holder": f.seed.ServerTLS()} {
		if _, _, err, _ := handshake(t, to, eve.ClientTLS("")); err == nil {
			t.Errorf("%s trusts a certificate of the old key", name)
		}
	}
	if err := late(t, f.seed, eve); !errors.Is(err, identity.ErrExpired) {
		t.Errorf("a certificate of the old key was renewed: %v", err)
	}
}

func TestLockedAuthorityIsNotRotated(t *testing.T) {
	f := found(t, "home")
	if err := f.Key().Lock("a passphrase that is long"); err != nil {
		t.Fatal(err)
	}
	if err := f.seed.Rotation().Begin(false); !errors.Is(err, identity.ErrLocked) {
		t.Errorf("a locked authority: %v", err)
	}
	g := found(t, "away")
	rotate(t, g.seed, identity.StageTrust)
	if err := g.Key().Lock("a passphrase that is long"); !errors.Is(err, identity.ErrRotating) {
		t.Errorf("locked during a rotation: %v", err)
	}
	if err := g.Ledger().GiveUp(nil); !errors.Is(err, identity.ErrRotating) {
		t.Errorf("given up during a rotation: %v", err)
	}
}

func FuzzSuccession(f *testing.F) {
	home := found(f, "home")
	bob, _ := home.join(f, "")
	if err := home.seed.Rotation().Begin(false); err != nil {
		f.Fatal(err)
	}
	good, err := proto.Marshal(home.seed.Rotation().Standing().GetSuccession())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[:len(good)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &pb.Succession{}
		if proto.Unmarshal(data, s) != nil || proto.Equal(s, home.seed.Rotation().Standing().GetSuccession()) {
			return
		}
		if took, _ := bob.Rotation().Take(s); took {
			t.Error("a message was taken that the authorities have not signed")
		}
	})
}
