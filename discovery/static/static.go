// Package static is a discovery source for configured peers: "host:port" entries, and URLs of WebSockets.
//
// A configured peer is never reported gone. An IP address or a URL is reported once, at the start; a host
// name is looked up every half a minute, and reported when its addresses changed. A failed look-up
// removes nothing.
//
// Reports come serially from Run. Look-ups are concurrent, so that a slow name delays no other.
package static

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"symbio/discovery"
	"symbio/internal/discovery/lookup"
)

// maxPeers bounds the entries. One reachable peer is enough to meet the others, and all names are
// looked up concurrently.
const maxPeers = 256

// Resolver looks names up; *net.Resolver implements it. It is called concurrently.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config sets up a Source. The zero value is usable: it has no peers.
type Config struct {
	// Peers are "host:port" entries (names, IPv4 addresses, or IPv6 addresses in brackets), or URLs (discovery.ParseURL).
	Peers []string
	// Resolver looks the names up. Default: net.DefaultResolver.
	Resolver Resolver
	// Logger receives failed look-ups, once each time they begin to fail. Default: silent.
	Logger *slog.Logger
}

// every is how often names are looked up again: what DNS changes, changes in minutes.
const every = 30 * time.Second

// Source reports the configured peers. Its sightings claim no node; the dial shows which node is
// there. All methods may be called concurrently, Run once at a time.
type Source struct {
	*lookup.Source
	fixed []discovery.Sighting
}

// New returns a Source for cfg.Peers, without duplicates. It returns an error that names the first
// entry that is neither "host:port" nor a URL, or for more than maxPeers entries. Nothing is looked up before
// Run.
func New(cfg Config) (*Source, error) {
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if len(cfg.Peers) > maxPeers {
		return nil, fmt.Errorf("static: %d peers are configured, at most %d make sense: one that can be reached is enough", len(cfg.Peers), maxPeers)
	}
	s := &Source{}
	var names []lookup.Entry
	for i, entry := range cfg.Peers {
		if slices.Contains(cfg.Peers[:i], entry) {
			continue
		}
		if discovery.IsURL(entry) {
			if _, err := discovery.ParseURL(entry); err != nil {
				return nil, fmt.Errorf("static: peer %q: %w", entry, err)
			}
			s.fixed = append(s.fixed, discovery.Sighting{Source: "static", Key: entry, URL: entry, Why: "configured"})
			continue
		}
		host, port, ip, err := parse(entry)
		if err != nil {
			return nil, fmt.Errorf("static: peer %q: %w", entry, err)
		}
		if ip.IsValid() {
			s.fixed = append(s.fixed, discovery.Sighting{Source: "static", Key: entry, Addrs: []netip.AddrPort{netip.AddrPortFrom(ip, port)}, Why: "configured"})
			continue
		}
		names = append(names, lookup.Entry{Text: entry, LookUp: func(ctx context.Context, a *lookup.Answer) {
			ips, err := cfg.Resolver.LookupNetIP(ctx, "ip", host)
			if addrs := lookup.Dialable(ips, port); err == nil && len(addrs) > 0 {
				a.Found[entry] = addrs
			}
			a.Err = err
		}})
	}
	s.Source = lookup.New(lookup.Config{Source: "static", Every: every, Logger: cfg.Logger, Advice: "check the name, or write its address"}, names)
	return s, nil
}

// parse reads one entry: an IP address, or else a host name to look up.
func parse(entry string) (host string, port uint16, ip netip.Addr, err error) {
	host, port, err = discovery.SplitPort(entry, "host:port, as in 10.0.0.7:7946, [fd00::7]:7946 or kitchen.example:7946")
	if err != nil {
		return "", 0, ip, err
	}
	if ip, err = netip.ParseAddr(host); err == nil && (ip.Zone() == "" || discovery.IsHostName(ip.Zone())) {
		if ip = ip.Unmap(); ip.IsUnspecified() || ip.IsMulticast() {
			return "", 0, ip, fmt.Errorf("%s is not the address of a host", ip)
		}
		return host, port, ip, nil
	}
	if !discovery.IsHostName(host) {
		return "", 0, ip, fmt.Errorf("%q is neither an address nor a host name", host)
	}
	return host, port, netip.Addr{}, nil
}

// Run reports the addresses once, then looks the names up and reports changes until ctx ends. It
// always returns nil.
func (s *Source) Run(ctx context.Context, report func(discovery.Sighting)) error {
	for _, sg := range s.fixed {
		if ctx.Err() != nil {
			return nil
		}
		report(sg)
	}
	return s.Source.Run(ctx, report)
}
