package identity_test

import (
	"crypto/tls"
	"errors"
	"testing"

	"symbio/security/identity"
)

// A reversed connection is one of its own kind, and proves as much as any other.
func TestReversedConnectionIsProvenLikeAnyOther(t *testing.T) {
	home := authority(t)
	ann, bob, eve := issue(t, home), issue(t, home), issue(t, authority(t))
	s, c, serverErr, clientErr := handshake(t, ann.ProtocolServerTLS(identity.ReverseProtocol), bob.ProtocolClientTLS(identity.ReverseProtocol, ann.ID()))
	if serverErr != nil || clientErr != nil {
		t.Fatalf("server: %v, client: %v", serverErr, clientErr)
	}
	for name, got := range map[string]struct {
		state tls.ConnectionState
		want  identity.NodeID
	}{"client": {s, bob.ID()}, "server": {c, ann.ID()}} {
		p, err := identity.PeerOf(got.state)
		if err != nil || p.ID != got.want || got.state.NegotiatedProtocol != identity.ReverseProtocol {
			t.Errorf("the %s is %+v, %v, over %q; want %s", name, p, err, got.state.NegotiatedProtocol, got.want)
		}
	}
	for _, c := range []struct {
		name           string
		server, client *tls.Config
		want           error // of the client; nil = any
	}{
		{"a listener of the usual kind", ann.ServerTLS(), bob.ProtocolClientTLS(identity.ReverseProtocol, ann.ID()), nil},
		{"a client of the usual kind", ann.ProtocolServerTLS(identity.ReverseProtocol), bob.ClientTLS(ann.ID()), nil},
		{"another node than expected", bob.ProtocolServerTLS(identity.ReverseProtocol), bob.ProtocolClientTLS(identity.ReverseProtocol, ann.ID()), identity.ErrWrongNode},
		{"another authority", ann.ProtocolServerTLS(identity.ReverseProtocol), eve.ProtocolClientTLS(identity.ReverseProtocol, ""), identity.ErrOtherAuthority},
	} {
		_, _, serverErr, clientErr := handshake(t, c.server, c.client)
		if serverErr == nil && clientErr == nil {
			t.Errorf("%s: both sides accepted", c.name)
		}
		if c.want != nil && !errors.Is(bob.Explain(clientErr), c.want) {
			t.Errorf("%s: got %v, want %v", c.name, clientErr, c.want)
		}
	}
}
