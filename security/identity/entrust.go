package identity

import (
	"crypto/ed25519"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"symbio/internal/security/private"
	pb "symbio/proto/symbio/v1"
)

// ErrNotEntrusted says that what came does not make a node hold its cluster's authority: it was not
// sealed for this node, or not by a holder of the authority.
var ErrNotEntrusted = errors.New("it is not from a node that holds this cluster's authority")

// maxCertified is how many records of nodes are sent with an authority, the newest ones. They
// have some 100 bytes each, so a message stays below 1 MiB.
const maxCertified = 2048

// Recipient is a node that has made a key to which the cluster's authority can be sealed. It
// accepts only an authority that was sealed after that, for this node, by the node that asked; a
// node cannot ask for an authority itself. The caller makes a new one for each attempt.
type Recipient struct {
	identity *Identity
	// from is the node whose message Take accepts.
	from NodeID
	// key is never stored, so that a message which was recorded cannot be opened later.
	key hpke.PrivateKey
}

// Prepare makes a key for one authority that the node from may send, and the reply for it. It
// returns ErrNoAuthority for the local authority, which never leaves its machine.
func (i *Identity) Prepare(from NodeID) (*Recipient, *pb.PrepareReply, error) {
	if i.cred.authority.name == Local {
		return nil, nil, ErrNoAuthority
	}
	if c := i.Cluster(); c != nil {
		if err := c.Key().checkUnlocked(); err != nil {
			return nil, nil, err
		}
	}
	key, err := hpke.MLKEM768X25519().GenerateKey()
	if err != nil {
		return nil, nil, fmt.Errorf("make a key to seal to: %w", err)
	}
	r := &Recipient{identity: i, from: from, key: key}
	public, signature, err := i.Sign(entrustText(i.cred.authority, from, i.cred.key.id, key.PublicKey().Bytes()))
	return r, &pb.PrepareReply{Key: key.PublicKey().Bytes(), Signature: signature, NodeKey: public}, err
}

// Entrust seals the authority for the node to, which has answered with p; from is the node
// that sends it. Only to can open the result, so it may pass through other nodes. It returns
// ErrRemoved for a removed node and ErrWrongNode for a key that to has not signed.
func (c *Cluster) Entrust(from, to NodeID, p *pb.PrepareReply) (*pb.EntrustRequest, error) {
	if c.revoked.Has(to) {
		return nil, ErrRemoved
	}
	if c.Key().Locked() {
		return nil, ErrLocked // before the record of a holder is written
	}
	text := entrustText(c.authority, from, to, p.GetKey())
	if !Signed(to, p.GetNodeKey(), text, p.GetSignature()) {
		return nil, fmt.Errorf("%w: the key to seal to is not of node %s", ErrWrongNode, to)
	}
	key, err := hpke.MLKEM768X25519().NewPublicKey(p.GetKey())
	if err != nil {
		return nil, fmt.Errorf("%w: the key to seal to: %w", ErrBadRequest, err)
	}
	// Recorded first: after a crash in between, a holder without a record would not be noticed.
	for _, id := range []NodeID{from, to} {
		if err := c.noteHolder(id); err != nil {
			return nil, err
		}
	}
	charter, err := c.charter()
	if err != nil {
		return nil, err
	}
	sealed, err := hpke.Seal(key, hpke.HKDFSHA256(), hpke.AES256GCM(), text, charter)
	if err != nil {
		return nil, fmt.Errorf("seal the authority: %w", err)
	}
	signer, err := c.authority.all().latest().signer()
	if err != nil {
		return nil, err
	}
	return &pb.EntrustRequest{Sealed: sealed, Signature: ed25519.Sign(signer, sealedText(text, sealed))}, nil
}

// Take opens an authority that was sealed for this node, keeps it in dir with mode 0600, and makes
// the node use it. It returns ErrNotEntrusted if the message is not from a holder of this cluster's
// authority, and ErrClusterExists if dir has another cluster's. It may be called again with the
// same message after an error of the disk.
func (r *Recipient) Take(e *pb.EntrustRequest, dir string) error {
	i := r.identity
	text := entrustText(i.cred.authority, r.from, i.cred.key.id, r.key.PublicKey().Bytes())
	if !ed25519.Verify(i.cred.authority.all().latest().public(), sealedText(text, e.GetSealed()), e.GetSignature()) {
		return ErrNotEntrusted
	}
	// The signature shows that a holder of the authority sent it, the context in text that it was
	// meant for this node and this key.
	data, err := hpke.Open(r.key, hpke.HKDFSHA256(), hpke.AES256GCM(), text, e.GetSealed())
	if err != nil {
		return ErrNotEntrusted
	}
	charter := &pb.Charter{}
	if err := proto.Unmarshal(data, charter); err != nil {
		return ErrNotEntrusted
	}
	a, err := parseAuthority(charter.GetAuthority())
	if err != nil {
		return fmt.Errorf("the authority that was sent %w", err)
	}
	if a.hash() != i.cred.authority.all().latest().hash() || !a.canSign() {
		return ErrNotEntrusted
	}
	if len(charter.GetNext()) > 0 {
		if err := r.takeNext(charter, dir); err != nil {
			return err
		}
		if c := i.Cluster(); c != nil {
			return c.learn(charter.GetNodes())
		}
	}
	if _, err := readOrCreate(filepath.Join(dir, authorityFile), func() ([]byte, error) { return charter.GetAuthority(), nil }); err != nil {
		return fmt.Errorf("keep the authority: %w", err)
	}
	c, err := OpenCluster(dir)
	if err != nil {
		return err
	}
	if c.authority.all().latest().hash() != a.hash() {
		return ErrClusterExists
	}
	if err := c.learn(charter.GetNodes()); err != nil {
		return err
	}
	return i.Hold(c)
}

// takeNext takes the new authority that replaces the one of the charter.
func (r *Recipient) takeNext(charter *pb.Charter, dir string) error {
	if _, err := r.identity.Rotation().Take(charter.GetSuccession()); err != nil {
		return err
	}
	if err := r.identity.Rotation().keepNext(charter.GetNext(), dir); err != nil {
		return err
	}
	return keepSuccession(dir, r.identity.Rotation().Standing().GetSuccession())
}

// Hold makes a member of the cluster use its authority: from now on it renews certificates and
// admits nodes. c must not be in use yet, since its list of removed nodes is replaced by the
// node's. It returns ErrOtherAuthority for another cluster.
func (i *Identity) Hold(c *Cluster) error {
	if !c.authority.all().meets(i.cred.authority.all()) {
		return fmt.Errorf("%w: this node is of %s %s, it of %s %s", ErrOtherAuthority, i.cred.authority.name, i.cred.authority.tag, c.Name(), c.Tag())
	}
	if err := i.revoked.signHere(c.authority, c.dir); err != nil {
		return err
	}
	c.revoked = i.revoked
	i.cluster.Store(c)
	i.cred.openOld(c.dir)
	// One of the two may have missed a stage.
	for _, a := range []*Authority{c.authority, i.cred.authority} {
		if _, s := a.all().replaced(); s != nil {
			if _, err := i.Rotation().Take(s.message); err != nil {
				return err
			}
		}
	}
	i.taking.Lock()
	defer i.taking.Unlock()
	return i.Rotation().follow(c)
}

// OpenMember is the function OpenMember on the machine that holds c. If the node is a member of c,
// it holds its authority, and its certificate is renewed here if it has ended. A member of another
// cluster is opened as everywhere else.
func (c *Cluster) OpenMember(dir string, k *Key) (*Identity, error) {
	i, err := OpenMember(dir, k)
	if err != nil || !i.cred.authority.all().meets(c.authority.all()) {
		return i, err
	}
	if err := i.Hold(c); err != nil {
		return nil, err
	}
	if i.revoked.Has(k.id) {
		return nil, removedHere(c.authority.name)
	}
	if i.Expired() {
		_, err = i.RenewHere()
	}
	return i, err
}

// RenewHere renews the certificate of a member that holds the authority. It returns false and
// does nothing if another node has to be asked, since it holds none or a locked one.
func (i *Identity) RenewHere() (bool, error) {
	c := i.Cluster()
	if c == nil || c.Key().Locked() {
		return false, nil
	}
	r, err := i.RenewRequest()
	if err != nil {
		return true, err
	}
	reply, err := c.Renew(i.cred.as, r)
	if err != nil {
		return true, err
	}
	return true, i.Renewed(reply)
}

// encode returns the authority as parseAuthority reads it. It is an error if the key is not here.
func (a *Authority) encode() ([]byte, error) {
	signer, err := a.signer()
	if err != nil {
		return nil, err
	}
	return encodeAuthority(signer, a.certificate.Raw)
}

// charter returns what makes another node a holder of the authority: its key, its certificate
// and the records of nodes.
func (c *Cluster) charter() ([]byte, error) {
	text, err := c.authority.all().latest().encode()
	if err != nil {
		return nil, err
	}
	out := &pb.Charter{Authority: text}
	if _, s := c.authority.all().replaced(); s != nil && s.stage() < StageDone {
		if out.Next, err = s.next.encode(); err != nil {
			return nil, err
		}
		out.Succession = s.message
	}
	all, err := c.Nodes()
	if err != nil {
		return nil, err
	}
	for _, r := range all[max(0, len(all)-maxCertified):] {
		out.Nodes = append(out.Nodes, &pb.Certified{
			Id: string(r.ID), Name: r.Name, Role: r.Role, Joined: r.Joined.Unix(), Expires: r.Expires.Unix(), HoldsAuthority: r.Holds,
			Labels: r.Labels.List(),
		})
	}
	return proto.Marshal(out)
}

// learn keeps the records of nodes that another holder sent. A record that exists here is not
// replaced; it may be newer.
func (c *Cluster) learn(nodes []*pb.Certified) error {
	for _, n := range nodes {
		id, err := ParseNodeID(n.GetId())
		labels, wrong := ParseLabels(n.GetLabels())
		if err != nil || wrong != nil || !label(n.GetRole()) {
			continue
		}
		r := Record{ID: id, Name: plain(n.GetName()), Role: n.GetRole(), Labels: labels, Holds: n.GetHoldsAuthority(),
			Joined: time.Unix(n.GetJoined(), 0).UTC(), Expires: time.Unix(n.GetExpires(), 0).UTC()}
		if err := readJSON(c.recordFile(id), &Record{}); !errors.Is(err, fs.ErrNotExist) {
			if err == nil && r.Holds {
				err = c.noteHolder(id)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := c.keepRecord(r); err != nil {
			return err
		}
	}
	return nil
}

// noteHolder records that the node has the authority. It is called before the authority is sent:
// without a record, a removed node that still has the authority would look like any other.
func (c *Cluster) noteHolder(id NodeID) error {
	r := Record{ID: id, Role: roleNode, Joined: time.Now().UTC()}
	if err := readJSON(c.recordFile(id), &r); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.Holds, r.GaveUp = true, time.Time{}
	return c.keepRecord(r)
}

// keepRecord replaces the record of a node in one step, so that a crash leaves the old one or
// the new one.
func (c *Cluster) keepRecord(r Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return private.Replace(c.recordFile(r.ID), data)
}

// entrustText returns the text that both sides sign and seal with: the cluster, both nodes and
// the key. It stops a message from being used for another node or another time. All parts but
// the last have a fixed length, so no two inputs give the same text.
func entrustText(a *Authority, from, to NodeID, key []byte) []byte {
	hash := a.all().latest().hash()
	return slices.Concat([]byte("symbio entrust v1\n"), hash[:], []byte(from), []byte(to), key)
}

// sealedText returns the text that the sender signs: the context and the hash of the sealed
// data.
func sealedText(text, sealed []byte) []byte {
	sum := sha256.Sum256(sealed)
	return slices.Concat([]byte("sealed\n"), text, sum[:])
}
