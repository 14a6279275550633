package mcp

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// tokenTransport sends the requests about tokens. It limits answers to maxToken bytes. A server elsewhere may not have it
// fetch what only this machine or its networks can reach.
type tokenTransport struct {
	base  http.RoundTripper // nil = http.DefaultTransport
	local bool              // the server itself is on this machine or in its networks
}

// newTokenTransport returns the transport for the server with that URL.
func newTokenTransport(base http.RoundTripper, server string) tokenTransport {
	u, err := url.Parse(server)
	return tokenTransport{base, err == nil && isLocalHost(u.Hostname())}
}

func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.local && isLocalHost(r.URL.Hostname()) {
		return nil, refusedAddress(r.URL.Host)
	}
	base := t.base
	if base == nil {
		base = http.DefaultTransport
		if proxy, err := http.ProxyFromEnvironment(r); !t.local && proxy == nil && err == nil {
			base = publicTransport()
		}
	}
	resp, err := base.RoundTrip(r)
	if err == nil {
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: maxToken}
	}
	return resp, err
}

// publicTransport returns a transport for one request that looks at each address which a name stands for.
func publicTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy, t.DisableKeepAlives = nil, true
	t.DialContext = (&net.Dialer{Control: dialPublic}).DialContext
	return t
}

// dialPublic is the Control of a net.Dialer that connects to the internet alone.
func dialPublic(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err == nil && isLocalHost(host) {
		err = refusedAddress(address)
	}
	return err
}

func refusedAddress(address string) error {
	return fmt.Errorf("the server names %s for its login, which is of this machine or of its networks: refused", address)
}

// sharedRange is the range of providers' customers behind their NAT (RFC 6598).
var sharedRange = netip.MustParsePrefix("100.64.0.0/10")

// isLocalHost reports whether a host, as of a URL or a connection, is this machine or one that the internet cannot reach.
func isLocalHost(host string) bool {
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	ip = ip.Unmap().WithZone("")
	return err == nil && (!ip.IsGlobalUnicast() || ip.IsPrivate() || sharedRange.Contains(ip))
}
