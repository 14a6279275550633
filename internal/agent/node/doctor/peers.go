package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"symbio/discovery"
	"symbio/discovery/dns"
	symbiov1 "symbio/proto/symbio/v1"
)

// configuredPeers connects to each entry of discovery.peers.
func configuredPeers(ctx context.Context, w *World) []Finding {
	return each(w.Options.Settings.Discovery.Peers, func(entry string) Finding { return w.peer(ctx, entry) })
}

// each runs f for all items at the same time and returns the results in the order of the items. It
// waits for all of them: f must bound its own time.
func each[In, Out any](items []In, f func(In) Out) []Out {
	out := make([]Out, len(items))
	var running sync.WaitGroup
	for i, item := range items {
		// Each goroutine writes only its own element, so out needs no lock.
		running.Go(func() { out[i] = f(item) })
	}
	running.Wait()
	return out
}

// peer looks up the name of an entry and connects to its addresses. entry is host:port or a
// URL, as under discovery.peers.
func (w *World) peer(ctx context.Context, entry string) Finding {
	if u, err := discovery.ParseURL(entry); err == nil {
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !w.worthDialling(ip) {
			return w.reach(ctx, entry, nil)
		}
		return w.reach(ctx, entry, []string{entry})
	}
	host, port, err := net.SplitHostPort(entry)
	if err != nil {
		return fail("write it as host:port, or as wss://host/path", "%s: %v", entry, err)
	}
	// The lookup gets half of the time, so that the other half is left for the connections.
	short, cancel := context.WithTimeout(ctx, checkTimeout/2)
	defer cancel()
	ips := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		ips = append(ips, ip)
	} else if ips, err = w.Resolver.LookupNetIP(short, "ip", host); err != nil {
		return fail("correct the name under discovery.peers, or write its address", "%s: its name cannot be looked up: %v", entry, err)
	}
	var addrs []string
	for _, ip := range ips {
		// Resolvers return IPv4 addresses also as IPv4-mapped IPv6 ones; Unmap makes them plain
		// IPv4.
		if ip = ip.Unmap(); w.worthDialling(ip) {
			addrs = append(addrs, net.JoinHostPort(ip.String(), port))
		}
	}
	return w.reach(ctx, entry, addrs)
}

// worthDialling reports whether a node would dial an address. A node on loopback outside of a
// cluster talks to nodes of its own machine only.
func (w *World) worthDialling(ip netip.Addr) bool {
	return w.Clustered || w.listensOnLAN() || ip.IsLoopback()
}

// firewall is the advice for a node that does not answer.
const firewall = "start the node there (symbio up), and let the firewalls between pass TCP to that port; check the address; " +
	"where only HTTP gets through, set node.websocket there behind a proxy, and name the node here as wss://HOST/PATH"

// reach dials all addresses of a peer at the same time and reports the first that answers. It
// cancels the others and waits for them. Without addrs it returns the advice to join a cluster:
// worthDialling has removed all.
func (w *World) reach(ctx context.Context, who string, addrs []string) Finding {
	if len(addrs) == 0 {
		return fail("join a cluster: symbio cluster join TOKEN ADDRESS, or begin one: symbio cluster init",
			"%s is on another machine, and without a cluster nodes talk on their own machine only", who)
	}
	// A node dials no more addresses of a peer than this.
	addrs = addrs[:min(len(addrs), discovery.MaxAddrs)]
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		addr string
		took time.Duration
		err  error
	}
	// answers has room for all, so that a late answer does not block its goroutine.
	answers := make(chan answer, len(addrs))
	var dialling sync.WaitGroup
	// Deferred calls run in reverse order: cancel first, then the wait for the goroutines.
	defer dialling.Wait()
	defer cancel()
	for _, a := range addrs {
		dialling.Go(func() {
			begun := time.Now()
			err := w.dial(ctx, a)
			answers <- answer{a, time.Since(begun), err}
		})
	}
	// first is the error that the finding shows. It names the address if the entry was a name.
	var first error
	for range addrs {
		a := <-answers
		if a.err == nil && a.addr == who {
			return ok("%s answers, after %.1f ms", who, a.took.Seconds()*1000)
		}
		if a.err == nil {
			return ok("%s answers at %s, after %.1f ms", who, a.addr, a.took.Seconds()*1000)
		}
		if first == nil {
			first = a.err
			if a.addr != who {
				first = fmt.Errorf("%s: %w", a.addr, a.err)
			}
		}
	}
	if discovery.IsURL(who) {
		why, fix := splitAdvice(first.Error(), "check the URL, the proxy there, and the node behind it")
		return fail(fix, "%s does not open: %s", who, why)
	}
	return fail(firewall, "%s does not answer: %v", who, first)
}

// configuredNames looks up each entry of discovery.dns and connects to the
// listed nodes. One node that answers is enough; the others of the group are
// then only warnings.
func configuredNames(ctx context.Context, w *World) []Finding {
	return slices.Concat(each(w.Options.Settings.Discovery.DNS, func(name string) []Finding { return w.name(ctx, name) })...)
}

// name checks one entry of discovery.dns: that it resolves, and that its nodes answer. Records that
// are partly wrong are a warning.
func (w *World) name(ctx context.Context, name string) (out []Finding) {
	const fix = "correct the name under discovery.dns, or ask the administrator of that zone"
	found, wrong, err := dns.LookUp(ctx, dns.Config{Names: []string{name}, Timeout: checkTimeout / 2, Resolver: w.Resolver})
	if err != nil {
		return []Finding{fail(fix, "%v", err)}
	}
	if err := wrong[name]; err != nil && len(found[name]) == 0 {
		return []Finding{fail(fix, "%s: %v", name, err)}
	} else if err != nil {
		out = append(out, warn(fix, "%s: %v", name, err))
	}
	return append(out, w.listed(ctx, found[name])...)
}

// listed connects to the nodes that one DNS name lists. One reachable node is enough to join a
// cluster, so with one OK the failures of the others become warnings.
func (w *World) listed(ctx context.Context, group []discovery.Sighting) []Finding {
	var keys []string
	addrs := map[string][]string{}
	for _, s := range group {
		keys = append(keys, s.Key)
		for _, a := range s.Addrs {
			if w.worthDialling(a.Addr()) {
				addrs[s.Key] = append(addrs[s.Key], a.String())
			}
		}
	}
	out := each(keys, func(key string) Finding { return w.reach(ctx, key, addrs[key]) })
	if slices.ContainsFunc(out, func(f Finding) bool { return f.Status == OK }) {
		for i := range out {
			if out[i].Status == Fail {
				out[i].Status = Warn
			}
		}
	}
	return out
}

// sourcesWork reports the health of the discovery sources of each running node. Problems are
// warnings, because another source may still find the peers.
func sourcesWork(_ context.Context, w *World) (out []Finding) {
	for _, n := range w.Nodes {
		for _, s := range n.Status.GetSources() {
			if len(s.GetProblems()) == 0 {
				out = append(out, ok("node %s finds others by %s", n.Name, s.GetName()))
			}
			for _, p := range s.GetProblems() {
				out = append(out, warn("mend that, or name a node that can be reached, one is enough: symbio up --peer HOST:PORT",
					"node %s cannot find others by %s as it should: %s", n.Name, s.GetName(), p))
			}
		}
	}
	return out
}

// nodesSeen reports the nodes that a running node knows and cannot talk to, with the reason. For
// each running node that answered it also returns the number of its connections.
func nodesSeen(_ context.Context, w *World) (out []Finding) {
	for _, n := range w.Nodes {
		connected := 0
		for _, p := range n.Peers {
			who := fmt.Sprintf("node %s sees %s", n.Name, called(p))
			if len(p.GetSources()) > 0 {
				who += " (by " + strings.Join(p.GetSources(), ", ") + ")"
			}
			switch p.GetState() {
			case "connected":
				connected++
				// A connected peer has a reason only if a limit keeps some of its members out.
				if p.GetWhy() != "" {
					out = append(out, warn("raise that limit in the configuration of "+n.Name, "%s, %s", who, p.GetWhy()))
				}
				if p.GetVia() == "reversed" {
					out = append(out, ok("node %s reaches %s over a connection that the other opened, because it cannot be dialled: a NAT or a firewall is before it, or it listens elsewhere",
						n.Name, called(p)))
				}
			case "unavailable":
				// The machine answers, and only a memory speaks of the node: it was stopped.
				if slices.Equal(p.GetSources(), []string{"introduced"}) && strings.HasSuffix(p.GetWhy(), "connection refused") {
					out = append(out, ok("node %s knows %s from before, which does not run now", n.Name, called(p)))
					break
				}
				why, fix := p.GetWhy(), firewall
				if discovery.IsURL(p.GetAddr()) {
					why, fix = splitAdvice(why, "check the URL, the proxy there, and the node behind it")
				}
				out = append(out, warn(fix, "%s and cannot reach it: %s", who, why))
			case "refused":
				why, fix := splitAdvice(p.GetWhy(), "put both under one authority: symbio cluster join TOKEN ADDRESS on the one that is to join; on one machine, run both as one user")
				out = append(out, warn(fix, "%s and they refuse each other: %s", who, why))
			case "incompatible":
				out = append(out, warn("run the same release on both: symbio version", "%s and they do not speak the same protocol: %s", who, p.GetWhy()))
			}
		}
		if n.Err == nil {
			out = append(out, ok("node %s is connected to %d other nodes", n.Name, connected))
		}
	}
	return out
}

// called returns the name of a peer for people, with its address.
func called(p *symbiov1.Node) string {
	who := cmp.Or(p.GetName(), p.GetId(), "an unknown node")
	if p.GetAddr() == "" {
		return who
	}
	return who + " at " + p.GetAddr()
}
