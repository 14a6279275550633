package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"symbio/discovery"
	"symbio/internal/discovery/lookup"
)

// LookUp looks the names of cfg up once and returns what Run would report, and the errors, by name.
// It returns when all names have been answered or ctx ends; err is ctx's error, or says that cfg is
// invalid.
func LookUp(ctx context.Context, cfg Config) (peers map[string][]discovery.Sighting, wrong map[string]error, err error) {
	s, err := New(cfg)
	if err != nil {
		return nil, nil, err
	}
	peers, wrong = s.Once(ctx)
	return peers, wrong, ctx.Err()
}

// lookUp looks the name up: by SRV records, or by A and AAAA records.
func (e entry) lookUp(ctx context.Context, a *lookup.Answer) {
	if e.port == 0 {
		e.lookUpService(ctx, a)
	} else {
		e.lookUpHost(ctx, a)
	}
}

// lookUpHost fills a with one peer per address of a name: behind a headless service each address is
// another node.
func (e entry) lookUpHost(ctx context.Context, a *lookup.Answer) {
	ips, err := e.resolver.LookupNetIP(ctx, "ip", e.host)
	a.Err, a.Complete = err, err == nil || noRecords(err)
	for _, ip := range ips {
		addr := netip.AddrPortFrom(ip.Unmap(), e.port)
		if ip.IsValid() && len(a.Found) < lookup.MaxPeers {
			a.Found[addr.String()+" of "+e.text] = []netip.AddrPort{addr}
		}
	}
}

// lookUpService fills a with one peer per target of an SRV name, with all addresses of the target.
// Targets are looked up concurrently, so that one that times out does not use up the time of the
// others.
func (e entry) lookUpService(ctx context.Context, a *lookup.Answer) {
	_, records, err := e.resolver.LookupSRV(ctx, "", "", e.host)
	// The resolver leaves out records whose targets are no names, and says so in an error beside the rest.
	a.Err, a.Complete = err, err == nil || noRecords(err)
	var mu sync.Mutex          // guards a's maps and its error
	var looking sync.WaitGroup // all at once: those that do not answer must not take the time of those that do
	asked := map[string]bool{}
	for _, r := range records {
		key := net.JoinHostPort(strings.ToLower(strings.TrimSuffix(r.Target, ".")), strconv.Itoa(int(r.Port))) + " of " + e.text
		// RFC 2782: the target "." means that the service is decidedly not there.
		if !discovery.IsHostName(r.Target) || r.Port == 0 || asked[key] || len(asked) >= lookup.MaxPeers {
			continue
		}
		asked[key] = true
		looking.Go(func() {
			ips, err := e.resolver.LookupNetIP(ctx, "ip", r.Target)
			mu.Lock()
			defer mu.Unlock()
			if addrs := lookup.Dialable(ips, r.Port); len(addrs) > 0 {
				a.Found[key] = addrs
				return
			}
			if err != nil && a.Err == nil {
				a.Err = fmt.Errorf("its target %s: %w", r.Target, err)
			}
			a.Unsure[key] = err != nil && !noRecords(err)
		})
	}
	looking.Wait()
}

// noRecords reports whether a name server answered that there are no records. That is an answer;
// timeouts and failures are not.
func noRecords(err error) bool {
	var e *net.DNSError
	return errors.As(err, &e) && e.IsNotFound && !e.IsTimeout && !e.IsTemporary
}
