package grpcpeer

import (
	"context"
	"net"
	"net/netip"
	"time"

	"symbio/discovery"
	"symbio/security/identity"
)

// endpoint is where a node is dialed: a TCP address, or the URL of a WebSocket. The zero endpoint is nowhere, as it is for a
// connection that the node opened itself.
type endpoint struct {
	addr netip.AddrPort
	url  string // "" = addr
}

func (e endpoint) String() string {
	if e.url != "" {
		return e.url
	}
	return e.addr.String()
}

// open opens a connection to e, until ctx ends.
func (n *local) open(ctx context.Context, e endpoint) (net.Conn, error) {
	if e.url != "" {
		return n.cfg.DialURL(ctx, e.url)
	}
	return n.cfg.Dial(ctx, e.addr)
}

// timeout is how long open may take: a WebSocket has a TLS handshake and a request of its own.
func (e endpoint) timeout() time.Duration {
	if e.url != "" {
		return handshakeTimeout
	}
	return connectTimeout
}

// reachable returns where t is worth dialing, at most discovery.MaxAddrs endpoints. A node with a local identity dials
// this machine only, so that a forged hint cannot make it connect to others.
func (n *dialer) reachable(t target) []endpoint {
	onlyHere := n.cfg.Identity.Authority() == identity.Local
	var out []endpoint
	for _, a := range t.addrs {
		ip := a.Addr().Unmap()
		if !a.IsValid() || a.Port() == 0 || ip.IsUnspecified() || ip.IsMulticast() || onlyHere && !ip.IsLoopback() {
			continue
		}
		out = append(out, endpoint{addr: a})
	}
	if u, err := discovery.ParseURL(t.url); err == nil {
		ip, _ := netip.ParseAddr(u.Hostname())
		if !onlyHere || ip.IsLoopback() || u.Hostname() == "localhost" {
			out = append(out, endpoint{url: t.url})
		}
	}
	return out[:min(len(out), discovery.MaxAddrs)]
}
