package identity_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// founded is a cluster with the identity of the node that made it.
type founded struct {
	*identity.Cluster
	dir  string
	seed *identity.Identity
}

func found(t testing.TB, name string) founded {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cluster")
	c, err := identity.CreateCluster(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := c.Issue(key(t), "seed")
	if err != nil {
		t.Fatal(err)
	}
	return founded{c, dir, seed}
}

func key(t testing.TB) *identity.Key {
	t.Helper()
	k, err := identity.LoadOrCreateKey(filepath.Join(t.TempDir(), "node", "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (f founded) token(t testing.TB, life time.Duration, role string, labels ...string) identity.Token {
	t.Helper()
	made, err := f.NewToken(life, role, labels...)
	if err != nil {
		t.Fatal(err)
	}
	read, err := identity.ParseToken(made.Text())
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// ask makes a join handshake with f's first node and hands the request to the cluster, changed by tamper.
func (f founded) ask(t testing.TB, token identity.Token, k *identity.Key, tamper ...func(*pb.JoinRequest)) (*identity.Admission, error) {
	t.Helper()
	s, c, serverErr, clientErr := handshake(t, f.seed.JoinTLS(), token.ClientTLS())
	if clientErr != nil {
		return nil, token.Explain(clientErr)
	}
	if serverErr != nil {
		return nil, serverErr
	}
	r, err := token.Request(c, k, "joiner "+string(k.ID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range tamper {
		change(r)
	}
	reply, err := f.Admit(s, r)
	if err != nil {
		return nil, err
	}
	return token.Accept(reply, k)
}

func (f founded) join(t testing.TB, role string, labels ...string) (*identity.Identity, string) {
	t.Helper()
	k, dir := key(t), filepath.Join(t.TempDir(), "member")
	a, err := f.ask(t, f.token(t, 0, role, labels...), k)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Save(dir); err != nil {
		t.Fatal(err)
	}
	i, err := identity.OpenMember(dir, k)
	if err != nil {
		t.Fatal(err)
	}
	return i, dir
}

func trusts(t *testing.T, a, b *identity.Identity) {
	t.Helper()
	s, _, serverErr, clientErr := handshake(t, a.ServerTLS(), b.ClientTLS(a.ID()))
	if serverErr != nil || clientErr != nil {
		t.Fatalf("server: %v, client: %v", serverErr, clientErr)
	}
	if p, err := identity.PeerOf(s); err != nil || p.ID != b.ID() || p.Authority != a.Authority() {
		t.Errorf("the server met %+v, %v; want %s of %s", p, err, b.ID(), a.Authority())
	}
}

func TestClusterIsMadeOnceAndKept(t *testing.T) {
	f := found(t, "home")
	if _, err := identity.CreateCluster(f.dir, "other"); !errors.Is(err, identity.ErrClusterExists) {
		t.Errorf("making a second one: got %v, want %v", err, identity.ErrClusterExists)
	}
	again, err := identity.OpenCluster(f.dir)
	if err != nil || again.Name() != "home" || again.Tag() != f.Tag() {
		t.Errorf("opened again: %v, %v; want home %s", again, err, f.Tag())
	}
	if _, err := identity.OpenCluster(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("where there is none: got %v, want %v", err, fs.ErrNotExist)
	}
	if stat, err := os.Stat(filepath.Join(f.dir, "authority.pem")); err != nil || runtime.GOOS != "windows" && stat.Mode().Perm() != 0o600 {
		t.Errorf("the authority's file: %v, %v; want mode 0600", stat.Mode(), err)
	}
	for _, name := range []string{"", "local", "Home", "a.b", "a/b", "-a", strings.Repeat("a", 64)} {
		if _, err := identity.CreateCluster(t.TempDir(), name); err == nil {
			t.Errorf("a cluster called %q was made", name)
		}
	}
}

func TestTokenMakesANodeAMember(t *testing.T) {
	f := found(t, "home")
	worker, dir := f.join(t, "worker")
	other, _ := f.join(t, "")
	trusts(t, f.seed, worker)
	trusts(t, worker, f.seed)
	trusts(t, worker, other)
	s, _, _, _ := handshake(t, f.seed.ServerTLS(), worker.ClientTLS(""))
	if p, err := identity.PeerOf(s); err != nil || p != (identity.Peer{ID: worker.ID(), Authority: "home", Role: "worker"}) {
		t.Errorf("got %+v, %v; want a worker of home", p, err)
	}
	if name, err := identity.MemberOf(dir); name != "home" || err != nil {
		t.Errorf("the folder says %q, %v; want home", name, err)
	}
	nodes, err := f.Nodes()
	if err != nil || len(nodes) != 3 || nodes[1].Name != "joiner "+string(worker.ID()) || nodes[1].Role != "worker" ||
		nodes[1].ID != worker.ID() {
		t.Errorf("the cluster knows %+v, %v; want seed, worker, other", nodes, err)
	}
	if worker.Cluster() != nil || f.seed.Cluster() == nil {
		t.Error("want the authority where the cluster was made, and only there")
	}
}

func TestJoinIsRefusedWithTheReason(t *testing.T) {
	f, away := found(t, "home"), found(t, "away")
	used := f.token(t, 0, "")
	if _, err := f.ask(t, used, key(t)); err != nil {
		t.Fatal(err)
	}
	local := issue(t, authority(t))
	foreign := away.token(t, 0, "")
	removed := key(t)
	if err := f.Remove(removed.ID()); err != nil {
		t.Fatal(err)
	}
	otherKey := key(t)
	for _, c := range []struct {
		name   string
		token  identity.Token
		key    *identity.Key
		tamper func(*pb.JoinRequest)
		want   error
		words  string
	}{
		{"another cluster's token", foreign, key(t), nil, identity.ErrWrongCluster, "nothing was sent"},
		{"a used token", used, key(t), nil, identity.ErrTokenUsed, "cluster token"},
		{"a proof that was changed", f.token(t, 0, ""), key(t), func(r *pb.JoinRequest) { r.Proof[3] ^= 1 }, identity.ErrTokenUnknown, ""},
		{"no proof", f.token(t, 0, ""), key(t), func(r *pb.JoinRequest) { r.Proof = nil }, identity.ErrTokenUnknown, ""},
		{"no token key", f.token(t, 0, ""), key(t), func(r *pb.JoinRequest) { r.TokenKey = nil }, identity.ErrTokenUnknown, ""},
		{"another request than the one proven", f.token(t, 0, ""), key(t), func(r *pb.JoinRequest) {
			other, err := issue(t, authority(t)).RenewRequest()
			if err != nil {
				t.Error(err)
			}
			r.Request = other.GetRequest()
		}, identity.ErrTokenUnknown, ""},
		{"a clock 6 minutes ahead", f.token(t, 0, ""), key(t), func(r *pb.JoinRequest) { r.Clock.Seconds += 360 }, identity.ErrSkew, "still good"},
		{"a clock 6 minutes behind", f.token(t, 0, ""), key(t), func(r *pb.JoinRequest) { r.Clock.Seconds -= 360 }, identity.ErrSkew, "still good"},
		{"no clock", f.token(t, 0, ""), key(t), func(r *pb.JoinRequest) { r.Clock = nil }, identity.ErrSkew, ""},
		{"a removed node", f.token(t, 0, ""), removed, nil, identity.ErrRemoved, "symbio cluster leave"},
		{"a clock 4 minutes ahead", f.token(t, 0, ""), key(t), func(r *pb.JoinRequest) { r.Clock.Seconds += 240 }, nil, ""},
		{"all well", f.token(t, 0, ""), otherKey, nil, nil, ""},
		{"a member that joins again", f.token(t, 0, ""), otherKey, nil, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tamper []func(*pb.JoinRequest)
			if c.tamper != nil {
				tamper = append(tamper, c.tamper)
			}
			_, err := f.ask(t, c.token, c.key, tamper...)
			if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.words)
			}
		})
	}
	// A node that holds no authority does not know the protocol at all.
	_, _, _, err := handshake(t, local.ServerTLS(), used.ClientTLS())
	if got := used.Explain(err); !errors.Is(got, identity.ErrNoAuthority) {
		t.Errorf("a node without an authority: got %v (of %v), want %v", got, err, identity.ErrNoAuthority)
	}
}

// Two nodes of one name could not be told apart: the second one is refused, until the first is removed or
// its certificate has ended.
func TestNameIsOfOneNode(t *testing.T) {
	f := found(t, "home")
	named := func(r *pb.JoinRequest) { r.Name = "desk" }
	first, second, token := key(t), key(t), f.token(t, 0, "")
	for range 2 { // an answer that was lost may be asked for again
		if _, err := f.ask(t, token, first, named); err != nil {
			t.Fatal(err)
		}
	}
	again := f.token(t, 0, "")
	if _, err := f.ask(t, again, second, named); !errors.Is(err, identity.ErrNameTaken) ||
		!strings.Contains(err.Error(), "symbio cluster remove "+string(first.ID()[:8])) {
		t.Errorf("got %v, want %v and what to do", err, identity.ErrNameTaken)
	}
	if err := f.Remove(first.ID()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ask(t, again, second, named); err != nil {
		t.Errorf("after the removal, with the same token: %v", err)
	}
}

func TestNameIsOfOneNodeOfManyAtOnce(t *testing.T) {
	f := found(t, "home")
	var joined atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		k, token := key(t), f.token(t, 0, "")
		all.Go(func() {
			if _, err := f.ask(t, token, k, func(r *pb.JoinRequest) { r.Name = "desk" }); err == nil {
				joined.Add(1)
			}
		})
	}
	if all.Wait(); joined.Load() != 1 {
		t.Errorf("%d nodes of one name joined", joined.Load())
	}
}

func TestRefusedJoinDoesNotUseTheTokenUp(t *testing.T) {
	f := found(t, "home")
	token, k := f.token(t, 0, ""), key(t)
	if _, err := f.ask(t, token, k, func(r *pb.JoinRequest) { r.Clock.Seconds += 3600 }); !errors.Is(err, identity.ErrSkew) {
		t.Fatalf("got %v, want %v", err, identity.ErrSkew)
	}
	for range 2 { // an answer that was lost may be asked for again
		if _, err := f.ask(t, token, k); err != nil {
			t.Error(err)
		}
	}
	if _, err := f.ask(t, token, key(t)); !errors.Is(err, identity.ErrTokenUsed) {
		t.Errorf("another node with it: got %v, want %v", err, identity.ErrTokenUsed)
	}
}

func TestProofIsOfOneConnectionOnly(t *testing.T) {
	f := found(t, "home")
	token := f.token(t, 0, "")
	_, c, _, _ := handshake(t, f.seed.JoinTLS(), token.ClientTLS())
	r, err := token.Request(c, key(t), "")
	if err != nil {
		t.Fatal(err)
	}
	other, _, _, _ := handshake(t, f.seed.JoinTLS(), token.ClientTLS())
	if _, err := f.Admit(other, r); !errors.Is(err, identity.ErrTokenUnknown) {
		t.Errorf("on another connection: got %v, want %v", err, identity.ErrTokenUnknown)
	}
}

// What the authority keeps of a token must not be enough to join with.
func TestAuthorityKeepsNothingThatJoins(t *testing.T) {
	f := found(t, "home")
	token := f.token(t, 0, "")
	parts := strings.Split(token.Text(), "-")
	err := filepath.WalkDir(filepath.Join(f.dir, "tokens"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data)+path, parts[2]) {
			t.Errorf("%s has the token's secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if out := fmt.Sprintf("%v %+v %#v %s %q", token, token, token, token, token); strings.Contains(out, parts[2]) {
		t.Errorf("a token prints its secret: %s", out)
	}
}

func TestTokenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := found(t, "home")
		token := f.token(t, 0, "")
		time.Sleep(time.Hour - time.Second)
		if open, err := f.Ledger().OpenTokens(); len(open) != 1 || err != nil {
			t.Errorf("%v are open, %v; want one token", open, err)
		}
		time.Sleep(2 * time.Second)
		if _, err := f.ask(t, token, key(t)); !errors.Is(err, identity.ErrTokenExpired) || !strings.Contains(err.Error(), "it ended at") {
			t.Errorf("after an hour: got %v, want %v", err, identity.ErrTokenExpired)
		}
		time.Sleep(25 * time.Hour)
		f.token(t, 0, "") // which forgets those that are long over
		if _, err := f.ask(t, token, key(t)); !errors.Is(err, identity.ErrTokenUnknown) {
			t.Errorf("after a day: got %v, want %v", err, identity.ErrTokenUnknown)
		}
		for _, life := range []time.Duration{-time.Second, identity.MaxTokenLife + time.Second} {
			if _, err := f.NewToken(life, ""); err == nil || errors.Is(err, identity.ErrRole) {
				t.Errorf("a token for %v was made", life)
			}
		}
		if _, err := f.NewToken(0, "No Role"); !errors.Is(err, identity.ErrRole) {
			t.Error("a token for a role that is no label was made")
		}
	})
}

func TestOfManyThatUseATokenOneJoins(t *testing.T) {
	f := found(t, "home")
	token := f.token(t, 0, "")
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		k := key(t)
		wg.Go(func() { _, errs[i] = f.ask(t, token, k) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, identity.ErrTokenUsed) {
			t.Errorf("a loser heard %v, want %v", err, identity.ErrTokenUsed)
		}
	}
	if won != 1 {
		t.Errorf("%d joined, want 1", won)
	}
}

// admitOnce is a process that holds the authority and admits one node with the token.
func admitOnce(dir, text string) error {
	t := new(testing.T)
	c, err := identity.OpenCluster(dir)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "symbio")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var keys [2]*identity.Key
	for i := range keys {
		if keys[i], err = identity.LoadOrCreateKey(filepath.Join(tmp, fmt.Sprint(i), "key.pem")); err != nil {
			return err
		}
	}
	seed, err := c.Issue(keys[0], "")
	if err != nil {
		return err
	}
	token, err := identity.ParseToken(text)
	if err != nil {
		return err
	}
	_, err = founded{c, dir, seed}.ask(t, token, keys[1])
	return err
}

func TestOfTwoProcessesThatTakeATokenOneWins(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := found(t, "home")
	for range 3 {
		token := f.token(t, 0, "")
		var (
			wg   sync.WaitGroup
			errs [2]error
			said [2][]byte
		)
		for i := range errs {
			wg.Go(func() {
				cmd := exec.CommandContext(t.Context(), exe)
				cmd.Env = append(os.Environ(), "SYMBIO_TEST_ADMIT="+f.dir, "SYMBIO_TEST_TOKEN="+token.Text())
				said[i], errs[i] = cmd.CombinedOutput()
			})
		}
		wg.Wait()
		loser := said[0]
		if errs[0] == nil {
			loser = said[1]
		}
		if (errs[0] == nil) == (errs[1] == nil) || !strings.Contains(string(loser), identity.ErrTokenUsed.Error()) {
			t.Errorf("got %v %q and %v %q, want one that joined and one that heard that the token is used", errs[0], said[0], errs[1], said[1])
		}
	}
}

func TestCertificateIsRenewedWithoutARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := found(t, "home")
		node, dir := f.join(t, "worker")
		server := node.ServerTLS() // made once, as a node does
		if f.seed.Due() || node.Due() {
			t.Error("a new certificate is due already")
		}
		renew := func() error {
			r, err := node.RenewRequest()
			if err != nil {
				t.Fatal(err)
			}
			reply, err := f.Renew(identity.Peer{ID: node.ID(), Authority: "home", Role: "worker"}, r)
			if err != nil {
				return err
			}
			return node.Renewed(reply)
		}
		for day := range 30 {
			time.Sleep(24 * time.Hour)
			if node.Due() {
				if err := renew(); err != nil {
					t.Fatalf("day %d: %v", day, err)
				}
			}
			if _, _, serverErr, clientErr := handshake(t, server, f.seed.ClientTLS(node.ID())); serverErr != nil || clientErr != nil {
				t.Fatalf("day %d: server %v, client %v", day, serverErr, clientErr)
			}
		}
		if again, err := identity.OpenMember(dir, key(t)); err == nil {
			t.Errorf("another key opened the membership: %v", again)
		}
		if err := f.Remove(node.ID()); err != nil {
			t.Fatal(err)
		}
		if err := renew(); !errors.Is(err, identity.ErrRemoved) {
			t.Errorf("a removed node renews: got %v, want %v", err, identity.ErrRemoved)
		}
	})
}

func TestRenewalIsForTheSameKeyOnly(t *testing.T) {
	f := found(t, "home")
	node, _ := f.join(t, "")
	r, err := node.RenewRequest()
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]identity.Peer{
		"another node":      {ID: f.seed.ID(), Authority: "home", Role: "node"},
		"another authority": {ID: node.ID(), Authority: "local", Role: "node"},
	} {
		if _, err := f.Renew(p, r); !errors.Is(err, identity.ErrBadRequest) {
			t.Errorf("%s: got %v, want %v", name, err, identity.ErrBadRequest)
		}
	}
	reply, err := f.Renew(identity.Peer{ID: node.ID(), Authority: "home", Role: "admin"}, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Renewed(reply); err == nil {
		t.Error("a node took a certificate of another role")
	}
}

// A certificate that has ended is good for one thing: the next one, for the same key, within the grace time.
func TestRenewLate(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name   string
		away   time.Duration
		change func(t *testing.T, f founded, node *identity.Identity) *identity.Identity // nil = none; returns who asks for the renewal
		want   error
	}{
		{"inside validity", 5 * day, nil, nil},
		{"just ended", 7*day + time.Minute, nil, nil},
		{"at the end of the grace time", 36 * day, nil, nil},
		{"past the grace time", 38 * day, nil, identity.ErrExpired},
		{"removed", 10 * day, func(t *testing.T, f founded, node *identity.Identity) *identity.Identity {
			if err := f.Remove(node.ID()); err != nil {
				t.Fatal(err)
			}
			return node
		}, identity.ErrRemoved},
		{"removed, past the grace time", 38 * day, func(t *testing.T, f founded, node *identity.Identity) *identity.Identity {
			if err := f.Remove(node.ID()); err != nil {
				t.Fatal(err)
			}
			return node
		}, identity.ErrRemoved},
		{"for another key", 10 * day, func(t *testing.T, f founded, _ *identity.Identity) *identity.Identity {
			other, _ := f.join(t, "")
			return other
		}, identity.ErrBadRequest},
		{"a clock from before the certificate", -10 * time.Minute, nil, identity.ErrNotYetValid},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := found(t, "home")
				node, dir := f.join(t, "worker")
				time.Sleep(max(0, c.away))
				server, client, serverErr, clientErr := handshake(t, f.seed.JoinTLS(), node.ProtocolClientTLS(identity.JoinProtocol, f.seed.ID()))
				if serverErr != nil || clientErr != nil || client.NegotiatedProtocol != identity.JoinProtocol {
					t.Fatalf("the handshake: server %v, client %v", serverErr, clientErr)
				}
				asks := node
				if c.change != nil {
					asks = c.change(t, f, node)
				}
				r, err := asks.RenewRequest()
				if err != nil {
					t.Fatal(err)
				}
				if c.away < 0 {
					server.PeerCertificates = []*x509.Certificate{later(t, f, node)}
				}
				reply, err := f.RenewLate(server, r, identity.Grace)
				if !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				if err != nil {
					return
				}
				if err := node.Renewed(reply); err != nil {
					t.Fatal(err)
				}
				again, err := identity.Reopen(dir, node)
				if err != nil || again.Expired() {
					t.Fatalf("opened again: %v, %v", again, err)
				}
				s, _, serverErr, clientErr := handshake(t, f.seed.ServerTLS(), again.ClientTLS(""))
				if p, _ := identity.PeerOf(s); serverErr != nil || clientErr != nil || p.Role != "worker" || p.ID != node.ID() {
					t.Errorf("it is %+v (%v, %v), want the worker it was", p, serverErr, clientErr)
				}
			})
		})
	}
}

func TestRenewLateIsForThisClusterOnly(t *testing.T) {
	f, other := found(t, "home"), found(t, "home")
	node, _ := other.join(t, "")
	r, err := node.RenewRequest()
	if err != nil {
		t.Fatal(err)
	}
	s, _, _, _ := handshake(t, other.seed.JoinTLS(), node.ProtocolClientTLS(identity.JoinProtocol, "")) // the proof of another cluster's certificate
	if _, err := f.RenewLate(s, r, identity.Grace); !errors.Is(err, identity.ErrBadRequest) {
		t.Errorf("a certificate of another cluster: got %v, want %v", err, identity.ErrBadRequest)
	}
	if _, _, _, err := handshake(t, f.seed.JoinTLS(), node.ProtocolClientTLS(identity.JoinProtocol, "")); !errors.Is(node.Explain(err), identity.ErrOtherAuthority) {
		t.Errorf("asking another cluster: got %v, want %v", err, identity.ErrOtherAuthority)
	}
	token := f.token(t, 0, "")
	bare, _, _, err := handshake(t, f.seed.JoinTLS(), token.ClientTLS())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.RenewLate(bare, r, identity.Grace); !errors.Is(err, identity.ErrBadRequest) {
		t.Errorf("without a certificate: got %v, want %v", err, identity.ErrBadRequest)
	}
}

// later is a certificate of the node that was made by a clock that is ahead.
func later(t *testing.T, f founded, node *identity.Identity) *x509.Certificate {
	t.Helper()
	der, err := node.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	leaf.NotBefore = time.Now().Add(10 * time.Minute)
	return leaf
}

// Both sides of a refusal say what was wrong: whose clock, an end, or a removal, and what helps.
func TestRefusedCertificateIsExplainedOnBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := found(t, "home")
		node, _ := f.join(t, "")
		at := func(c *tls.Config, off time.Duration) *tls.Config {
			c.Time = func() time.Time { return time.Now().Add(off) }
			return c
		}
		for _, c := range []struct {
			name           string
			server, client *tls.Config
			serverSays     string
			clientSays     string
		}{
			{"the called one's clock is ahead", at(f.seed.ServerTLS(), 8*24*time.Hour), node.ClientTLS(""), "expired: it ended at", "by the clock there is not now"},
			{"the called one's clock is behind", at(f.seed.ServerTLS(), -time.Hour), node.ClientTLS(""), "expired", "set the one that is wrong"},
			{"the caller's clock is ahead", f.seed.ServerTLS(), at(node.ClientTLS(""), 8*24*time.Hour), "did not say why", "set the clock here if it is ahead"},
		} {
			_, _, serverErr, clientErr := handshake(t, c.server, c.client)
			for side, said := range map[string][2]string{
				"server": {f.seed.ExplainCaller(serverErr).Error(), c.serverSays}, "client": {node.Explain(clientErr).Error(), c.clientSays},
			} {
				if !strings.Contains(said[0], said[1]) || strings.Contains(said[0], "removed") || strings.Contains(said[0], "join") {
					t.Errorf("%s: the %s says %q, want %q and nothing of removal", c.name, side, said[0], said[1])
				}
			}
		}
		time.Sleep(8 * 24 * time.Hour)
		_, _, serverErr, clientErr := handshake(t, f.seed.ServerTLS(), node.ClientTLS(""))
		if got := f.seed.ExplainCaller(serverErr); !errors.Is(got, identity.ErrExpired) ||
			!strings.Contains(got.Error(), "renewed once it reaches") {
			t.Errorf("who meets an expired one: got %v, want %v", got, identity.ErrExpired)
		}
		if got := node.Explain(clientErr); !errors.Is(got, identity.ErrRejected) ||
			!strings.Contains(got.Error(), "start a node that holds the authority") {
			t.Errorf("the expired one: got %v, want %v", got, identity.ErrRejected)
		}
	})
}

func TestRemovedNodeIsRefusedInEveryHandshake(t *testing.T) {
	f := found(t, "home")
	eve, eveDir := f.join(t, "")
	bob, bobDir := f.join(t, "")
	trusts(t, bob, eve)
	_, changed := bob.Revocations().Current()
	if err := f.Remove(eve.ID()); err != nil {
		t.Fatal(err)
	}
	list, _ := f.Revocations().Current()
	if did, err := bob.Revocations().Update(list); !did || err != nil {
		t.Fatalf("bob took the list: %t, %v", did, err)
	}
	select {
	case <-changed.Done():
	default:
		t.Error("nobody was told of the change")
	}
	_, _, serverErr, clientErr := handshake(t, bob.ServerTLS(), eve.ClientTLS(""))
	if !errors.Is(serverErr, identity.ErrRemoved) {
		t.Errorf("as a client: got %v, want %v", serverErr, identity.ErrRemoved)
	}
	if got := eve.Explain(clientErr); !errors.Is(got, identity.ErrRejected) || !strings.Contains(got.Error(), "symbio cluster leave") {
		t.Errorf("the removed node hears %v, want that it may have been removed", got)
	}
	if _, _, _, err := handshake(t, eve.ServerTLS(), bob.ClientTLS("")); !errors.Is(err, identity.ErrRemoved) {
		t.Errorf("as a server: got %v, want %v", err, identity.ErrRemoved)
	}
	// The list outlives the process, at each node that has it.
	if r, err := identity.OpenCluster(f.dir); err != nil || !r.Revocations().Has(eve.ID()) {
		t.Errorf("the authority forgot: %v", err)
	}
	if r, err := openList(t, bobDir, bob); err != nil || !r.Has(eve.ID()) {
		t.Errorf("bob forgot: %v", err)
	}
	if _, err := eve.Revocations().Update(list); err != nil {
		t.Error(err)
	}
	if _, err := openList(t, eveDir, eve); !errors.Is(err, identity.ErrRemoved) {
		t.Errorf("the removed node starts with %v, want %v", err, identity.ErrRemoved)
	}
}

// openList reads the list in a node's folder as the node does when it starts.
func openList(t *testing.T, dir string, i *identity.Identity) (*identity.Revocations, error) {
	t.Helper()
	again, err := identity.Reopen(dir, i)
	if err != nil {
		return nil, err
	}
	return again.Revocations(), nil
}

func TestListsOfRemovedNodesOnlyGrow(t *testing.T) {
	f, away := found(t, "home"), found(t, "away")
	bob, _ := f.join(t, "")
	lists := []*pb.Revocations{}
	for range 3 {
		if err := f.Remove(key(t).ID()); err != nil {
			t.Fatal(err)
		}
		l, _ := f.Revocations().Current()
		lists = append(lists, l)
	}
	if err := away.Remove(key(t).ID()); err != nil {
		t.Fatal(err)
	}
	r := bob.Revocations()
	if did, err := r.Update(lists[1]); !did || err != nil {
		t.Fatalf("the second list: %t, %v", did, err)
	}
	foreign, _ := away.Revocations().Current()
	foreign = proto.CloneOf(foreign)
	foreign.Epoch = 9
	for _, c := range []struct {
		name string
		list *pb.Revocations
		did  bool
		ok   bool
	}{
		{"none", nil, false, true},
		{"an older one", lists[0], false, true},
		{"the same", lists[1], false, true},
		{"another cluster's", foreign, false, false},
		{"an epoch that was changed", &pb.Revocations{Epoch: 7, Nodes: lists[2].GetNodes(), Signature: lists[2].GetSignature()}, false, false},
		{"a node less", &pb.Revocations{Epoch: 3, Nodes: lists[2].GetNodes()[1:], Signature: lists[2].GetSignature()}, false, false},
		{"no signature", &pb.Revocations{Epoch: 3, Nodes: lists[2].GetNodes()}, false, false},
		{"the next", lists[2], true, true},
	} {
		if did, err := r.Update(c.list); did != c.did || (err == nil) != c.ok {
			t.Errorf("%s: taken %t, %v; want %t, no error: %t", c.name, did, err, c.did, c.ok)
		}
	}
	if l, _ := r.Current(); l.GetEpoch() != 3 || len(l.GetNodes()) != 3 {
		t.Errorf("bob has epoch %d with %d nodes, want 3 with 3", l.GetEpoch(), len(l.GetNodes()))
	}
	var none *identity.Revocations
	if did, err := none.Update(lists[2]); did || err != nil || none.Has(bob.ID()) || none.Reload() != nil {
		t.Error("no list is not an empty one")
	}
}

func TestTwoProcessesRemoveNodesAtOnce(t *testing.T) {
	f := found(t, "home")
	var wg sync.WaitGroup
	for range 4 {
		c, err := identity.OpenCluster(f.dir) // as another process has it
		if err != nil {
			t.Fatal(err)
		}
		id := key(t).ID()
		wg.Go(func() {
			if err := c.Remove(id); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := f.Revocations().Reload(); err != nil {
		t.Fatal(err)
	}
	if l, _ := f.Revocations().Current(); l.GetEpoch() != 4 || len(l.GetNodes()) != 4 {
		t.Errorf("got epoch %d with %d nodes, want 4 with 4", l.GetEpoch(), len(l.GetNodes()))
	}
}

func FuzzParseToken(f *testing.F) {
	token := found(f, "home").token(f, 0, "")
	f.Add(token.Text())
	f.Add(" " + token.Text() + "\n")
	f.Add(strings.ToLower(token.Text()))
	f.Add(token.Text()[:60])
	f.Add("SYM1--")
	f.Add("SYM1-" + strings.Repeat("A", 52) + "-" + strings.Repeat("7", 32))
	f.Fuzz(func(t *testing.T, text string) {
		token, err := identity.ParseToken(text)
		if err != nil {
			if len(text) > 20 && strings.Contains(err.Error(), text) {
				t.Errorf("the error repeats the text: %v", err)
			}
			return
		}
		if token.Text() != strings.TrimSpace(text) {
			t.Errorf("%q was read as %q", text, token.Text())
		}
	})
}

func FuzzJoinMessages(f *testing.F) {
	home := found(f, "home")
	token := home.token(f, 0, "")
	k := key(f)
	s, c, _, _ := handshake(f, home.seed.JoinTLS(), token.ClientTLS())
	r, err := token.Request(c, k, "x\x1b[0m")
	if err != nil {
		f.Fatal(err)
	}
	reply, err := home.Admit(s, r)
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range []proto.Message{r, reply, &pb.RenewRequest{Request: r.GetRequest()},
		&pb.Revocations{Epoch: 1, Nodes: []string{"x"}}} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	admitted := sha256.Sum256(reply.GetCertificate())
	f.Fuzz(func(t *testing.T, b []byte) {
		var request pb.JoinRequest
		if proto.Unmarshal(b, &request) == nil {
			if _, err := home.Admit(tls.ConnectionState{}, &request); err == nil {
				t.Error("a request without a connection was admitted")
			}
			if _, err := home.Admit(s, &request); err == nil && string(request.GetRequest()) != string(r.GetRequest()) {
				t.Error("another request than the proven one was admitted")
			}
		}
		var answer pb.JoinReply
		if proto.Unmarshal(b, &answer) == nil {
			if _, err := token.Accept(&answer, k); err == nil && sha256.Sum256(answer.GetCertificate()) != admitted {
				t.Error("a certificate that the authority did not make was accepted")
			}
		}
		var renewal pb.RenewRequest
		if proto.Unmarshal(b, &renewal) == nil {
			if _, err := home.Renew(identity.Peer{ID: home.seed.ID(), Authority: "home", Role: "node"}, &renewal); err == nil {
				t.Error("a request for another key was renewed")
			}
		}
		var list pb.Revocations
		if proto.Unmarshal(b, &list) == nil {
			if did, err := home.Revocations().Update(&list); did {
				t.Errorf("an unsigned list was taken: %v, %v", &list, err)
			}
		}
	})
}
