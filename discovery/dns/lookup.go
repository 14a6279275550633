package dns

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"symbio/discovery"
)

// answer is the result of one look-up of an entry.
type answer struct {
	entry entry
	// complete means that the whole group was listed: a peer in neither map was missing from it.
	complete bool
	found    map[string][]netip.AddrPort
	unsure   map[string]bool // listed, but the look-up of the addresses failed
	// err is why some or all peers are not in found.
	err error
}

// LookUp looks the names of cfg up once and returns what Run would report, and the errors, by name.
// It returns when all names have been answered or ctx ends; err is ctx's error, or says that cfg is
// invalid.
func LookUp(ctx context.Context, cfg Config) (peers map[string][]discovery.Sighting, wrong map[string]error, err error) {
	s, err := New(cfg)
	if err != nil {
		return nil, nil, err
	}
	peers = map[string][]discovery.Sighting{}
	s.lookUpAll(ctx, func(sg discovery.Sighting) {
		s.mu.Lock()
		name := s.known[sg.Key].entry
		s.mu.Unlock()
		peers[name] = append(peers[name], sg)
	})
	maps.DeleteFunc(s.errs, func(_ string, err error) bool { return err == nil })
	return peers, s.errs, ctx.Err()
}

// lookUp looks one entry up within Config.Timeout. An answer without any peer is an error for
// Health, though it is complete.
func (s *Source) lookUp(ctx context.Context, e entry) answer {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	a := answer{entry: e, found: map[string][]netip.AddrPort{}, unsure: map[string]bool{}}
	if e.srv() {
		s.lookUpService(ctx, &a)
	} else {
		s.lookUpHost(ctx, &a)
	}
	if a.err == nil && len(a.found) == 0 {
		a.err = errors.New("it has no records")
	}
	return a
}

// lookUpHost fills a with one peer per address of a name: behind a headless service each address is
// another node.
func (s *Source) lookUpHost(ctx context.Context, a *answer) {
	ips, err := s.cfg.Resolver.LookupNetIP(ctx, "ip", a.entry.host)
	a.err, a.complete = err, err == nil || noRecords(err)
	for _, ip := range ips {
		addr := netip.AddrPortFrom(ip.Unmap(), a.entry.port)
		if ip.IsValid() && len(a.found) < maxPeers {
			a.found[addr.String()+" of "+a.entry.text] = []netip.AddrPort{addr}
		}
	}
}

// lookUpService fills a with one peer per target of an SRV name, with all addresses of the target.
// Targets are looked up concurrently, so that one that times out does not use up the time of the
// others.
func (s *Source) lookUpService(ctx context.Context, a *answer) {
	_, records, err := s.cfg.Resolver.LookupSRV(ctx, "", "", a.entry.host)
	// The resolver leaves out records whose targets are no names, and says so in an error beside the rest.
	a.err, a.complete = err, err == nil || noRecords(err)
	var mu sync.Mutex          // guards a's maps and its error
	var looking sync.WaitGroup // all at once: those that do not answer must not take the time of those that do
	asked := map[string]bool{}
	for _, r := range records {
		key := net.JoinHostPort(strings.ToLower(strings.TrimSuffix(r.Target, ".")), strconv.Itoa(int(r.Port))) + " of " + a.entry.text
		// RFC 2782: the target "." means that the service is decidedly not there.
		if !discovery.IsHostName(r.Target) || r.Port == 0 || asked[key] || len(asked) >= maxPeers {
			continue
		}
		asked[key] = true
		looking.Go(func() {
			ips, err := s.cfg.Resolver.LookupNetIP(ctx, "ip", r.Target)
			mu.Lock()
			defer mu.Unlock()
			if addrs := dialable(ips, r.Port); len(addrs) > 0 {
				a.found[key] = addrs
				return
			}
			if err != nil && a.err == nil {
				a.err = fmt.Errorf("its target %s: %w", r.Target, err)
			}
			a.unsure[key] = err != nil && !noRecords(err)
		})
	}
	looking.Wait()
}

// dialable returns the addresses with the port, without duplicates and at most discovery.MaxAddrs.
func dialable(ips []netip.Addr, port uint16) (out []netip.AddrPort) {
	for _, ip := range ips {
		addr := netip.AddrPortFrom(ip.Unmap(), port)
		if ip.IsValid() && !slices.Contains(out, addr) && len(out) < discovery.MaxAddrs {
			out = append(out, addr)
		}
	}
	return out
}

// noRecords reports whether a name server answered that there are no records. That is an answer;
// timeouts and failures are not.
func noRecords(err error) bool {
	var e *net.DNSError
	return errors.As(err, &e) && e.IsNotFound && !e.IsTimeout && !e.IsTemporary
}
