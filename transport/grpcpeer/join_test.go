package grpcpeer_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"symbio/community"
	"symbio/internal/community/waittest"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// seed is the name of the node that holds the authority of a lan's cluster.
const seed = "seed"

// newCluster is a lan whose nodes are of a cluster.
func newCluster(t testing.TB) *lan { return newSlowCluster(t, grpcpeertest.Config{}) }

func newSlowCluster(t testing.TB, cfg grpcpeertest.Config) *lan {
	t.Helper()
	l := newSlowLAN(t, cfg)
	c, err := identity.CreateCluster(filepath.Join(l.Dir(), "cluster"), "home")
	if err != nil {
		t.Fatal(err)
	}
	l.cluster = c
	return l
}

// member gives the seed its identity, and makes every other node join once.
func (l *lan) member(k *identity.Key, name string) *identity.Identity {
	l.t.Helper()
	if name == seed {
		i, err := l.cluster.Issue(k, name)
		if err != nil {
			l.t.Fatal(err)
		}
		return i
	}
	dir := filepath.Join(l.Dir(), name, "member")
	if _, err := identity.MemberOf(dir); err != nil {
		holder := l.identity(seed)
		token := l.token("")
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		server, client := tls.Server(a, holder.JoinTLS()), tls.Client(b, token.ClientTLS())
		var wg sync.WaitGroup
		wg.Go(func() { _ = server.Handshake() })
		if err := client.Handshake(); err != nil {
			l.t.Fatal(err)
		}
		wg.Wait()
		r, err := token.Request(client.ConnectionState(), k, name)
		if err != nil {
			l.t.Fatal(err)
		}
		reply, err := l.cluster.Admit(server.ConnectionState(), r)
		if err != nil {
			l.t.Fatal(err)
		}
		admission, err := token.Accept(reply, k)
		if err != nil {
			l.t.Fatal(err)
		}
		if err := admission.Save(dir); err != nil {
			l.t.Fatal(err)
		}
	}
	i, err := identity.OpenMember(dir, k)
	if err != nil {
		l.t.Fatal(err)
	}
	return i
}

func (l *lan) token(role string) identity.Token {
	l.t.Helper()
	t, err := l.cluster.NewToken(0, role)
	if err != nil {
		l.t.Fatal(err)
	}
	return t
}

// spy counts what a client writes before its handshake is over, and after.
type spy struct {
	net.Conn
	mu      sync.Mutex
	written int
}

func (s *spy) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.written += len(p)
	s.mu.Unlock()
	return s.Conn.Write(p)
}

func TestTokenAndAnAddressMakeANodeAMember(t *testing.T) {
	l := newCluster(t)
	holder := l.onLoopback(seed)
	addr := holder.network.Addr().String()
	token := l.token("worker")
	a, err := grpcpeer.Enrol(waittest.Context(t), addr, token, l.Key("bob"), "bob", nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.Authority != "home" || a.Role != "worker" || a.ID != l.Key("bob").ID() {
		t.Errorf("bob is %+v, want a worker of home", a.Peer)
	}
	if err := a.Save(filepath.Join(l.Dir(), "bob", "member")); err != nil {
		t.Fatal(err)
	}
	bob := l.onLoopback("bob")
	at := netip.MustParseAddrPort(addr)
	hint := hintOf(holder)
	hint.Addrs = []netip.AddrPort{at}
	bob.network.AddHint(hint)
	bob.finds(holder.id)
}

func TestJoinThatIsRefusedIsUnderstood(t *testing.T) {
	l, away, plain := newCluster(t), newCluster(t), newLAN(t)
	holder := l.onLoopback(seed)
	local, member := plain.onLoopback("local"), l.onLoopback("member")
	used := l.token("")
	if _, err := grpcpeer.Enrol(waittest.Context(t), holder.network.Addr().String(), used, l.Key("first"), "first", nil); err != nil {
		t.Fatal(err)
	}
	gone := l.Key("gone")
	if err := l.cluster.Remove(gone.ID()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		token identity.Token
		at    *home
		key   *identity.Key
		want  error
		words string
	}{
		{"another cluster", away.token(""), holder, l.Key("x"), identity.ErrWrongCluster, "nothing was sent"},
		{"a used token", used, holder, l.Key("x"), identity.ErrTokenUsed, "symbio cluster token"},
		{"a node without the authority", used, member, l.Key("x"), identity.ErrNoAuthority, "cluster init"},
		{"a node without a cluster", used, local, l.Key("x"), identity.ErrNoAuthority, "cluster init"},
		{"a removed node", l.token(""), holder, gone, identity.ErrRemoved, "symbio cluster leave"},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			_, err := grpcpeer.Enrol(waittest.Context(t), c.at.network.Addr().String(), c.token, c.key, "x", nil)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.words)
			}
			refusedByAuthority := errors.Is(c.want, identity.ErrTokenUsed) || errors.Is(c.want, identity.ErrRemoved)
			if took := time.Since(began); refusedByAuthority && took < 300*time.Millisecond {
				t.Errorf("the refusal came after %v, want 300 ms at least", took)
			}
		})
	}
}

func TestJoinSendsNothingToWrongCluster(t *testing.T) {
	l, away := newCluster(t), newCluster(t)
	holder := l.onLoopback(seed)
	send := func(token identity.Token) (int, error) {
		s := &spy{}
		_, err := grpcpeer.Enrol(waittest.Context(t), holder.network.Addr().String(), token, l.Key("bob"), "bob",
			func(ctx context.Context, addr string) (c net.Conn, err error) {
				s.Conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr)
				return s, err
			})
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.written, err
	}
	wrong, err := send(away.token(""))
	if !errors.Is(err, identity.ErrWrongCluster) {
		t.Fatalf("got %v, want %v", err, identity.ErrWrongCluster)
	}
	// A hello is 300 to 2000 bytes, with or without a post-quantum key share; what follows it here is an alert.
	hello, err := send(l.token(""))
	if err != nil {
		t.Fatal(err)
	}
	if wrong > 2100 || hello-wrong < 300 {
		t.Errorf("%d bytes went to the wrong cluster and %d to the right one: want a hello and an alert, no request", wrong, hello)
	}
}

// Whoever has no certificate reaches the methods of the gate, and none of Peer. Renew is one of them, and wants a
// certificate that was good once.
func TestWithoutACertificateOnlyJoinIsReached(t *testing.T) {
	l := newCluster(t)
	holder := l.onLoopback(seed)
	holder.offers("echo", echo)
	token := l.token("")
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return tcp(holder)(ctx) }
	joining := token.ClientTLS()
	bare := l.identity("bob").ClientTLS("")
	bare.GetClientCertificate = nil
	both := token.ClientTLS()
	both.NextProtos = []string{"h2", identity.JoinProtocol}
	both.VerifyConnection = nil
	for name, cfg := range map[string]*tls.Config{"by the join protocol": joining, "by the peers' protocol": bare, "by both": both} {
		cc, err := grpc.NewClient("passthrough:///"+holder.network.Addr().String(), grpc.WithContextDialer(dial),
			grpc.WithTransportCredentials(rawTLS{TransportCredentials: credentials.NewTLS(cfg), cfg: cfg}))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		p, j := pb.NewPeerClient(cc), pb.NewJoinClient(cc)
		ctx := waittest.Context(t)
		_, describe := p.Describe(ctx, &pb.DescribeRequest{})
		_, invoke := p.Invoke(ctx, &pb.InvokeRequest{Capability: "echo"})
		stream, watch := p.Watch(ctx, &pb.WatchRequest{})
		if watch == nil {
			_, watch = stream.Recv()
		}
		_, renew := j.Renew(ctx, &pb.RenewRequest{})
		for method, err := range map[string]error{"Describe": describe, "Invoke": invoke, "Watch": watch, "Renew": renew} {
			if method == "Renew" && name != "by the peers' protocol" && status.Code(err) == codes.InvalidArgument {
				continue
			}
			if c := status.Code(err); c != codes.Unimplemented && c != codes.Unavailable {
				t.Errorf("%s, %s: got %v, want it not to be there", name, method, err)
			}
		}
	}
	// A proven peer does not reach Join either: it is for who has no certificate.
	cc, err := grpc.NewClient("passthrough:///x", grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(credentials.NewTLS(l.identity("bob").ClientTLS(""))))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	if _, err := pb.NewJoinClient(cc).Join(waittest.Context(t), &pb.JoinRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a peer that joins: got %v, want %v", err, codes.Unimplemented)
	}
}

// rawTLS makes exactly the handshake of cfg, where gRPC would add to its protocols.
type rawTLS struct {
	credentials.TransportCredentials
	cfg *tls.Config
}

func (r rawTLS) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := tls.Client(raw, r.cfg)
	err := c.HandshakeContext(ctx)
	return c, credentials.TLSInfo{State: c.ConnectionState()}, err
}

func (r rawTLS) Clone() credentials.TransportCredentials { return r }

func TestTriesToJoinAreCountedAndBounded(t *testing.T) {
	l := newCluster(t)
	holder := l.onLoopback(seed)
	addr := holder.network.Addr().String()
	token := l.token("")
	if _, err := grpcpeer.Enrol(waittest.Context(t), addr, token, l.Key("first"), "", nil); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		k := l.Key("k" + string(rune('a'+i)))
		wg.Go(func() { _, errs[i] = grpcpeer.Enrol(waittest.Context(t), addr, token, k, "", nil) })
		if i%4 == 3 {
			wg.Wait() // 8 connections at once are all there may be
		}
	}
	wg.Wait()
	used, often := 0, 0
	for _, err := range errs {
		switch {
		case errors.Is(err, identity.ErrTokenUsed):
			used++
		case err != nil && strings.Contains(err.Error(), "wait a minute"):
			often++
		default:
			t.Errorf("got %v", err)
		}
	}
	if used > 10 || used < 8 || often != len(errs)-used {
		t.Errorf("%d were answered and %d told to wait, want 9 and 7", used, often)
	}
	// Peers are served all the while.
	if _, err := client(t, l.identity("bob"), tcp(holder)).Describe(waittest.Context(t), &pb.DescribeRequest{}); err != nil {
		t.Error(err)
	}
}

func TestLargeRequestToJoinIsRefused(t *testing.T) {
	l := newCluster(t)
	holder := l.onLoopback(seed)
	token := l.token("")
	raw, err := tcp(holder)(waittest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg := token.ClientTLS()
	cc, err := grpc.NewClient("passthrough:///x",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return raw, nil }),
		grpc.WithTransportCredentials(rawTLS{TransportCredentials: credentials.NewTLS(cfg), cfg: cfg}))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	_, err = pb.NewJoinClient(cc).Join(waittest.Context(t), &pb.JoinRequest{Request: make([]byte, 16<<10)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want %v", err, codes.ResourceExhausted)
	}
}

// assemble runs the seed and nodes of those names, which all know each other.
func (l *lan) assemble(names ...string) map[string]*home {
	l.t.Helper()
	homes := map[string]*home{}
	stations := map[string]*station{}
	for _, name := range append([]string{seed}, names...) {
		stations[name] = l.add(name)
		homes[name] = stations[name].live(name)
	}
	for a, s := range stations {
		for b, o := range stations {
			if a != b {
				s.Network.AddHint(o.Hint())
			}
		}
	}
	for a, h := range homes {
		for b, o := range homes {
			if a != b {
				h.finds(o.id)
			}
		}
	}
	return homes
}

func TestRemovedNodeIsCutOffEverywhereWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		homes := l.assemble("ann", "bob", "eve")
		eve := homes["eve"]
		eve.offers("stuck", stuck)
		homes["ann"].offers("stuck", stuck)
		synctest.Wait()
		// Calls in both directions are open when she is removed.
		var wg sync.WaitGroup
		errs := make([]error, 2)
		wg.Go(func() {
			_, errs[0] = homes["ann"].Invoke(t.Context(), community.MemberID(eve.id), "stuck", community.Signal{})
		})
		wg.Go(func() {
			_, errs[1] = eve.Invoke(t.Context(), community.MemberID(homes["ann"].id), "stuck", community.Signal{})
		})
		synctest.Wait()
		began := time.Now()
		if err := l.cluster.Remove(identity.NodeID(eve.id)); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		for name, h := range homes {
			if name != "eve" {
				h.sees("eve gone", func(all []community.Member) bool { return !present(all, eve.id) })
			}
		}
		if took := time.Since(began); took > 200*time.Millisecond { // sooner than the next heartbeat
			t.Errorf("it took %v, want 200 ms at most", took)
		}
		for i, err := range errs {
			if !errors.Is(err, community.ErrUnavailable) {
				t.Errorf("call %d ended with %v, want %v", i, err, community.ErrUnavailable)
			}
		}
		// She does not come back, and each says why.
		time.Sleep(time.Minute)
		for name, h := range homes {
			if name == "eve" {
				continue
			}
			if s, ok := h.status(eve.id, grpcpeer.StateRefused); !ok || !strings.Contains(s.Why, "removed") {
				t.Errorf("%s says of eve: %+v, want refused because she was removed", name, h.network.Nodes())
			}
		}
		if len(eve.Members()) != 0 && available(eve.Members(), homes["ann"].id) {
			t.Errorf("eve still sees %+v", eve.Members())
		}
		// The others go on as before.
		if !available(homes["ann"].Members(), homes["bob"].id) {
			t.Error("ann lost bob")
		}
	})
}

func present(all []community.Member, id community.NodeID) bool {
	for _, m := range all {
		if m.ID == community.MemberID(id) {
			return true
		}
	}
	return false
}

func TestNodeLearnsRemovalsFromItsCallers(t *testing.T) {
	l := newCluster(t)
	bob := l.onLoopback("bob")
	caller := client(t, l.identity("ann"), tcp(bob))
	gone := l.Key("gone").ID()
	if err := l.cluster.Remove(gone); err != nil {
		t.Fatal(err)
	}
	list, _ := l.cluster.Revocations().Current()
	d, err := caller.Describe(waittest.Context(t), &pb.DescribeRequest{Revocations: list})
	if err != nil || d.GetRevocations().GetEpoch() != list.GetEpoch() || d.GetHoldsAuthority() {
		t.Errorf("bob describes himself as %v, %v; want him to have the list, and no authority", d, err)
	}
	forged := &pb.Revocations{Epoch: 9, Nodes: []string{string(bob.id)}, Signature: list.GetSignature()}
	if d, err = caller.Describe(waittest.Context(t), &pb.DescribeRequest{Revocations: forged}); err != nil ||
		d.GetRevocations().GetEpoch() != list.GetEpoch() {
		t.Errorf("after a forged list: %v, %v; want the one before", d, err)
	}
}

func TestReturningNodeLearnsRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		homes := l.assemble("ann", "bob")
		l.Partition(homes["bob"].id)
		time.Sleep(time.Minute)
		gone := l.Key("gone").ID()
		if err := l.cluster.Remove(gone); err != nil {
			t.Fatal(err)
		}
		l.Heal()
		homes["bob"].finds(homes["ann"].id)
		time.Sleep(5 * time.Second)
		if !l.stationOf(homes["bob"].id).identity.Revocations().Has(gone) {
			t.Error("bob did not learn of it")
		}
	})
}

func TestRunningNodeGetsItsNextCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCluster(t)
		bob := l.identity("bob")
		time.Sleep(84*time.Hour - 2*time.Minute) // almost half its life, with nobody there
		first := bob.NotAfter()
		ann, s := l.add("ann"), l.addAs(bob, "bob")
		server := l.add(seed)
		friend, h := ann.live("ann"), s.live("bob")
		meet := func(a, b *station) {
			a.Network.AddHint(b.Hint())
			b.Network.AddHint(a.Hint())
		}
		meet(ann, s)
		h.finds(friend.id)
		time.Sleep(10 * time.Minute)
		if !bob.Due() || !bob.NotAfter().Equal(first) {
			t.Error("without an authority to ask, want it due and as it was")
		}
		if !available(h.Members(), friend.id) {
			t.Error("bob lost ann")
		}
		holder := server.live(seed)
		meet(server, s)
		h.finds(holder.id)
		time.Sleep(2 * time.Minute)
		if got := bob.NotAfter(); got.Sub(first) < 80*time.Hour {
			t.Errorf("the certificate ends %v, before it was %v: want it renewed", got, first)
		}
		if again := l.identity("bob"); !again.NotAfter().Equal(bob.NotAfter()) {
			t.Errorf("after a restart it ends %v, want %v", again.NotAfter(), bob.NotAfter())
		}
	})
}
