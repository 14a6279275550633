package identity

import (
	"crypto/ed25519"
	"crypto/hpke"
	"crypto/x509"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "symbio/proto/symbio/v1"
)

func TestExplainTellsEarlyFromLate(t *testing.T) {
	now := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	c := &x509.Certificate{NotBefore: now.Add(time.Hour), NotAfter: now.Add(2 * time.Hour)}
	e := x509.CertificateInvalidError{Cert: c, Reason: x509.Expired}
	if err := explainInvalid(e, now); !errors.Is(err, ErrNotYetValid) {
		t.Errorf("before its time: got %v", err)
	}
	if err := explainInvalid(e, now.Add(3*time.Hour)); !errors.Is(err, ErrExpired) {
		t.Errorf("after its time: got %v", err)
	}
}

func TestCertificateMustBeOfItsKey(t *testing.T) {
	dir := t.TempDir()
	a, err := OpenLocalAuthority(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := LoadOrCreateKey(filepath.Join(dir, "k", "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	// Even the authority cannot give a node's id to another key.
	forged := &Key{id: NodeID(strings.Repeat("ab", 16)), private: k.private}
	c, err := a.certifyAs(Peer{ID: forged.id, Authority: a.name, Role: roleNode}, k.public(), time.Now(), nodeLife)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := peerOf(c); !errors.Is(err, ErrNotNode) {
		t.Errorf("got %+v, %v; want %v", p, err, ErrNotNode)
	}
	// An authority of another make may sign what is no label.
	for _, labels := range []Labels{"room=kitchen,room=cellar", "gpu", Labels(strings.Repeat("x", 1000)) + "=1"} {
		c, err := a.certifyAs(Peer{ID: k.id, Authority: a.name, Role: roleNode, Labels: labels}, k.public(), time.Now(), nodeLife)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := peerOf(c); !errors.Is(err, ErrNotNode) {
			t.Errorf("with the labels %q: got %+v, %v; want %v", labels, p, err, ErrNotNode)
		}
	}
	if p, err := peerOf(&x509.Certificate{}); !errors.Is(err, ErrNotNode) {
		t.Errorf("a certificate without a URI: got %+v, %v; want %v", p, err, ErrNotNode)
	}
}

func TestOnlyTheExactURINamesANode(t *testing.T) {
	id := strings.Repeat("0a", 16)
	for uri, ok := range map[string]bool{
		"symbio://local/node/" + id:                  true,
		"symbio://my-cluster/worker/" + id:           true,
		"Symbio://local/node/" + id:                  true, // a URI's scheme has no case; url.Parse lowers it
		"https://local/node/" + id:                   false,
		"symbio://Local/node/" + id:                  false,
		"symbio://local/node/" + strings.ToUpper(id): false,
		"symbio://local/node/" + id + "/":            false,
		"symbio://local/node/" + id + "?a=b":         false,
		"symbio://local/node/" + id + "?":            false,
		"symbio://local/node/" + id + "#x":           false,
		"symbio://u@local/node/" + id:                false,
		"symbio://local:1/node/" + id:                false,
		"symbio:local/node/" + id:                    false,
		"symbio:///node/" + id:                       false,
		"symbio://local//" + id:                      false,
		"symbio://local/no%64e/" + id:                false,
		"symbio://local/n/../node/" + id:             false,
		"symbio://local/node/" + id[:30]:             false,
		"symbio://-x/node/" + id:                     false,
	} {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatalf("%s: %v", uri, err)
		}
		if p, err := parseURI(u); (err == nil) != ok {
			t.Errorf("%s: got %+v, %v; want accepted: %t", uri, p, err, ok)
		}
	}
}

func FuzzKeyFile(f *testing.F) {
	data, err := newAuthority(Local, "")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	if data, err = newAuthority("home", ""); err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)/3])
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if k, err := parseKey(data); err == nil {
			if _, err := ParseNodeID(string(k.ID())); err != nil {
				t.Errorf("a key with a bad id: %v", err)
			}
		}
		if a, err := parseAuthority(data); err == nil && (!label(a.name) || len(a.tag) != 16) {
			t.Errorf("a broken authority was accepted: %v", a)
		}
	})
}

func FuzzURI(f *testing.F) {
	f.Add("symbio://local/node/" + strings.Repeat("0a", 16))
	f.Add("symbio://u:p@local/node/00?#")
	f.Add("symbio://local/no%64e/" + strings.Repeat("0a", 16))
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil {
			return
		}
		p, err := parseURI(u)
		if err != nil {
			return
		}
		if got := nodeURI(p).String(); !strings.EqualFold(got, s) {
			t.Errorf("%q was read as %+v, which is %q", s, p, got)
		}
	})
}

func FuzzCertificate(f *testing.F) {
	a, err := OpenLocalAuthority(filepath.Join(f.TempDir(), "a"))
	if err != nil {
		f.Fatal(err)
	}
	k, err := LoadOrCreateKey(filepath.Join(f.TempDir(), "k", "key.pem"))
	if err != nil {
		f.Fatal(err)
	}
	c, err := a.certify(k.public(), Peer{Role: roleNode}, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(c.Raw)
	f.Add(a.certificate.Raw)
	f.Fuzz(func(t *testing.T, der []byte) {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return
		}
		if p, err := peerOf(c); err == nil && p.ID != idOf(c.RawSubjectPublicKeyInfo) {
			t.Errorf("a certificate names %s, its key is of %s", p.ID, idOf(c.RawSubjectPublicKeyInfo))
		}
	})
}

// What a person reads when a clock is wrong or a certificate has ended: both times, and what to do.
func TestTimesThatDoNotFitAreSaidInWords(t *testing.T) {
	now := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	c := &x509.Certificate{NotBefore: now.Add(time.Hour), NotAfter: now.Add(2 * time.Hour)}
	e := x509.CertificateInvalidError{Cert: c, Reason: x509.Expired}
	for want, at := range map[string]time.Time{
		"its certificate is not valid yet: it begins at 2026-01-10T01:00:00Z and the clock here says 2026-01-10T00:00:00Z; set the clock here if it is behind, else that of the node that holds the authority": now,
		"its certificate has expired: it ended at 2026-01-10T02:00:00Z and the clock here says 2026-01-10T03:00:00Z; " +
			"set the clock here if it is ahead, else restart that node: in a cluster it is renewed once it reaches a node that holds the authority": now.Add(3 * time.Hour),
	} {
		if got := explainInvalid(e, at).Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Certificates tolerate clocks that differ by 5 minutes, and no more.
func TestClockMayBeFiveMinutesWrong(t *testing.T) {
	dir := t.TempDir()
	a, err := OpenLocalAuthority(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := LoadOrCreateKey(filepath.Join(dir, "k", "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	made := time.Now()
	leaf, err := a.certify(k.public(), Peer{Role: roleNode}, made)
	if err != nil {
		t.Fatal(err)
	}
	for off, ok := range map[time.Duration]bool{
		-9 * time.Minute: true, -11 * time.Minute: false, // it is dated back by 5 minutes, and 5 are tolerated
		nodeLife + 4*time.Minute: true, nodeLife + 6*time.Minute: false,
	} {
		if _, err := a.verify(leaf, made.Add(off)); (err == nil) != ok {
			t.Errorf("%v after it was made: %v; want it taken: %t", off, err, ok)
		}
	}
}

// A key that somebody else signed as if it were the node's is not sealed to.
func TestAuthorityIsSealedToTheKeyOfThatNodeOnly(t *testing.T) {
	c, err := CreateCluster(filepath.Join(t.TempDir(), "cluster"), "home")
	if err != nil {
		t.Fatal(err)
	}
	var keys [3]*Key
	for i := range keys {
		if keys[i], err = LoadOrCreateKey(filepath.Join(t.TempDir(), "node", "key.pem")); err != nil {
			t.Fatal(err)
		}
	}
	seed, bob, eve := keys[0], keys[1], keys[2]
	sealTo, err := hpke.MLKEM768X25519().GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	prepared := func(signer *Key, of *Key) *pb.PrepareReply {
		spki, err := x509.MarshalPKIXPublicKey(of.public())
		if err != nil {
			t.Fatal(err)
		}
		key := sealTo.PublicKey().Bytes()
		return &pb.PrepareReply{Key: key, NodeKey: spki,
			Signature: ed25519.Sign(signer.private(), entrustText(c.authority, seed.id, bob.id, key))}
	}
	for name, p := range map[string]*pb.PrepareReply{"eve's key, signed by eve": prepared(eve, eve),
		"bob's key, signed by eve": prepared(eve, bob)} {
		if _, err := c.Entrust(seed.id, bob.id, p); !errors.Is(err, ErrWrongNode) {
			t.Errorf("%s: got %v, want %v", name, err, ErrWrongNode)
		}
	}
	if _, err := c.Entrust(seed.id, bob.id, prepared(bob, bob)); err != nil {
		t.Errorf("bob's own: %v", err)
	}
}
