package identity

import (
	"crypto/tls"
	"fmt"
)

// ServerTLS returns the configuration of a listener: TLS 1.3, with a certificate required from
// every client and verified like a server's. It presents the newest certificate at each handshake.
// Each call returns a new value, which the caller may change. It is for one handshake, or few, since the authorities that are
// trusted may change.
func (i *Identity) ServerTLS() *tls.Config { return handshake{i, "h2"}.server() }

// handshake makes the TLS configurations of one protocol (ALPN).
type handshake struct {
	// id presents its certificate and says which peers are accepted.
	id *Identity
	// protocol is the only ALPN protocol offered: "h2" (gRPC), ReverseProtocol or JoinProtocol.
	protocol string
}

// server returns the side that is called. It requires a certificate.
func (h handshake) server() *tls.Config {
	c := h.config("")
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.ClientCAs = h.id.cred.authority.all().trusted().roots()
	c.GetCertificate = h.id.cred.forServer
	return c
}

// ClientTLS returns the configuration to dial node expect, or any node of the same authority
// if expect is "". If another node answers, the handshake fails with ErrWrongNode before
// anything is sent.
func (i *Identity) ClientTLS(expect NodeID) *tls.Config { return handshake{i, "h2"}.client(expect) }

// client returns the side that dials. The server's name, which crypto/tls checks against the
// certificate, is the expected node; see dnsName.
func (h handshake) client(expect NodeID) *tls.Config {
	c := h.config(expect)
	trusted := h.id.cred.authority.all().trusted()
	c.RootCAs = trusted.roots()
	c.NextProtos = append(c.NextProtos, trusted.protocol())
	c.ServerName = dnsName(expect, h.id.cred.authority.name)
	c.GetClientCertificate = h.id.cred.forClient
	return c
}

// config returns what is the same on both sides. VerifyConnection runs after crypto/tls has
// verified the certificate, at every handshake: it is where a removed node is refused. expect ""
// accepts every node of the authority.
func (h handshake) config(expect NodeID) *tls.Config {
	i := h.id
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{h.protocol},
		// A resumed session would skip the certificate, and with it the checks below.
		SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			p, err := PeerOf(s)
			switch {
			case err != nil:
				return err
			case p.Authority != i.cred.authority.name:
				return fmt.Errorf("%w: %s vouches for it, here it is %s", ErrOtherAuthority, p.Authority, i.cred.authority.name)
			case i.revoked.Has(p.ID):
				return fmt.Errorf("%w: node %s", ErrRemoved, p.ID)
			case expect != "" && p.ID != expect:
				return fmt.Errorf("%w: %s answered where %s was expected", ErrWrongNode, p.ID, expect)
			case s.NegotiatedProtocol != h.protocol:
				return fmt.Errorf("the other side does not speak this protocol (ALPN %s)", h.protocol)
			}
			return nil
		},
	}
}
