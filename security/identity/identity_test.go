package identity_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/security/identity"
)

func authority(t testing.TB) *identity.Authority {
	t.Helper()
	a, err := identity.OpenLocalAuthority(filepath.Join(t.TempDir(), "authority"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t testing.TB, a *identity.Authority) *identity.Identity {
	t.Helper()
	k, err := identity.LoadOrCreateKey(filepath.Join(t.TempDir(), "node", "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	i, err := a.Issue(k)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestKeyIsMadeOnceAndKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node", "key.pem")
	first, err := identity.LoadOrCreateKey(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := identity.LoadOrCreateKey(file)
	if err != nil {
		t.Fatal(err)
	}
	if first.ID() != again.ID() {
		t.Errorf("the second start has id %s, the first had %s", again.ID(), first.ID())
	}
	if _, err := identity.ParseNodeID(string(first.ID())); err != nil {
		t.Errorf("id %q: %v", first.ID(), err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
		stat, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := stat.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", path, got, want)
		}
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*"))
	if len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

func TestUnsafeOrBrokenKeyFileIsRefusedAndNotTouched(t *testing.T) {
	good := filepath.Join(t.TempDir(), "node", "key.pem")
	if _, err := identity.LoadOrCreateKey(good); err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		content string
		file    os.FileMode
		dir     os.FileMode
		want    string
		unix    bool
	}{
		{"readable by others", string(pem), 0o644, 0o700, "chmod 600", true},
		{"readable by the group", string(pem), 0o640, 0o700, "chmod 600", true},
		{"folder writable by others", string(pem), 0o600, 0o777, "chmod 700", true},
		{"empty", "", 0o600, 0o700, "move it away", false},
		{"garbage", "not a key", 0o600, 0o700, "move it away", false},
		{"cut off", string(pem[:len(pem)/2]), 0o600, 0o700, "move it away", false},
		{"text before it", "hello\n" + string(pem), 0o600, 0o700, "move it away", false},
		{"two keys", string(pem) + string(pem), 0o600, 0o700, "move it away", false},
		{"huge", strings.Repeat("a", 1<<20), 0o600, 0o700, "move it away", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.unix && runtime.GOOS == "windows" {
				t.Skip("Windows has no mode bits")
			}
			file := filepath.Join(t.TempDir(), "node", "key.pem")
			if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(c.content), 0o600),
				os.Chmod(file, c.file), os.Chmod(filepath.Dir(file), c.dir)); err != nil {
				t.Fatal(err)
			}
			_, err := identity.LoadOrCreateKey(file)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), filepath.Dir(file)) {
				t.Errorf("got error %v, want one that names the file and says %q", err, c.want)
			}
			if now, err := os.ReadFile(file); err != nil || string(now) != c.content {
				t.Error("the file was changed")
			}
		})
	}
}

func TestNodesThatStartAtOnceShareOneAuthority(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "authority")
	const nodes = 32
	var (
		wg   sync.WaitGroup
		tags [nodes]string
	)
	for i := range nodes {
		wg.Go(func() {
			a, err := identity.OpenLocalAuthority(dir)
			if err != nil {
				t.Error(err)
				return
			}
			tags[i] = a.Tag()
		})
	}
	wg.Wait()
	for i, tag := range tags {
		if tag != tags[0] {
			t.Fatalf("node %d has authority %s, node 0 has %s", i, tag, tags[0])
		}
	}
}

// TestMain lets tests start this program as a process that only opens an authority, or admits a node.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SYMBIO_TEST_OPEN_AUTHORITY"); dir != "" {
		a, err := identity.OpenLocalAuthority(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(a.Tag())
		os.Exit(0)
	}
	if dir := os.Getenv("SYMBIO_TEST_ADMIT"); dir != "" {
		if err := admitOnce(dir, os.Getenv("SYMBIO_TEST_TOKEN")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestProcessesThatStartAtOnceShareOneAuthority(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "authority")
	var (
		wg   sync.WaitGroup
		tags [6]string
	)
	for i := range tags {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), "SYMBIO_TEST_OPEN_AUTHORITY="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			tags[i] = string(out)
		})
	}
	wg.Wait()
	for _, tag := range tags {
		if tag != tags[0] {
			t.Fatalf("processes have different authorities: %q", tags)
		}
	}
}

func TestBrokenAuthorityIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "authority")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "authority.pem"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.OpenLocalAuthority(dir); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
}

func TestPrivateKeyIsNeverPrinted(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "node", "key.pem")
	k, err := identity.LoadOrCreateKey(file)
	if err != nil {
		t.Fatal(err)
	}
	a, err := identity.OpenLocalAuthority(filepath.Join(dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	i, err := a.Issue(k)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{k, *k, a, i, struct{ K *identity.Key }{k}, struct{ k identity.Key }{*k}, []any{*k, a, i}} {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%c"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		_ = json.NewEncoder(&out).Encode(v)
		if out.Len() > 6000 { // a key printed as numbers is long in every format
			t.Errorf("%T prints %d bytes: %s", v, out.Len(), out.String())
		}
		for _, secret := range secrets(t, file, filepath.Join(dir, "authority", "authority.pem")) {
			if bytes.Contains(out.Bytes(), []byte(secret)) {
				t.Errorf("%T prints the key: %s", v, out.String())
			}
		}
	}
}

// handshake connects a client to a server over a pipe and returns what each side made of it.
func handshake(t testing.TB, server, client *tls.Config) (s, c tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan struct{})
	sc, cc := tls.Server(a, server), tls.Client(b, client)
	go func() {
		defer close(done)
		if serverErr = sc.Handshake(); serverErr == nil {
			_, serverErr = sc.Write([]byte("x"))
		}
		a.Close()
	}()
	if clientErr = cc.Handshake(); clientErr == nil {
		// In TLS 1.3 a client learns only from its first read that the server refused it.
		_, clientErr = cc.Read(make([]byte, 1))
	}
	c = cc.ConnectionState()
	b.Close()
	<-done
	return sc.ConnectionState(), c, serverErr, clientErr
}

func TestNodesOfOneAuthorityTrustEachOther(t *testing.T) {
	a := authority(t)
	ann, bob := issue(t, a), issue(t, a)
	for _, expect := range []identity.NodeID{"", ann.ID()} {
		s, c, serverErr, clientErr := handshake(t, ann.ServerTLS(), bob.ClientTLS(expect))
		if serverErr != nil || clientErr != nil {
			t.Fatalf("expecting %q: server: %v, client: %v", expect, serverErr, clientErr)
		}
		if s.Version != tls.VersionTLS13 || c.NegotiatedProtocol != "h2" {
			t.Errorf("got TLS %x and protocol %q, want 1.3 and h2", s.Version, c.NegotiatedProtocol)
		}
		for name, got := range map[string]struct {
			state tls.ConnectionState
			want  identity.NodeID
		}{"client": {s, bob.ID()}, "server": {c, ann.ID()}} {
			p, err := identity.PeerOf(got.state)
			want := identity.Peer{ID: got.want, Authority: "local", Role: "node"}
			if err != nil || p != want {
				t.Errorf("the %s is %+v, %v; want %+v", name, p, err, want)
			}
		}
	}
}

func TestForeignNodesAreRefusedWithReason(t *testing.T) {
	home, away := authority(t), authority(t)
	ann, bob, eve := issue(t, home), issue(t, home), issue(t, away)
	old := func(c *tls.Config) *tls.Config {
		c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		return c
	}
	bare := func(c *tls.Config) *tls.Config { c.GetClientCertificate = nil; return c }
	h1 := func(c *tls.Config) *tls.Config { c.NextProtos = nil; return c }
	blind := func(c *tls.Config) *tls.Config { // a client that does not check the server
		c.InsecureSkipVerify, c.VerifyConnection = true, nil
		return c
	}
	for _, c := range []struct {
		name           string
		server, client *tls.Config
		serverWant     error // nil: any error, or none
		clientWant     error
	}{
		{"server of another authority", eve.ServerTLS(), ann.ClientTLS(""), nil, identity.ErrOtherAuthority},
		{"client of another authority", ann.ServerTLS(), blind(eve.ClientTLS("")), identity.ErrOtherAuthority, identity.ErrRejected},
		{"another node than expected", bob.ServerTLS(), ann.ClientTLS(issue(t, home).ID()), nil, identity.ErrWrongNode},
		{"client without a certificate", ann.ServerTLS(), bare(bob.ClientTLS("")), nil, identity.ErrRejected},
		{"client of TLS 1.2", ann.ServerTLS(), old(bob.ClientTLS("")), nil, nil},
		{"client that speaks no HTTP/2", ann.ServerTLS(), h1(bob.ClientTLS("")), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, serverErr, clientErr := handshake(t, c.server, c.client)
			if serverErr == nil || clientErr == nil {
				t.Fatalf("a side accepted: server %v, client %v", serverErr, clientErr)
			}
			if got := ann.Explain(serverErr); c.serverWant != nil && !errors.Is(got, c.serverWant) {
				t.Errorf("server: got %v, want %v", got, c.serverWant)
			}
			if got := ann.Explain(clientErr); c.clientWant != nil && !errors.Is(got, c.clientWant) {
				t.Errorf("client: got %v (of %v), want %v", got, clientErr, c.clientWant)
			}
		})
	}
}

func TestPlaintextIsNamed(t *testing.T) {
	ann := issue(t, authority(t))
	a, b := net.Pipe()
	go func() {
		_, _ = b.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		_, _ = b.Read(make([]byte, 64))
		b.Close()
	}()
	err := tls.Server(a, ann.ServerTLS()).Handshake()
	a.Close()
	if got := ann.Explain(err); !errors.Is(got, identity.ErrPlaintext) {
		t.Errorf("got %v, want %v", got, identity.ErrPlaintext)
	}
}

func TestLongRunningNodeRenewsItsCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := authority(t)
		ann, bob := issue(t, a), issue(t, a)
		server, client := ann.ServerTLS(), bob.ClientTLS(ann.ID()) // made once, as a node does
		first := ann.NotAfter()
		if got := time.Until(first); got != 7*24*time.Hour {
			t.Errorf("a certificate lasts %v, want 7 days", got)
		}
		for day := range 30 {
			if _, _, serverErr, clientErr := handshake(t, server, client); serverErr != nil || clientErr != nil {
				t.Fatalf("day %d: server %v, client %v", day, serverErr, clientErr)
			}
			if left := time.Until(ann.NotAfter()); left < 3*24*time.Hour {
				t.Errorf("day %d: the certificate ends in %v, want it renewed at half its life", day, left)
			}
			time.Sleep(24 * time.Hour)
		}
	})
}

func TestClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := authority(t)
		ann, bob := issue(t, a), issue(t, a)
		for _, c := range []struct {
			name  string
			ahead time.Duration // how far bob's clock is ahead of ann's
			want  error
		}{
			{"4 minutes behind", -4 * time.Minute, nil},
			{"10 minutes behind", -10 * time.Minute, identity.ErrNotYetValid},
			{"a day ahead", 24 * time.Hour, nil},
			{"8 days ahead", 8 * 24 * time.Hour, identity.ErrExpired},
		} {
			client := bob.ClientTLS("")
			client.Time = func() time.Time { return time.Now().Add(c.ahead) }
			_, _, _, err := handshake(t, ann.ServerTLS(), client)
			if c.want == nil && err != nil || c.want != nil && err == nil {
				t.Errorf("%s: got %v, want %v", c.name, err, c.want)
			}
			// Explain uses the real clock; what crypto/tls found is the same either way.
			var invalid x509.CertificateInvalidError
			if c.want != nil && (!errors.As(err, &invalid) || invalid.Reason != x509.Expired) {
				t.Errorf("%s: got %v, want an invalid time", c.name, err)
			}
		}
	})
}

func TestNodeWithoutAnIdentityHasNone(t *testing.T) {
	if p, err := identity.PeerOf(tls.ConnectionState{}); err == nil {
		t.Errorf("an empty connection is %+v", p)
	}
	// A certificate that was shown but not verified proves nothing.
	a := authority(t)
	ann := issue(t, a)
	leaf, err := ann.ServerTLS().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := identity.PeerOf(tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf.Leaf}}); err == nil {
		t.Errorf("an unverified certificate is %+v", p)
	}
	if _, err := a.Issue(nil); err == nil {
		t.Error("an identity without a key was issued")
	}
	if _, err := a.Issue(&identity.Key{}); err == nil {
		t.Error("an identity for an empty key was issued")
	}
}

// secrets returns the private keys in files as they would look in any output: base64, hex, and Go's
// and decimal lists of bytes.
func secrets(t *testing.T, files ...string) []string {
	t.Helper()
	var all []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(data)
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		seed := key.(ed25519.PrivateKey).Seed()
		list := strings.Trim(fmt.Sprint(seed[:8]), "[]")
		all = append(all, fmt.Sprintf("%x", seed[:8]), fmt.Sprintf("%X", seed[:8]), list, strings.ReplaceAll(list, " ", ","),
			strings.Trim(fmt.Sprintf("%#v", seed[:4]), "[]byte{}"), base64.StdEncoding.EncodeToString(seed[:6]))
	}
	return all
}

func TestLifeOfAnAuthorityIsReadWithoutMakingOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "authority")
	if _, _, err := identity.LocalAuthorityLife(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without an authority: %v, want fs.ErrNotExist", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("asking made %s", dir)
	}
	if _, err := identity.OpenLocalAuthority(dir); err != nil {
		t.Fatal(err)
	}
	begins, ends, err := identity.LocalAuthorityLife(dir)
	if now := time.Now(); err != nil || begins.After(now) || ends.Before(now.AddDate(9, 0, 0)) {
		t.Errorf("life from %v to %v (%v), want from now on for about 10 years", begins, ends, err)
	}
	synctest.Test(t, func(t *testing.T) { // in a bubble it is the year 2000
		begins, _, err := identity.LocalAuthorityLife(dir)
		if err == nil || !strings.Contains(err.Error(), "check the clock") || !begins.After(time.Now()) {
			t.Errorf("with a clock that is far behind: begins %v, error %v; want both", begins, err)
		}
	})
}
