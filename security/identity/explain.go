package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"
)

// Why a connection is not with a node that can be trusted.
var (
	// ErrOtherAuthority: the other side's certificate is of an authority that is not this node's.
	ErrOtherAuthority = errors.New("it belongs to another authority")
	// ErrExpired: the certificate has ended.
	ErrExpired = errors.New("its certificate has expired")
	// ErrNotYetValid: the certificate begins later; one of the two clocks is wrong.
	ErrNotYetValid = errors.New("its certificate is not valid yet")
	// ErrWrongNode: a node of this authority, but not the one that was dialled.
	ErrWrongNode = errors.New("another node answered")
	// ErrNotNode: the certificate, though signed, is not one of a node.
	ErrNotNode = errors.New("it is not a node")
	// ErrRemoved: the node was removed from the cluster.
	ErrRemoved = errors.New("it was removed from the cluster")
	// ErrNoAuthority: the node that was asked to admit another one does not hold its cluster's
	// authority.
	ErrNoAuthority = errors.New("it does not hold a cluster's authority")
	// ErrWrongCluster: the node that was asked to admit another one is not of the token's cluster.
	ErrWrongCluster = errors.New("it is not of the cluster that the token is for")
	// ErrSkew: the clocks of a joiner and the authority differ by more than certificates tolerate.
	ErrSkew = errors.New("the clocks of the two machines differ too much")
	// ErrTokenUnknown: no token of this cluster, or not proven to be held.
	ErrTokenUnknown = errors.New("the cluster knows no such token")
	// ErrTokenUsed: another node has joined with it.
	ErrTokenUsed = errors.New("the token has been used")
	// ErrTokenExpired: its time is over.
	ErrTokenExpired = errors.New("the token has expired")
	// ErrNameTaken: another node of the cluster has the name of the joiner.
	ErrNameTaken = errors.New("the cluster has another node of this name")
	// ErrRole: NewToken got a text that cannot be a role.
	ErrRole = errors.New("not a role")
	// ErrBadRequest: a join or renewal that asks for something that cannot be signed.
	ErrBadRequest = errors.New("the certificate request is not one of a node's key")
	// ErrPlaintext: the other side does not speak TLS.
	ErrPlaintext = errors.New("it does not speak TLS")
	// ErrNoRoom: the other side takes no more connections, or none from here for now.
	ErrNoRoom = errors.New("it takes no more connections now")
	// ErrRejected: the other side did not accept this node's certificate.
	ErrRejected = errors.New("it rejected this node's certificate")
)

// TLS alerts (RFC 8446 section 6) by which the other side judges our certificate.
const (
	alertBadCertificate      = tls.AlertError(42)
	alertCertificateExpired  = tls.AlertError(45)
	alertUnknownAuthority    = tls.AlertError(48)
	alertAccessDenied        = tls.AlertError(49) // never sent by crypto/tls
	alertCertificateRequired = tls.AlertError(116)
	alertNoProtocol          = tls.AlertError(120)
)

// ExplainCaller is Explain for the side that was called. crypto/tls sends the same alert for every
// reason why a caller refuses this node's certificate, so the reason is known on the other machine
// only.
func (i *Identity) ExplainCaller(err error) error {
	if remote := (&net.OpError{}); errors.As(err, &remote) && remote.Err.Error() == alertBadCertificate.Error() {
		return fmt.Errorf("%w and did not say why; `symbio nodes` on that machine does", ErrRejected)
	}
	return i.Explain(err)
}

// Explain turns the error of a TLS handshake, on the side that called, into one of this package's
// with words for people. It returns err as it is if it is none of them, like a broken connection or
// an ended context; nil for nil.
func (i *Identity) Explain(err error) error {
	var (
		record   tls.RecordHeaderError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
		remote   *net.OpError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &record):
		return fmt.Errorf("%w: something else than a symbio node uses that port", ErrPlaintext)
	case errors.As(err, &hostname):
		return i.cred.authority.explainName(hostname.Certificate)
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: it is of another user, machine or cluster than this node (authority %s %s)", ErrOtherAuthority, i.cred.authority.name, i.cred.authority.tag)
	case errors.As(err, &invalid):
		return explainInvalid(invalid, time.Now())
	case errors.As(err, &remote) && remote.Op == "remote error":
		return i.cred.authority.explainAlert(i.cred.leaf(), remote.Err)
	}
	return err
}

// NoRoom returns what a server sends to a connection that it does not let begin its handshake, so
// that the other side knows why: a TLS record with the fatal alert access_denied (RFC 8446,
// sections 5.1 and 6). Explain turns it into ErrNoRoom.
func NoRoom() []byte { return []byte{21, 3, 3, 0, 2, 2, byte(alertAccessDenied)} }

// explainName explains a certificate that is valid but names another node than the dialled one.
func (a *Authority) explainName(c *x509.Certificate) error {
	p, err := peerOf(c)
	if err != nil || p.Authority != a.name {
		return fmt.Errorf("%w: its certificate names no node of authority %s", ErrOtherAuthority, a.name)
	}
	return fmt.Errorf("%w: it is %s", ErrWrongNode, p.ID)
}

// explainInvalid explains a certificate of the other side, or of this node, that is not valid now,
// with both times, because either clock may be wrong.
func explainInvalid(e x509.CertificateInvalidError, now time.Time) error {
	switch {
	case e.Reason != x509.Expired || e.Cert == nil:
		return fmt.Errorf("%w: %w", ErrNotNode, e)
	case now.Before(e.Cert.NotBefore):
		return fmt.Errorf("%w: it begins at %s and the clock here says %s; set the clock here if it is behind, else that of the node that holds the authority",
			ErrNotYetValid, e.Cert.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return fmt.Errorf("%w: it ended at %s and the clock here says %s; set the clock here if it is ahead, else restart that node: in a cluster it is renewed once it reaches a node that holds the authority",
		ErrExpired, e.Cert.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
}

// explainAlert explains the alert that a node answered leaf with. Alerts are told apart by their
// text, because crypto/tls keeps their type to itself.
func (a *Authority) explainAlert(leaf *x509.Certificate, err error) error {
	switch err.Error() {
	case alertBadCertificate.Error():
		if a.name != Local {
			return fmt.Errorf("%w: %w", ErrRejected, removedHere(a.name)) // a node that is called rejects with this for nothing else
		}
		return fmt.Errorf("%w: %w", ErrRejected, err)
	case alertUnknownAuthority.Error():
		return fmt.Errorf("%w: this node is of another user, machine or cluster than it", ErrRejected)
	case alertCertificateExpired.Error():
		return explainClocks(leaf, time.Now())
	case alertCertificateRequired.Error():
		return fmt.Errorf("%w: %w", ErrRejected, err)
	case alertAccessDenied.Error():
		return ErrNoRoom
	case alertNoProtocol.Error(): // only a renewal asks for one that not every node of the cluster speaks
		return ErrNoAuthority
	}
	return fmt.Errorf("the other side ended the handshake: %w", err)
}

// explainClocks says why the other side found this node's certificate expired or not yet valid.
func explainClocks(leaf *x509.Certificate, now time.Time) error {
	from, until, here := leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339)
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("%w: it ended at %s and the clock here says %s; set the clock here if it is ahead, else start a node that holds the authority: it renews this one", ErrRejected, until, here)
	}
	return fmt.Errorf("%w: it is good from %s until %s, which by the clock there is not now, and the clock here says %s; set the one that is wrong: `symbio doctor` compares this one with those of other nodes",
		ErrRejected, from, until, here)
}
