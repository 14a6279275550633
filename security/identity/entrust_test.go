package identity_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// promote gives f's authority to a member, and returns the cluster as the member has it.
func (f founded) promote(t testing.TB, to *identity.Identity) (founded, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cluster")
	r, key, err := to.Prepare(f.seed.ID())
	if err != nil {
		return founded{}, err
	}
	sealed, err := f.Entrust(f.seed.ID(), to.ID(), key)
	if err != nil {
		return founded{}, err
	}
	if err := r.Take(sealed, dir); err != nil {
		return founded{}, err
	}
	return founded{to.Cluster(), dir, to}, nil
}

func TestPromotedNodeAdmitsRenewsAndRemoves(t *testing.T) {
	f := found(t, "home")
	bob, dir := f.join(t, "worker")
	carl, _ := f.join(t, "")
	if bob.Cluster() != nil {
		t.Fatal("a member holds the authority before it was given it")
	}
	second, err := f.promote(t, bob)
	if err != nil {
		t.Fatal(err)
	}
	if stat, err := os.Stat(filepath.Join(second.dir, "authority.pem")); err != nil ||
		runtime.GOOS != "windows" && stat.Mode().Perm() != 0o600 {
		t.Errorf("the authority's file: %v, %v; want mode 0600", stat.Mode(), err)
	}
	dora, _ := second.join(t, "guest")
	trusts(t, dora, carl)
	trusts(t, f.seed, dora)
	request, err := carl.RenewRequest()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Renew(identity.Peer{ID: carl.ID(), Authority: "home", Role: "node"}, request); err != nil {
		t.Errorf("renewing at the second: %v", err)
	}
	if err := second.Remove(carl.ID()); err != nil || !bob.Revocations().Has(carl.ID()) {
		t.Errorf("removing at the second: %v, and it is removed there: %t", err, bob.Revocations().Has(carl.ID()))
	}

	// What the first knew of the nodes is known, and who holds the authority.
	all, err := second.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	holds, names := 0, map[identity.NodeID]string{}
	for _, r := range all {
		names[r.ID] = r.Name
		if r.Holds {
			holds++
		}
	}
	if len(all) != 4 || holds != 2 || names[f.seed.ID()] != "seed" || names[carl.ID()] != "joiner "+string(carl.ID()) {
		t.Errorf("the second knows %+v, want four nodes of which two hold the authority", all)
	}

	// As a process that starts anew has it.
	c, err := identity.OpenCluster(second.dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := identity.ReopenAt(c, dir, bob)
	if err != nil || again.Cluster() == nil || !again.Revocations().Has(carl.ID()) {
		t.Errorf("after a restart: %v, %v; want it to hold the authority and the list", again, err)
	}
}

func TestTokenIsGoodAtTheNodeThatMadeItOnly(t *testing.T) {
	f := found(t, "home")
	before := f.token(t, 0, "")
	bob, _ := f.join(t, "")
	second, err := f.promote(t, bob)
	if err != nil {
		t.Fatal(err)
	}
	after := second.token(t, 0, "")
	for name, c := range map[string]struct {
		at    founded
		token identity.Token
	}{"made before, at the second": {second, before}, "made at the second, at the first": {f, after}} {
		if _, err := c.at.ask(t, c.token, key(t)); !errors.Is(err, identity.ErrTokenUnknown) {
			t.Errorf("%s: got %v, want %v", name, err, identity.ErrTokenUnknown)
		}
	}
	if _, err := f.ask(t, before, key(t)); err != nil {
		t.Errorf("where it was made: %v", err)
	}
	if _, err := second.ask(t, after, key(t)); err != nil {
		t.Errorf("where it was made, the second: %v", err)
	}
}

func TestOnlyAHolderCanEntrustAndOnlyTheOneItSealedFor(t *testing.T) {
	f, away := found(t, "home"), found(t, "away")
	bob, _ := f.join(t, "")
	eve, _ := f.join(t, "")
	for _, c := range []struct {
		name   string
		sender founded
		from   identity.NodeID // as bob has it by the connection
		key    func(*pb.PrepareReply)
		send   func(*pb.EntrustRequest)
		want   error
	}{
		{"another cluster's authority", away, away.seed.ID(), nil, nil, identity.ErrWrongNode},
		{"a key that was exchanged on the way", f, f.seed.ID(), func(p *pb.PrepareReply) {
			_, other, err := eve.Prepare(f.seed.ID())
			if err != nil {
				t.Fatal(err)
			}
			p.Key = other.GetKey()
		}, nil, identity.ErrWrongNode},
		{"another node's key, signed by that node", f, f.seed.ID(), func(p *pb.PrepareReply) {
			_, other, err := eve.Prepare(f.seed.ID())
			if err != nil {
				t.Fatal(err)
			}
			proto.Reset(p)
			proto.Merge(p, other)
		}, nil, identity.ErrWrongNode},
		{"handed on by another node", f, eve.ID(), nil, nil, identity.ErrWrongNode},
		{"no signature", f, f.seed.ID(), nil, func(e *pb.EntrustRequest) { e.Signature = nil }, identity.ErrNotEntrusted},
		{"what is sealed was changed", f, f.seed.ID(), nil, func(e *pb.EntrustRequest) { e.Sealed[0] ^= 1 }, identity.ErrNotEntrusted},
		{"nothing", f, f.seed.ID(), nil, func(e *pb.EntrustRequest) { proto.Reset(e) }, identity.ErrNotEntrusted},
	} {
		r, prepared, err := bob.Prepare(c.from)
		if err != nil {
			t.Fatal(err)
		}
		if c.key != nil {
			c.key(prepared)
		}
		e, err := c.sender.Entrust(c.sender.seed.ID(), bob.ID(), prepared)
		if err == nil {
			if c.send != nil {
				c.send(e)
			}
			err = r.Take(e, filepath.Join(t.TempDir(), "cluster"))
		}
		if !errors.Is(err, c.want) || bob.Cluster() != nil {
			t.Errorf("%s: got %v, and bob holds %v; want %v and nothing", c.name, err, bob.Cluster(), c.want)
		}
	}

	// What was sealed for one key is of no use with the next, nor to another node.
	_, first, err := bob.Prepare(f.seed.ID())
	if err != nil {
		t.Fatal(err)
	}
	e, err := f.Entrust(f.seed.ID(), bob.ID(), first)
	if err != nil {
		t.Fatal(err)
	}
	for name, i := range map[string]*identity.Identity{"bob, later": bob, "eve": eve} {
		r, _, err := i.Prepare(f.seed.ID())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Take(e, filepath.Join(t.TempDir(), "cluster")); !errors.Is(err, identity.ErrNotEntrusted) {
			t.Errorf("%s took it: %v", name, err)
		}
	}
	if err := f.Remove(eve.ID()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.promote(t, eve); !errors.Is(err, identity.ErrRemoved) {
		t.Errorf("a removed node: got %v, want %v", err, identity.ErrRemoved)
	}
}

func TestMachineHoldsOneAuthority(t *testing.T) {
	f, away := found(t, "home"), found(t, "away")
	bob, _ := f.join(t, "")
	r, prepared, err := bob.Prepare(f.seed.ID())
	if err != nil {
		t.Fatal(err)
	}
	e, err := f.Entrust(f.seed.ID(), bob.ID(), prepared)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Take(e, away.dir); !errors.Is(err, identity.ErrClusterExists) || bob.Cluster() != nil {
		t.Errorf("got %v, want %v and nothing taken", err, identity.ErrClusterExists)
	}
	if again, err := identity.OpenCluster(away.dir); err != nil || again.Name() != "away" {
		t.Errorf("the other authority is %v, %v; want it as it was", again, err)
	}
	local, err := identity.OpenLocalAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	i, err := local.Issue(key(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := i.Prepare(f.seed.ID()); !errors.Is(err, identity.ErrNoAuthority) {
		t.Errorf("a node of no cluster: got %v, want %v", err, identity.ErrNoAuthority)
	}
}

// Two machines that remove nodes while they do not hear of each other: whoever hears both, in whatever order,
// has both removed, and once the two hear of each other all have one list.
func TestRemovalsMadeInTwoPlacesAllHold(t *testing.T) {
	f := found(t, "home")
	bob, _ := f.join(t, "")
	second, err := f.promote(t, bob)
	if err != nil {
		t.Fatal(err)
	}
	type friend struct {
		*identity.Identity
		dir string
	}
	var friends []friend // who joined before anybody was removed, and so knows of none
	for range 5 {
		i, dir := f.join(t, "")
		friends = append(friends, friend{i, dir})
	}
	var gone []identity.NodeID
	remove := func(c founded) *pb.Revocations {
		t.Helper()
		id := key(t).ID()
		if err := c.Remove(id); err != nil {
			t.Fatal(err)
		}
		gone = append(gone, id)
		list, _ := c.Revocations().Current()
		return list
	}
	a1, b1, b2 := remove(f), remove(second), remove(second)
	all := func(who string, r *identity.Revocations) {
		t.Helper()
		for n, id := range gone {
			if !r.Has(id) {
				t.Errorf("%s does not know of removal %d", who, n+1)
			}
		}
		if r.Count() != len(gone) {
			t.Errorf("%s counts %d, want %d", who, r.Count(), len(gone))
		}
	}
	for name, order := range map[string][]*pb.Revocations{
		"as made": {a1, b1, b2}, "the other way": {b2, b1, a1}, "the newest first": {b2, a1}, "the same epoch": {b1, a1, b2},
	} {
		node, dir := friends[0], friends[0].dir
		friends = friends[1:]
		for _, list := range order {
			if _, err := node.Revocations().Update(list); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		all(name, node.Revocations())
		again, err := openList(t, dir, node.Identity)
		if err != nil {
			t.Fatal(err)
		}
		all(name+", after a restart", again)
		if lists, _ := again.Lists(); len(lists) != 2 {
			t.Errorf("%s: %d lists hold, want 2", name, len(lists))
		}
	}
	if _, err := f.Revocations().Update(b2); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Revocations().Update(a1); err != nil {
		t.Fatal(err)
	}
	one, _ := f.Revocations().Lists()
	other, _ := second.Revocations().Lists()
	if len(one) != 1 || len(other) != 1 || !proto.Equal(one[0], other[0]) || one[0].GetEpoch() != b2.GetEpoch()+1 {
		t.Errorf("the two have %v and %v, want one list, the same", one, other)
	}
	all("the first", f.Revocations())
	third := friends[0]
	for _, list := range []*pb.Revocations{a1, b2, one[0], b1} {
		if _, err := third.Revocations().Update(list); err != nil {
			t.Error(err)
		}
	}
	if lists, _ := third.Revocations().Lists(); len(lists) != 1 {
		t.Errorf("%d lists hold where the common one is known, want 1", len(lists))
	}
	all("who heard all", third.Revocations())
}

func TestHolderRenewsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := found(t, "home")
		bob, dir := f.join(t, "worker")
		second, err := f.promote(t, bob)
		if err != nil {
			t.Fatal(err)
		}
		first := bob.NotAfter()
		time.Sleep(4 * 24 * time.Hour)
		if !bob.Due() {
			t.Error("after more than half its life the certificate is not due")
		}
		if here, err := bob.RenewHere(); !here || err != nil || !bob.NotAfter().After(first) {
			t.Errorf("renewing: %t, %v; it ends %v, before %v", here, err, bob.NotAfter(), first)
		}
		time.Sleep(8 * 24 * time.Hour)
		c, err := identity.OpenCluster(second.dir)
		if err != nil {
			t.Fatal(err)
		}
		again, err := identity.ReopenAt(c, dir, bob)
		if err != nil || time.Until(again.NotAfter()) < 6*24*time.Hour {
			t.Fatalf("after it was off for too long: %v, %v; want a certificate of its own", again, err)
		}
		s, _, serverErr, clientErr := handshake(t, f.seed.ServerTLS(), again.ClientTLS(""))
		if p, err := identity.PeerOf(s); serverErr != nil || clientErr != nil || err != nil || p.Role != "worker" {
			t.Errorf("it is %+v (%v, %v, %v), want the worker it was", p, serverErr, clientErr, err)
		}
	})
}

func TestConnectionOutlivesItsCertificateByANewerOneOfTheSameNodeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := found(t, "home")
		bob, _ := f.join(t, "worker")
		eve, _ := f.join(t, "worker")
		foreign, _ := found(t, "home").join(t, "worker")
		who := identity.Peer{ID: bob.ID(), Authority: "home", Role: "worker"}
		for name, c := range map[string]struct {
			as identity.Peer
			of *identity.Identity
			ok bool
		}{
			"its own":                 {who, bob, true},
			"another node's":          {who, eve, false},
			"of another cluster":      {who, foreign, false},
			"in another role":         {identity.Peer{ID: bob.ID(), Authority: "home", Role: "node"}, bob, false},
			"another cluster's, same": {identity.Peer{ID: foreign.ID(), Authority: "home", Role: "worker"}, foreign, false},
		} {
			der, err := c.of.Certificate()
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.seed.VerifyCertificate(der)
			if ok := err == nil && got.Peer == c.as; ok != c.ok || ok && !got.NotAfter.Equal(bob.NotAfter()) {
				t.Errorf("%s: %+v, %v; want it taken: %t", name, got, err, c.ok)
			}
		}
		der, err := bob.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		end := bob.NotAfter()
		time.Sleep(7*24*time.Hour + 6*time.Minute)
		if _, err := f.seed.VerifyCertificate(der); err == nil {
			t.Error("one that has ended was taken")
		}
		if identity.Lapsed(end, end.Add(5*time.Minute)) || !identity.Lapsed(end, end.Add(5*time.Minute+time.Second)) {
			t.Error("a certificate does not lapse 5 minutes after its end")
		}
	})
}
