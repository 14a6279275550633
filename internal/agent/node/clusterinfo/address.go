package clusterinfo

import (
	"context"
	"net"
	"net/netip"
	"time"

	statedir "symbio/internal/agent/node/state"
	symbiov1 "symbio/proto/symbio/v1"
)

// JoinAddress returns the address at which others reach the node, for the line that `symbio cluster
// token` prints, and whether the node runs. It asks a running node, for up to a second. Without a
// running node a random port is unknown and printed as PORT.
func JoinAddress(ctx context.Context, state statedir.Dir, member string) (addr string, up bool, err error) {
	addr, err = state.Node(member).ListenAddr()
	if err != nil {
		return "", false, err
	}
	if conn, err := state.Node(member).Dial(); err == nil {
		defer conn.Close()
		ask, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if s, err := symbiov1.NewControlClient(conn).Status(ask, &symbiov1.StatusRequest{}); err == nil {
			addr, up = s.GetListen(), true
		}
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", up, err
	}
	// An unspecified address is valid to listen on, but others cannot dial it.
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = lanAddress()
	}
	if port == "0" {
		// `symbio up` prints the port that it listens on.
		port = "PORT"
	}
	return net.JoinHostPort(host, port), up, nil
}

// lanAddress returns the address of this machine on its LAN: the source address of a route to the
// internet, else the best address of its interfaces, private IPv4 first. It returns 127.0.0.1 if
// there is none.
func lanAddress() string {
	// Connecting a UDP socket asks the routing table and sends nothing. 192.0.2.1 is reserved for
	// documentation (RFC 5737), port 9 is discard.
	if c, err := net.Dial("udp4", "192.0.2.1:9"); err == nil {
		defer c.Close()
		if a, ok := c.LocalAddr().(*net.UDPAddr); ok && !a.IP.IsLoopback() && !a.IP.IsLinkLocalUnicast() {
			return a.IP.String()
		}
	}
	best, rank := "127.0.0.1", 0
	all, err := net.InterfaceAddrs()
	if err != nil {
		return best
	}
	for _, one := range all {
		prefix, err := netip.ParsePrefix(one.String())
		ip := prefix.Addr().Unmap()
		// r ranks the address; 0 = others cannot use it.
		r := 0
		switch {
		case err != nil || ip.IsLoopback() || ip.IsLinkLocalUnicast():
		case ip.Is4() && ip.IsPrivate():
			r = 4
		case ip.Is4():
			r = 3
		case ip.IsGlobalUnicast():
			r = 2
		}
		if r > rank {
			best, rank = ip.String(), r
		}
	}
	return best
}
