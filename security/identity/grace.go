package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	pb "symbio/proto/symbio/v1"
)

// Grace is how long after its end a certificate is renewed, unless the authority's configuration
// says otherwise (limits.certificate_grace). A machine that is switched off for a month of holidays
// comes back by itself.
const Grace = 30 * 24 * time.Hour

// Expired reports whether the certificate of a member has ended. The node can then do nothing but
// ask for the next one, over a connection of JoinProtocol (ProtocolClientTLS). It is false for identities made by Issue, which sign their
// own.
func (i *Identity) Expired() bool { return i.cred.isStored() && time.Now().After(i.NotAfter()) }

// Overdue returns an error if this node's certificate has ended or should have been renewed by
// now, with what helps; nil if neither.
func (i *Identity) Overdue() error {
	until := i.NotAfter().UTC().Format(time.RFC3339)
	switch {
	case i.cred.late() && i.Cluster() != nil && i.Cluster().Key().Locked():
		return fmt.Errorf("this node's certificate in cluster %s ends at %s: %w", i.cred.authority.name, until, ErrLocked)
	case i.Expired():
		return fmt.Errorf("this node's certificate in cluster %s ended at %s; start a node that holds the authority: it renews this one for %.0f days, unless limits.certificate_grace there says otherwise; after that, symbio cluster leave, then join",
			i.cred.authority.name, until, Grace.Hours()/24)
	case i.Cluster() == nil && i.cred.late():
		return fmt.Errorf("this node's certificate in cluster %s ends at %s, and no node that holds the authority has renewed it; start one before then, or mend the network to it", i.cred.authority.name, until)
	}
	return nil
}

// RenewLate is Renew for a node whose certificate may have ended, by grace at most. The
// handshake of JoinTLS has proven its key; an ended certificate gives it no other right.
func (c *Cluster) RenewLate(s tls.ConnectionState, r *pb.RenewRequest, grace time.Duration) (*pb.RenewReply, error) {
	if len(s.PeerCertificates) == 0 {
		return nil, fmt.Errorf("%w: no certificate was shown", ErrBadRequest)
	}
	leaf, now := s.PeerCertificates[0], time.Now()
	p, err := c.authority.verifyLate(leaf, now)
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) {
		return nil, explainInvalid(invalid, now)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	if now.Sub(leaf.NotAfter) > grace && !c.revoked.Has(p.ID) {
		return nil, fmt.Errorf("%w: it ended at %s, and is renewed for %v after that; join again, with a new token of `symbio cluster token`",
			ErrExpired, leaf.NotAfter.UTC().Format(time.RFC3339), grace)
	}
	if err := c.Ledger().checkOld(p, leaf, now); err != nil {
		return nil, err
	}
	return c.Renew(p, r)
}

// checkOld returns an error if a certificate is of an authority that is not trusted any more and may not be renewed: its node,
// role and labels must be recorded here, so that a copy of the old key admits no other node.
func (l Ledger) checkOld(p Peer, leaf *x509.Certificate, now time.Time) error {
	c := l.cluster
	old, s := c.authority.all().replaced()
	if s.stage() != StageDone || !old.certified(leaf) {
		return nil
	}
	var r Record
	if err := readJSON(c.recordFile(p.ID), &r); err != nil || r.Role != p.Role || r.Labels != p.Labels || now.Sub(s.message.GetSince().AsTime()) > LateRenewal {
		return fmt.Errorf("%w: it is of an authority that was replaced; join again, with a new token of `symbio cluster token`", ErrExpired)
	}
	return nil
}

// verifyLate is verify for a certificate that may have ended, or is of an authority that was replaced.
func (a *Authority) verifyLate(leaf *x509.Certificate, now time.Time) (Peer, error) {
	if now.After(leaf.NotAfter) {
		now = leaf.NotAfter
	}
	return a.all().verify(leaf, now)
}
