// Package dns is a discovery source for DNS names that stand for a group of nodes: a Kubernetes
// headless service, or a zone that lists the nodes of a site.
//
// An SRV name ("_symbio._tcp.example") yields a peer for each target, with the port of the record;
// "name:port" yields a peer for each address. Each answer of the name server is taken as the whole
// group. Names are looked up every Config.Every; a peer that is missing from two complete answers
// in a row is gone.
//
// A failed look-up removes no peer; only an answer can, and "no records" is an answer. Reports come
// serially from Run. Look-ups are concurrent, so that a slow name delays no other. The answers are
// hints, like the addresses of any source, and bounded: at most 512 peers.
//
// DNS-SD browsing (PTR records) and multicast are not done here; see discovery/mdns.
package dns

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"symbio/internal/discovery/lookup"
)

// maxNames bounds the entries: each stands for a whole group.
const maxNames = 64

// Resolver looks names up; *net.Resolver implements it. LookupSRV is called with an empty service
// and proto, so that name is used as it is. The methods are called concurrently.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, records []*net.SRV, err error)
}

// Config sets up a Source. The zero value is usable: it has no names.
type Config struct {
	// Names are "_symbio._tcp.example" entries for SRV records, and "name:port" entries for A and AAAA records.
	Names []string
	// Every is how often names are looked up again. Default 10 s: a cluster's name server changes
	// within seconds, and one query in ten seconds is no load for it.
	Every time.Duration
	// Timeout bounds one look-up, including the targets of an SRV name. Default 5 s: the usual
	// limit of a resolver for one server.
	Timeout time.Duration
	// Resolver looks the names up. Default: net.DefaultResolver.
	Resolver Resolver
	// Logger receives failed look-ups, once when they begin to fail. Default: silent.
	Logger *slog.Logger
}

// New returns a source for cfg.Names. It returns an error for a name of neither form and for more
// than maxNames names. Nothing is looked up before Run.
func New(cfg Config) (*lookup.Source, error) {
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if len(cfg.Names) > maxNames {
		return nil, fmt.Errorf("dns: %d names are configured, at most %d make sense: each stands for a whole group", len(cfg.Names), maxNames)
	}
	var entries []lookup.Entry
	for i, text := range cfg.Names {
		if slices.Contains(cfg.Names[:i], text) {
			continue
		}
		e, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("dns: name %q: %w", text, err)
		}
		e.resolver = cfg.Resolver
		entries = append(entries, lookup.Entry{Text: text, LookUp: e.lookUp})
	}
	return lookup.New(lookup.Config{
		Source: "dns", Every: cmp.Or(cfg.Every, 10*time.Second), Timeout: cfg.Timeout, Logger: cfg.Logger, Advice: "check the name, and that this machine's name server knows it",
	}, entries), nil
}
