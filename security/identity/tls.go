package identity

import (
	"crypto/tls"
	"fmt"
)

// ServerTLS is the configuration of a listener: TLS 1.3, a certificate required from every client
// and verified like a server's. Each call returns a configuration of its own.
func (i *Identity) ServerTLS() *tls.Config {
	return i.server("h2")
}

func (i *Identity) server(protocol string) *tls.Config {
	c := i.both("", protocol)
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.ClientCAs = i.roots
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return i.fresh() }
	return c
}

// ClientTLS is the configuration to dial node expect with, or any node of the same authority when
// expect is "". Another node that answers is refused with ErrWrongNode before anything is sent.
func (i *Identity) ClientTLS(expect NodeID) *tls.Config {
	return i.client(expect, "h2")
}

func (i *Identity) client(expect NodeID, protocol string) *tls.Config {
	c := i.both(expect, protocol)
	c.RootCAs = i.roots
	c.ServerName = dnsName(expect, i.authority.name)
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return i.fresh() }
	return c
}

func (i *Identity) both(expect NodeID, protocol string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{protocol},
		// A resumed session would skip the certificate, and with it the checks below.
		SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			p, err := PeerOf(s)
			switch {
			case err != nil:
				return err
			case p.Authority != i.authority.name:
				return fmt.Errorf("%w: %s vouches for it, here it is %s", ErrOtherAuthority, p.Authority, i.authority.name)
			case i.revoked.Has(p.ID):
				return fmt.Errorf("%w: node %s", ErrRemoved, p.ID)
			case expect != "" && p.ID != expect:
				return fmt.Errorf("%w: %s answered where %s was expected", ErrWrongNode, p.ID, expect)
			case s.NegotiatedProtocol != protocol:
				return fmt.Errorf("the other side does not speak this protocol (ALPN %s)", protocol)
			}
			return nil
		},
	}
}
