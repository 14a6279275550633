package identity

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"symbio/internal/security/private"
	pb "symbio/proto/symbio/v1"
)

// memberFile holds two certificates in PEM: the node's, then the authority's. The node's key is in
// a file of its own.
const memberFile = "member.pem"

// Admission is a node's first certificate in a cluster, and the facts about the cluster.
// Token.Accept returns it after all checks; nothing is on the disk before Save.
type Admission struct {
	Peer
	// NotAfter is when the certificate ends unless it is renewed.
	NotAfter time.Time

	// leaf is the node's certificate and authority the one that signed it, without its key.
	leaf      *x509.Certificate
	authority *Authority
	// removed is the authority's newest list of removed nodes; nil if it never removed one.
	removed *pb.Revocations
	// succession says what was before the authority, or comes after it; nil if it was not replaced.
	succession *pb.Succession
}

// Save writes the admission into the node's directory dir, in place of an earlier membership. After
// an error the certificate may have been stored without the list of removed nodes; it can be called
// again. It blocks for the disk.
func (a *Admission) Save(dir string) error {
	if a.succession != nil {
		if err := keepSuccession(dir, a.succession); err != nil {
			return err
		}
	}
	if err := saveMember(dir, a.leaf, a.authority); err != nil {
		return err
	}
	authority, err := a.authority.restored(dir)
	if err != nil {
		return err
	}
	r, err := openRevocations(authority, dir)
	if err != nil {
		return err
	}
	_, err = r.Update(a.removed)
	return err
}

// saveMember replaces the member file in dir in one step, so that a crash leaves the old or the new
// one.
func saveMember(dir string, leaf *x509.Certificate, a *Authority) error {
	data := pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: leaf.Raw})
	data = append(data, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: a.all().certifier(leaf).certificate.Raw})...)
	if err := private.Replace(filepath.Join(dir, memberFile), data); err != nil {
		return fmt.Errorf("keep the certificate: %w", err)
	}
	return nil
}

// OpenMember returns the identity of the node with key k in the cluster that it joined, from dir.
// It returns fs.ErrNotExist if the node has joined none, ErrRemoved if it was removed, and an error
// that says to join again if the file is damaged or of another key. The certificate may have ended:
// see Identity.Expired.
func OpenMember(dir string, k *Key) (*Identity, error) {
	file := filepath.Join(dir, memberFile)
	leaf, a, err := readMember(file)
	if err != nil {
		return nil, err
	}
	if a, err = a.restored(dir); err != nil {
		return nil, fmt.Errorf("cluster certificate: %w", err)
	}
	i := &Identity{cred: credential{key: k, authority: a, file: file}}
	// A certificate that has ended is accepted here, because the node needs it to ask for the next
	// one. One that is not valid yet is not.
	p, err := a.verifyLate(leaf, time.Now())
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) {
		return nil, fmt.Errorf("this node's certificate in cluster %s: %w", a.name, explainInvalid(invalid, time.Now()))
	}
	if err != nil {
		return nil, fmt.Errorf("cluster certificate: %s: %w; join again", file, err)
	}
	if p.ID != k.id {
		return nil, fmt.Errorf("cluster certificate: %s is of node %s, and this node's key makes it %s; join again", file, p.ID, k.id)
	}
	if i.revoked, err = openRevocations(a, dir); err != nil {
		return nil, err
	}
	if i.revoked.Has(k.id) {
		return nil, removedHere(a.name)
	}
	i.cred.as, i.cred.current = p, withKey(k, leaf)
	return i, nil
}

// MemberOf returns the name of the cluster that the node with directory dir has joined, whether or not the node still belongs to it. The error is fs.ErrNotExist if it
// has joined none. It needs no key and creates nothing.
func MemberOf(dir string) (name string, err error) {
	_, a, err := readMember(filepath.Join(dir, memberFile))
	if err != nil {
		return "", err
	}
	return a.name, nil
}

// readMember reads a member file. It does not verify that the authority has signed the certificate;
// OpenMember does.
func readMember(file string) (leaf *x509.Certificate, a *Authority, err error) {
	data, err := readSecret(file)
	if err != nil {
		return nil, nil, fmt.Errorf("cluster certificate: %w", err)
	}
	first, rest := pem.Decode(data)
	if first == nil {
		return nil, nil, fmt.Errorf("cluster certificate: %s holds none; join again", file)
	}
	second, _ := pem.Decode(rest)
	if second == nil {
		return nil, nil, fmt.Errorf("cluster certificate: %s holds no authority; join again", file)
	}
	ca, err := x509.ParseCertificate(second.Bytes)
	if err == nil {
		leaf, err = x509.ParseCertificate(first.Bytes)
	}
	if err == nil {
		a, err = trust(ca)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cluster certificate: %s: %w; join again", file, err)
	}
	return leaf, a, nil
}

// Due reports whether the node should ask for its next certificate: half the life of the current
// one is over, or its authority was replaced. It is always false for an identity that was made by Issue, which renews its
// certificate by itself. A member that holds the authority is due, too; it renews with RenewHere.
func (i *Identity) Due() bool {
	return i.cred.late() || i.cred.isStored() && !i.cred.authority.all().issuer().certified(i.cred.leaf())
}

// late reports whether half the life of a member's certificate is over.
func (c *credential) late() bool { return c.isStored() && aged(c.leaf(), time.Now()) }

// RenewRequest returns the request for the next certificate of the same key. It contains no name
// and no role: the authority takes both from the current certificate.
func (i *Identity) RenewRequest() (*pb.RenewRequest, error) {
	der, err := i.cred.key.request()
	return &pb.RenewRequest{Request: der}, err
}

// Renewed verifies the next certificate, uses it for every connection from now on, and stores it.
// Open connections keep the old one. If the certificate is of another node, role or labels, or does not end
// later than the current one, nothing changes and the error says so. If it only cannot be stored,
// it is used all the same, and the error comes from the disk.
func (i *Identity) Renewed(r *pb.RenewReply) error {
	leaf, err := x509.ParseCertificate(r.GetCertificate())
	if err != nil {
		return fmt.Errorf("the new certificate: %w", err)
	}
	if _, err := i.Rotation().Take(r.GetSuccession()); err != nil {
		return fmt.Errorf("the new certificate: %w", err)
	}
	p, err := i.cred.authority.verify(leaf, time.Now())
	if err != nil {
		return fmt.Errorf("the new certificate: %w", err)
	}
	err = i.cred.replace(p, leaf)
	if i.revoked != nil { // others are told that this node is certified
		i.revoked.touch()
	}
	return err
}

// Fits reports whether the token is of the cluster that the node with directory dir has joined, also if that has another
// authority by now.
func (t Token) Fits(dir string) bool {
	_, a, err := readMember(filepath.Join(dir, memberFile))
	if err == nil {
		a, err = a.restored(dir)
	}
	return err == nil && slices.ContainsFunc(a.all(), func(one *Authority) bool { return one.hash() == t.hash })
}
