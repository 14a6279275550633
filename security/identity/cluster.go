package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"symbio/internal/security/private"
	pb "symbio/proto/symbio/v1"
)

// ErrClusterExists means that the directory already has the authority of a cluster.
var ErrClusterExists = errors.New("this machine holds the authority of a cluster already")

// Cluster is a cluster whose authority is held on this machine: it admits nodes, renews their
// certificates and removes them. Its state is a directory of files that are created once or
// replaced in one step, so several processes may use it at the same time, and all methods may be
// called from many goroutines.
//
// The directory holds authority.pem (the key and the certificate), tokens/ (a ticket for each
// token), nodes/ (a Record for each node) and the lists of removed nodes, removed-EPOCH.
type Cluster struct {
	authority *Authority
	dir       string
	// revoked is never nil. Identity.Hold replaces it by the node's own list before the Cluster is
	// used.
	revoked *Revocations
	admits  sync.Mutex                 // from the check of a name until it is recorded
	issued  atomic.Pointer[credential] // of the latest identity that Issue returned
}

// CreateCluster makes the authority of a new cluster in dir: one file with its key and certificate,
// mode 0600. The name must be a label (see label) other than Local. It returns ErrClusterExists if
// dir has an authority already, of whatever name; of two processes that create one at once, one
// gets that error.
func CreateCluster(dir, name string) (*Cluster, error) {
	if !label(name) || name == Local {
		return nil, fmt.Errorf("cluster name %q: want up to 63 lower-case letters, digits and - inside, and not %q", name, Local)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	data, err := newAuthority(name, "")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, authorityFile)
	if err := private.Create(file, data); errors.Is(err, fs.ErrExist) {
		return nil, ErrClusterExists
	} else if err != nil {
		return nil, fmt.Errorf("write %s: %w", file, err)
	}
	return OpenCluster(dir)
}

// OpenCluster returns the cluster whose authority is in dir. It returns fs.ErrNotExist if there is
// none, or it was replaced and the new one is not here. A damaged file, the local authority, and an authority that has ended or not begun are
// errors that say what to do.
func OpenCluster(dir string) (*Cluster, error) {
	file := filepath.Join(dir, authorityFile)
	data, err := readSecret(file)
	if err != nil {
		return nil, fmt.Errorf("cluster authority: %w", err)
	}
	a, err := parseAuthority(data)
	if err == nil && a.name == Local {
		err = errors.New("is of no cluster")
	}
	if err != nil {
		return nil, fmt.Errorf("cluster authority: %s %w; restore it from a copy, or make the cluster anew", file, err)
	}
	if a, err = a.restored(dir); err != nil {
		return nil, fmt.Errorf("cluster authority: %w", err)
	}
	if a.all().issuer().key == nil {
		return nil, fmt.Errorf("cluster authority: %s was replaced: %w", file, fs.ErrNotExist)
	}
	r, err := openRevocations(a, dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{authority: a, dir: dir, revoked: r}
	if old, s := a.all().replaced(); s.stage() == StageDone && old.key != nil {
		err = destroyOld(c.dir) // a crash has come before
	}
	return c, err
}

// Name returns the cluster's name, which the certificates of its nodes carry.
func (c *Cluster) Name() string { return c.authority.name }

// Tag returns the authority's tag; see Authority.Tag.
func (c *Cluster) Tag() string { return c.authority.tag }

// Revocations returns the list of removed nodes. It is not nil.
func (c *Cluster) Revocations() *Revocations { return c.revoked }

// Issue returns an identity in the cluster for a node of this machine, in the role "node", and
// records it under name. It needs no token: a process that can read the authority's key could make
// a certificate anyway. It returns ErrRemoved for a removed key, and ErrNameTaken if another node has the name. If only the record cannot be
// written, it returns the identity and the error.
func (c *Cluster) Issue(k *Key, name string) (*Identity, error) {
	if k != nil && c.revoked.Has(k.id) {
		return nil, removedHere(c.authority.name)
	}
	i, err := c.authority.Issue(k)
	if err != nil {
		return nil, err
	}
	c.admits.Lock()
	defer c.admits.Unlock()
	if err := c.checkName(k.id, plain(name), time.Now(), "start this node under another name, with symbio up --name NAME"); err != nil {
		return nil, err
	}
	i.revoked = c.revoked
	i.cluster.Store(c)
	c.issued.Store(&i.cred)
	i.cred.openOld(c.dir)
	return i, c.record(i.cred.current.Leaf, name)
}

// removedHere returns ErrRemoved with what the removed node's user can do. The node, not the
// authority, shows it.
func removedHere(cluster string) error {
	return fmt.Errorf("this node: %w (%s); to take it back: symbio cluster leave, which keeps its old identity aside, then symbio cluster join with a new token", ErrRemoved, cluster)
}

// JoinTLS returns the configuration of a listener for nodes that ask to be admitted, or for a new
// certificate after theirs has ended: TLS 1.3, with the authority's certificate behind the node's,
// so that a joiner can compare its hash with the token's. After the authority was replaced both are shown in two versions. A client certificate is requested but not
// verified here, because a joiner has none and a late node's has ended: Cluster.Admit checks the
// token, Cluster.RenewLate the certificate. No other call may be served on such a connection.
func (i *Identity) JoinTLS() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{JoinProtocol},
		SessionTicketsDisabled: true,
		ClientAuth:             tls.RequestClientCert,
		// Called for each handshake, so that a long-lived listener never presents an old
		// certificate.
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			shown, err := i.cred.forServer(hello)
			if err != nil {
				return nil, err
			}
			both := *shown
			both.Certificate = [][]byte{shown.Leaf.Raw, i.cred.authority.all().certifier(shown.Leaf).certificate.Raw}
			if newest, err := i.cred.fresh(); err == nil && newest != shown {
				both.Certificate = append(both.Certificate, newest.Leaf.Raw, i.cred.authority.all().certifier(newest.Leaf).certificate.Raw)
			}
			return &both, nil
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.NegotiatedProtocol != JoinProtocol {
				return errors.New("the other side does not ask to join")
			}
			return nil
		},
	}
}

// Admit answers a request to join that came over the connection with state s, which must be of
// JoinTLS. Its errors are this package's, with words for the joiner. The token is redeemed
// after all checks: an error before that leaves it unused. After that, only the same node can use
// it, and may ask again until the token ends.
//
// The reply has the certificate, the authority's certificate and the newest list of removed nodes.
// If only the record cannot be written, Admit returns the reply and the error.
func (c *Cluster) Admit(s tls.ConnectionState, r *pb.JoinRequest) (*pb.JoinReply, error) {
	now := time.Now()
	text, err := proofText(s, r.GetRequest())
	if err != nil {
		return nil, err
	}
	// The proof is checked before the token is looked up, so that only its holder learns whether
	// this machine knows it.
	if len(r.GetTokenKey()) != ed25519.PublicKeySize || !ed25519.Verify(r.GetTokenKey(), text, r.GetProof()) {
		return nil, ErrTokenUnknown
	}
	t, err := c.ticket(r.GetTokenKey())
	if errors.Is(err, ErrTokenUnknown) {
		return nil, fmt.Errorf("%w: a token is good at the node that made it only, at the address that was printed with it", err)
	}
	if err != nil {
		return nil, err
	}
	// Checked before the token is redeemed: with a wrong clock the new certificate would look
	// expired, or not valid yet.
	if off := r.GetClock().AsTime().Sub(now); off.Abs() > skew {
		return nil, fmt.Errorf("%w: the joiner's says %s, the authority's %s, and up to %v are tolerated; set them, and the token is still good", ErrSkew,
			r.GetClock().AsTime().UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339), skew)
	}
	public, id, err := requested(r.GetRequest())
	if err != nil {
		return nil, err
	}
	if c.revoked.Has(id) {
		return nil, removedHere(c.authority.name)
	}
	return c.admit(t, public, id, r.GetName(), now)
}

// admit redeems a token for a node that Admit has checked, and signs its certificate.
func (c *Cluster) admit(t ticket, public ed25519.PublicKey, id NodeID, name string, now time.Time) (*pb.JoinReply, error) {
	c.admits.Lock()
	defer c.admits.Unlock()
	if c.Key().Locked() {
		return nil, ErrLocked // before the token is used
	}
	if err := c.checkName(id, plain(name), now, "join under another name, with symbio --node NAME cluster join, and the token is still good"); err != nil {
		return nil, err
	}
	if err := c.redeem(t, id, now); err != nil {
		return nil, err
	}
	leaf, err := c.authority.certify(public, Peer{Role: t.Role, Labels: t.Labels}, now)
	if err != nil {
		return nil, err
	}
	list, _ := c.revoked.Current()
	return &pb.JoinReply{Certificate: leaf.Raw, Authority: c.authority.all().certifier(leaf).certificate.Raw, Revocations: list, Succession: c.authority.all().message()},
		c.record(leaf, name)
}

// checkName returns ErrNameTaken if another node than id has the name and a certificate that has not
// ended. advice says how to take another name.
func (c *Cluster) checkName(id NodeID, name string, now time.Time, advice string) error {
	all, err := c.Nodes()
	if err != nil {
		return err
	}
	for _, r := range all {
		if name != "" && r.Name == name && r.ID != id && !r.Removed && now.Before(r.Expires) {
			return fmt.Errorf("%w: %s is %s…; %s; or if that node is gone, remove it where the authority is: symbio cluster remove %[3]s", ErrNameTaken, name, r.ID[:8], advice)
		}
	}
	return nil
}

// Renew answers a request for the next certificate by p, which the connection has proven. It keeps
// key, role and labels: a node cannot give itself others. It returns ErrBadRequest for another key or
// authority, and ErrRemoved for a removed node. If only the record cannot be written, it returns
// the reply and the error.
func (c *Cluster) Renew(p Peer, r *pb.RenewRequest) (*pb.RenewReply, error) {
	public, id, err := requested(r.GetRequest())
	switch {
	case err != nil:
		return nil, err
	case p.Authority != c.authority.name || id != p.ID:
		return nil, fmt.Errorf("%w: the request of a renewal must have the node's present key", ErrBadRequest)
	case c.revoked.Has(id):
		return nil, removedHere(c.authority.name)
	}
	leaf, err := c.authority.certify(public, p, time.Now())
	if err != nil {
		return nil, err
	}
	return &pb.RenewReply{Certificate: leaf.Raw, Succession: c.authority.all().message()}, c.record(leaf, "")
}

// Remove takes a node out of the cluster for good by adding its id to the signed list. There is no
// way back for that key; the machine can join again with a new one. Removing a node twice is not an
// error, and the id need not be one that joined. Nodes learn it from each other.
func (c *Cluster) Remove(id NodeID) error {
	for {
		// errStale means that another process has signed a list in between; each round is on top of
		// its list.
		err := c.revoked.add(id)
		if !errors.Is(err, errStale) {
			return err
		}
		if err := c.revoked.Reload(); err != nil {
			return err
		}
	}
}

// request returns a PKCS #10 certificate request (RFC 2986) in DER. Its signature proves possession
// of the key. It contains no names, since the authority chooses them.
func (k *Key) request() ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, k.private())
	if err != nil {
		return nil, fmt.Errorf("ask for a certificate: %w", err)
	}
	return der, nil
}

// requested returns the key of a request and the id that belongs to it. It returns ErrBadRequest if
// the request cannot be parsed, is of another algorithm, or is not signed by its own key.
func requested(der []byte) (ed25519.PublicKey, NodeID, error) {
	r, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	public, ok := r.PublicKey.(ed25519.PublicKey)
	if !ok || r.CheckSignature() != nil {
		return nil, "", ErrBadRequest
	}
	// Encoded again, so that no second spelling of a key gives it a second id.
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil || !bytes.Equal(spki, r.RawSubjectPublicKeyInfo) {
		return nil, "", ErrBadRequest
	}
	return public, idOf(spki), nil
}

// plain returns the name that a node gives itself without all characters but printable ASCII, and
// cut to 63 bytes. It comes from another machine and is printed on terminals.
func plain(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, name)
	return name[:min(len(name), 63)]
}
