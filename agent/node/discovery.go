package node

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"

	"symbio/agent/node/config"
	"symbio/discovery"
	"symbio/discovery/dns"
	"symbio/discovery/mdns"
	"symbio/discovery/static"
)

// sources returns the configured sources of addresses of other nodes, the most
// trusted first. On loopback, mDNS uses loopback only.
func sources(c config.Discovery, node, tag string, listen netip.AddrPort, log *slog.Logger) ([]discovery.Source, error) {
	var out []discovery.Source
	if c.MDNS {
		out = append(out, mdns.New(mdns.Config{
			Node: node, Tag: tag, Port: listen.Port(), Loopback: listen.Addr().IsLoopback(),
			Allow: c.Interfaces.Allow, Deny: c.Interfaces.Deny, Logger: log,
		}))
	}
	if len(c.Peers) > 0 {
		s, err := static.New(static.Config{Peers: c.Peers, Logger: log})
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if len(c.DNS) > 0 {
		s, err := dns.New(dns.Config{Names: c.DNS, Logger: log})
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// here returns a function that reports whether an address is this node: one of
// this machine's addresses with the port where the node listens. It reads the
// interfaces on each call, because they change. If they cannot be read it
// returns true: not dialling is the safe mistake.
func here(port uint16) func(netip.AddrPort) bool {
	return func(a netip.AddrPort) bool {
		if a.Port() != port {
			return false
		}
		if a.Addr().IsLoopback() {
			return true
		}
		all, err := net.InterfaceAddrs()
		return err != nil || slices.ContainsFunc(all, func(one net.Addr) bool {
			p, err := netip.ParsePrefix(one.String())
			return err == nil && p.Addr().Unmap() == a.Addr().WithZone("").Unmap()
		})
	}
}
