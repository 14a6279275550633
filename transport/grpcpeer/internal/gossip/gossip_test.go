package gossip

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// authority makes identities.
type authority struct {
	t   testing.TB
	dir string
	*identity.Authority
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	dir := t.TempDir()
	a, err := identity.OpenLocalAuthority(filepath.Join(dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	return authority{t, dir, a}
}

func (a authority) issue(name string) *identity.Identity {
	a.t.Helper()
	k, err := identity.LoadOrCreateKey(filepath.Join(a.dir, name+".pem"))
	if err != nil {
		a.t.Fatal(err)
	}
	id, err := a.Issue(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return id
}

var (
	began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	home  = netip.MustParseAddrPort("192.0.2.1:7000")
)

func statement(id *identity.Identity, sequence uint64) *pb.Statement {
	return &pb.Statement{Id: string(id.ID()), Name: "n", Instance: "one", Started: timestamppb.New(began), Sequence: sequence, Addrs: []string{home.String()}}
}

// markOf returns a mark of a node whose record has the sequence, changed by change.
func markOf(t testing.TB, id *identity.Identity, sequence uint64, change ...func(*pb.Mark)) (*Node, *pb.Mark) {
	t.Helper()
	n, err := sign(id, statement(id, sequence))
	if err != nil {
		t.Fatal(err)
	}
	m := &pb.Mark{Id: string(id.ID()), Instance: "one", Started: timestamppb.New(began), Sequence: sequence, Digest: n.digest,
		Ip: home.Addr().AsSlice(), Port: uint32(home.Port())}
	for _, f := range change {
		f(m)
	}
	n.ID = id.ID()
	return n, m
}

// memberOf returns what memberlist would say of a mark that by has signed.
func memberOf(t testing.TB, by *identity.Identity, m *pb.Mark) *memberlist.Node {
	t.Helper()
	meta, err := signMark(by, m)
	if err != nil {
		t.Fatal(err)
	}
	if len(meta) > memberlist.MetaMaxSize {
		t.Fatalf("a mark of %d bytes, want %d at the most", len(meta), memberlist.MetaMaxSize)
	}
	return &memberlist.Node{Name: nameOf(m), Addr: m.GetIp(), Port: uint16(m.GetPort()), Meta: meta}
}

func TestMarksAreOfTheNodeThatTheyAreAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		self, bob, eve := a.issue("self"), a.issue("bob"), a.issue("eve")
		for name, c := range map[string]struct {
			by     *identity.Identity
			change func(*pb.Mark)
			carry  func(*memberlist.Node)
			ok     bool
		}{
			"its own":             {by: bob, ok: true},
			"signed by another":   {by: eve},
			"under another name":  {by: bob, carry: func(n *memberlist.Node) { n.Name = string(eve.ID()) + ".one" }},
			"of another process":  {by: bob, carry: func(n *memberlist.Node) { n.Name = string(bob.ID()) + ".two" }},
			"from another port":   {by: bob, carry: func(n *memberlist.Node) { n.Port++ }},
			"from another host":   {by: bob, carry: func(n *memberlist.Node) { n.Addr = []byte{192, 0, 2, 9} }},
			"cut":                 {by: bob, carry: func(n *memberlist.Node) { n.Meta = n.Meta[:len(n.Meta)-1] }},
			"empty":               {by: bob, carry: func(n *memberlist.Node) { n.Meta = nil }},
			"at no address":       {by: bob, change: func(m *pb.Mark) { m.Ip = nil }},
			"at port 0":           {by: bob, change: func(m *pb.Mark) { m.Port = 0 }},
			"without a digest":    {by: bob, change: func(m *pb.Mark) { m.Digest = nil }},
			"with a long process": {by: bob, change: func(m *pb.Mark) { m.Instance = strings.Repeat("x", 65) }},
		} {
			v := newView(self.ID(), nil)
			_, m := markOf(t, bob, 1)
			if c.change != nil {
				c.change(m)
			}
			n := memberOf(t, c.by, m)
			if c.carry != nil {
				c.carry(n)
			}
			if err := v.NotifyAlive(n); (err == nil) != c.ok {
				t.Errorf("%s: %v, want it taken: %t", name, err, c.ok)
			}
			if len(v.nodes) > 0 != c.ok {
				t.Errorf("%s: %d nodes are known", name, len(v.nodes))
			}
		}
	})
}

func TestOlderMarksAndRecordsChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		self, bob := a.issue("self"), a.issue("bob")
		v := newView(self.ID(), nil)
		old, oldMark := markOf(t, bob, 1)
		now, nowMark := markOf(t, bob, 2)
		for _, n := range []*memberlist.Node{memberOf(t, bob, oldMark), memberOf(t, bob, nowMark)} {
			if err := v.NotifyAlive(n); err != nil {
				t.Fatal(err)
			}
		}
		v.NotifyJoin(memberOf(t, bob, nowMark))
		v.store(now)
		v.store(old)
		if err := v.NotifyAlive(memberOf(t, bob, oldMark)); err == nil {
			t.Error("an older mark was taken")
		}
		if c := v.changes(); len(c) != 1 || c[0].seen != now {
			t.Errorf("the changes are %+v, want the newer record", c)
		}
		// A verdict about an earlier process says nothing about the one that runs.
		_, later := markOf(t, bob, 1, func(m *pb.Mark) { m.Instance, m.Started = "two", timestamppb.New(began.Add(time.Hour)) })
		if err := v.NotifyAlive(memberOf(t, bob, later)); err == nil {
			t.Error("a process that replaces one of a moment ago was taken")
		}
		time.Sleep(newProcess)
		if err := v.NotifyAlive(memberOf(t, bob, later)); err != nil {
			t.Fatal(err)
		}
		v.NotifyJoin(memberOf(t, bob, later))
		v.NotifyLeave(memberOf(t, bob, nowMark))
		if !v.isAlive(bob.ID()) {
			t.Error("the end of an earlier process ended the node")
		}
	})
}

func TestNodesWithoutARecordAreFewAndNoMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		v := newView(a.issue("self").ID(), nil)
		taken := 0
		for i := range maxUnproven + 10 {
			id := a.issue(fmt.Sprint(i))
			_, m := markOf(t, id, 1)
			n := memberOf(t, id, m)
			if v.NotifyAlive(n) == nil {
				taken++
				v.NotifyJoin(n)
			}
		}
		if taken != maxUnproven {
			t.Errorf("%d nodes without a record were taken, want %d", taken, maxUnproven)
		}
		if c := v.changes(); len(c) != 0 {
			t.Errorf("%d of them are members, want none", len(c))
		}
	})
}

func TestRecordsProveThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, foreign := newAuthority(t), newAuthority(t)
		self, bob, eve := a.issue("self"), a.issue("bob"), a.issue("eve")
		record := func(id *identity.Identity, s *pb.Statement) *pb.Record {
			n, err := sign(id, s)
			if err != nil {
				t.Fatal(err)
			}
			return n.record
		}
		mixed := record(eve, statement(eve, 1))
		mixed.Certificate = record(bob, statement(bob, 1)).Certificate
		changed := record(bob, statement(bob, 1))
		changed.Statement = record(bob, statement(bob, 2)).Statement
		long := statement(bob, 1)
		long.Name = strings.Repeat("x", maxRecord)
		if _, err := sign(bob, long); err == nil {
			t.Error("a record beyond the limit was signed")
		}
		other := foreign.issue("bob")
		for name, c := range map[string]struct {
			r  *pb.Record
			ok bool
		}{
			"its own":                       {record(bob, statement(bob, 1)), true},
			"about another node":            {record(eve, statement(bob, 1)), false},
			"with another's certificate":    {mixed, false},
			"changed":                       {changed, false},
			"of another authority":          {record(other, statement(other, 1)), false},
			"nothing":                       {&pb.Record{}, false},
			"a statement beyond the limit":  {&pb.Record{Statement: make([]byte, maxRecord+1)}, false},
			"a certificate that is no such": {&pb.Record{Certificate: []byte("x"), Statement: []byte("y")}, false},
			"a signature for something else": {func() *pb.Record {
				r := record(bob, statement(bob, 1))
				_, r.Signature, _ = bob.Sign(r.Statement)
				return r
			}(), false},
		} {
			if n, err := verify(self, c.r); (err == nil) != c.ok || c.ok && (n.ID != bob.ID() || len(n.Addrs) != 1) {
				t.Errorf("%s: %+v, %v; want it taken: %t", name, n, err, c.ok)
			}
		}
		kept := record(bob, statement(bob, 1))
		time.Sleep(8 * 24 * time.Hour)
		if _, err := verify(self, kept); err == nil {
			t.Error("a record whose certificate has ended was taken")
		}
	})
}

func TestAllNodesComeToOneKey(t *testing.T) {
	all := make([]*keys, 5)
	for i := range all {
		k, err := newKeys()
		if err != nil {
			t.Fatal(err)
		}
		all[i] = k
	}
	packet := all[0].seal([]byte("text"))
	if _, err := all[1].open(packet); err != errUnknownKey {
		t.Errorf("a packet under another key is %v, want %v", err, errUnknownKey)
	}
	meet := func(a, b *keys) {
		ka, kb := a.current(), b.current()
		if a.add(kb.generation, kb.secret) != nil || b.add(ka.generation, ka.secret) != nil {
			t.Fatal("a key was refused")
		}
	}
	for range all {
		for i := range all[1:] {
			meet(all[i], all[i+1])
		}
	}
	for _, k := range all[1:] {
		if k.current().name != all[0].current().name {
			t.Fatal("the nodes have different keys")
		}
	}
	before := all[2].seal([]byte("before"))
	if err := all[0].rotate(); err != nil {
		t.Fatal(err)
	}
	for i := range all[1:] {
		meet(all[i], all[i+1])
	}
	if text, err := all[4].open(all[0].seal([]byte("text"))); err != nil || string(text) != "text" {
		t.Errorf("a packet under the next key is %q, %v", text, err)
	}
	if text, err := all[4].open(before); err != nil || string(text) != "before" {
		t.Errorf("a packet under the key before is %q, %v", text, err)
	}
	now := all[4].current()
	if err := all[4].add(now.generation+maxGenerations+1, bytes.Repeat([]byte{1}, keySize)); err == nil || all[4].current() != now {
		t.Error("a key of a generation far ahead was taken")
	}
	if all[4].add(now.generation+1, []byte("short")) == nil || len(all[4].all) > oldKeys+1 {
		t.Errorf("a short key was taken, or %d keys are kept", len(all[4].all))
	}
}

func TestStreamOfANodeEndsAtALimit(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	go func() {
		for {
			if _, err := b.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}()
	n, err := io.Copy(io.Discard, &limitedConn{a, maxExchange})
	if n != maxExchange || err != errExchange {
		t.Errorf("%d bytes were read, then %v; want %d, then %v", n, err, maxExchange, errExchange)
	}
}

// FuzzWire reads bytes of another node as everything that they may be.
func FuzzWire(f *testing.F) {
	a := newAuthority(f)
	self, bob := a.issue("self"), a.issue("bob")
	n, m := markOf(f, bob, 1)
	meta, err := signMark(bob, m)
	if err != nil {
		f.Fatal(err)
	}
	k, err := newKeys()
	if err != nil {
		f.Fatal(err)
	}
	record, _ := proto.Marshal(n.record)
	for _, seed := range [][]byte{meta, record, k.seal([]byte("x")), {0, 0, 0, 1, 8}, nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v := newView(self.ID(), nil)
		_ = v.NotifyAlive(&memberlist.Node{Name: nameOf(m), Addr: m.GetIp(), Port: uint16(m.GetPort()), Meta: b})
		if len(v.nodes) > 0 && !v.nodes[bob.ID()].mark.ProtoReflect().IsValid() {
			t.Error("an invalid mark was taken")
		}
		r := &pb.Record{}
		if proto.Unmarshal(b, r) == nil {
			if n, err := verify(self, r); err == nil && n.ID != bob.ID() && n.ID != self.ID() {
				t.Error("a record of an unknown node was taken")
			}
		}
		_, _ = k.open(b)
		_ = readMessage(bytes.NewReader(b), &pb.Hello{}, maxHello)
	})
}
