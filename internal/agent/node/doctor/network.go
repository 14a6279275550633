package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"symbio/discovery"
	"symbio/discovery/mdns"
)

// discovery returns the mDNS configuration of a node on this machine. A node that listens on
// loopback announces itself on loopback only (design note 0005).
func (w *World) discovery() mdns.Config {
	i := w.Options.Settings.Discovery.Interfaces
	return mdns.Config{Loopback: !w.listensOnLAN(), Allow: i.Allow, Deny: i.Deny}
}

// interfaces lists the network interfaces and says why one is not used. With mDNS on, it fails if
// none can be used for the addresses that the node listens on.
func interfaces(_ context.Context, w *World) (out []Finding) {
	all, err := w.Survey(w.discovery())
	if err != nil {
		return []Finding{fail("check that this user may list network interfaces", "%v", err)}
	}
	used := false
	for _, i := range all {
		var addrs []string
		for _, a := range i.Addrs {
			addrs = append(addrs, a.String())
		}
		where := strings.TrimSpace(i.Name + " " + strings.Join(addrs, ", "))
		if i.Used {
			// Loopback alone is enough only for a node that listens on loopback.
			used = used || !i.Loopback || !w.listensOnLAN()
			out = append(out, ok("%s: used", where))
		} else {
			out = append(out, ok("%s: not used: %s", where, i.Why))
		}
	}
	if !used && w.Options.Settings.Discovery.MDNS {
		if w.listensOnLAN() {
			return append(out, fail("connect one, or let discovery.interfaces allow one, or name peers with discovery.peers", "no interface can be used to find nodes on other machines"))
		}
		return append(out, fail("bring loopback up: ip link set lo up", "there is no loopback interface: nodes on this machine cannot find each other"))
	}
	return out
}

// multicast tests multicast on each used interface. The tests run at the same time, because each
// may wait for half of checkTimeout.
func multicast(ctx context.Context, w *World) []Finding {
	if !w.Options.Settings.Discovery.MDNS {
		return []Finding{ok("discovery.mdns is off: nothing is sent or received")}
	}
	cfg := w.discovery()
	all, err := w.Survey(cfg)
	if err != nil {
		return nil // the check of the interfaces reports that
	}
	used := slices.DeleteFunc(slices.Clone(all), func(i mdns.Interface) bool { return !i.Used })
	return each(used, func(i mdns.Interface) Finding { return w.multicastOn(ctx, i) })
}

// multicastOn sends real mDNS packets on one interface and waits up to half of checkTimeout for
// their return.
func (w *World) multicastOn(ctx context.Context, i mdns.Interface) Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout/2)
	defer cancel()
	took, err := w.SelfTest(ctx, mdns.Config{Loopback: i.Loopback, Allow: []string{literally(i.Name)}})
	if err != nil {
		return fail("let the firewall pass UDP port 5353 on "+i.Name+", or name peers with discovery.peers", "%s: %v", i.Name, err)
	}
	return ok("%s: what is sent is heard, after %.1f ms", i.Name, took.Seconds()*1000)
}

// literally returns the pattern that matches only this name. Allow has patterns, and an interface
// may have a name such as eth0[1].
func literally(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// mdnsPort checks that UDP port 5353 can be shared with other programs, such as the system's mDNS
// responder. IPv4 alone is enough; IPv6 alone is a warning.
func mdnsPort(_ context.Context, w *World) []Finding {
	const fix = "stop the program that holds it alone, or make it share the port (see: ss -ulpn sport = 5353); or name peers with discovery.peers"
	if !w.Options.Settings.Discovery.MDNS {
		return []Finding{ok("discovery.mdns is off: UDP port 5353 is not needed")}
	}
	switch v4, v6 := w.MDNSPort(); {
	case v4 == nil && v6 == nil:
		return []Finding{ok("UDP port 5353 can be shared")}
	case v4 == nil:
		return []Finding{ok("UDP port 5353 can be shared on IPv4; there is no IPv6: %v", v6)}
	case v6 == nil:
		return []Finding{warn(fix, "UDP port 5353 can be shared on IPv6 only: %v", v4)}
	default:
		return []Finding{fail(fix, "UDP port 5353 cannot be had: %v", v4)}
	}
}

// listen checks the TCP port. The running nodes must answer on theirs; without any, a new node must
// be able to open the configured one.
func listen(ctx context.Context, w *World) (out []Finding) {
	defer func() {
		out = append(out, webSocket(w.Options.Settings.Node.WebSocket, len(w.Nodes) > 0, func(url string) error { return w.dial(ctx, url) }, w.Listen)...)
	}()
	for _, n := range w.Nodes {
		// The check of the nodes reports this one, and its address is unknown.
		if n.Err != nil {
			continue
		}
		if err := w.dial(ctx, reachable(n.Status.GetListen())); err != nil {
			out = append(out, fail("let the firewall pass it, or restart the node: symbio up --name "+n.Name, "node %s does not answer on %s: %v", n.Name, n.Status.GetListen(), err))
			continue
		}
		out = append(out, ok("node %s answers on %s", n.Name, n.Status.GetListen()))
	}
	if len(out) > 0 {
		return out
	}
	addr := w.Options.Settings.Node.Listen
	// A node outside of a cluster has a certificate of the user's own authority only, and refuses
	// to start on such an address.
	if !onLoopback(addr) && !w.Clustered {
		return []Finding{fail("join a cluster: symbio cluster join TOKEN ADDRESS, or begin one: symbio cluster init; or listen on 127.0.0.1:0",
			"%s can be reached from other machines, and a node may listen there only under the certificate of a cluster", addr)}
	}
	if err := w.Listen(addr); err != nil {
		return []Finding{fail("stop the program that has the port, or choose another: symbio up --listen HOST:PORT", "a node started here could not listen on %s: %v", addr, err)}
	}
	return []Finding{ok("a node started here can listen on %s", addr)}
}

// webSocket checks the URL of node.websocket in the same way: dial opens it if nodes run, else listen its address.
func webSocket(at string, running bool, dial, listen func(string) error) []Finding {
	u, err := discovery.ParseURL(at)
	if err != nil {
		return nil // there is none, or the check of the configuration reports it
	}
	if running {
		if err := dial(u.String()); err != nil {
			return []Finding{warn("restart the node that has it in its configuration", "no node accepts WebSockets at %s: %v", u, err)}
		}
		return []Finding{ok("WebSockets are accepted at %s", u)}
	}
	if err := listen(u.Host); err != nil {
		return []Finding{fail("stop the program that has the port, or choose another for node.websocket", "a node started here could not accept WebSockets at %s: %v", u, err)}
	}
	return []Finding{ok("a node started here can accept WebSockets at %s", u)}
}

// reachable returns an address that this machine can dial for a listen address: the loopback
// address of the same family if the host is unspecified. A malformed address is returned as it is,
// so that dialing it reports the mistake.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// dial opens a connection within half of checkTimeout and closes it; no TLS handshake takes place.
// Its error lacks the address, because the finding has it.
func (w *World) dial(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout/2)
	defer cancel()
	if err := w.Dial(ctx, addr); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("no answer within %v", checkTimeout/2)
		}
		var op *net.OpError
		if errors.As(err, &op) {
			// The inner error is the reason, such as "connection refused".
			return op.Err
		}
		return err
	}
	return nil
}
