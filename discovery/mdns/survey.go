package mdns

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"symbio/discovery"
)

// Interface describes one network interface and whether a Source would use it.
type Interface struct {
	Name     string
	Addrs    []netip.Prefix
	Loopback bool
	// Used reports whether a Source with that configuration works on it; Why says why not.
	Used bool
	Why  string
}

// Survey returns all interfaces of this machine, with whether a Source with cfg would use each of
// them now, and if not, why. It sends nothing.
func Survey(cfg Config) ([]Interface, error) {
	all, err := allInterfaces()
	if err != nil {
		return nil, fmt.Errorf("mdns: listing the network interfaces: %w", err)
	}
	return survey(all, cfg), nil
}

// survey is Survey for a given list of interfaces.
func survey(all []iface, cfg Config) []Interface {
	up := slices.DeleteFunc(slices.Clone(all), func(i iface) bool { return i.unusable() != "" })
	used := choose(up, cfg.Loopback, cfg.Allow, cfg.Deny).used
	out := make([]Interface, len(all))
	for n, i := range all {
		o := Interface{Name: i.Name, Addrs: i.prefixes, Loopback: i.loopback()}
		o.Used = slices.ContainsFunc(used, func(u iface) bool { return u.Index == i.Index })
		switch {
		case o.Used:
		case i.unusable() != "":
			o.Why = i.unusable()
		case i.loopback():
			o.Why = "only nodes of this machine can be found on it"
		case cfg.Loopback:
			o.Why = "the node listens on loopback only"
		default:
			o.Why = i.excluded(cfg.Allow, cfg.Deny)
		}
		out[n] = o
	}
	return out
}

// Port reports whether UDP port 5353 can be shared with the other programs that use it, such as the
// system's responder: a nil error per address family that works. It sends nothing.
func Port() (v4, v6 error) {
	try := func(v6 bool) error {
		s, err := openSocket(v6, port)
		if err != nil {
			return err
		}
		return s.close()
	}
	return try(false), try(true)
}

// SelfTest lets two sources on this machine find each other with real packets, on loopback or on
// the interfaces that cfg selects. It returns how long that took, or an error when it did not
// happen before ctx ended. Of cfg it uses Loopback, Allow, Deny and Logger; the service type is a
// random one that no node browses, and the announced port is unused.
func SelfTest(ctx context.Context, cfg Config) (time.Duration, error) {
	salt := rand.Text()
	id := fmt.Sprintf("%x", salt[:16]) // 32 hex digits, as the ids of nodes are
	cfg.Service = "_syt" + strings.ToLower(salt[16:24]) + "._tcp"
	cfg.Tag, cfg.Protocol = "", ""
	cfg.Node, cfg.Port = id, 9 // the discard port: no node listens there
	speaks := New(cfg)
	cfg.Node, cfg.Port = strings.Repeat("0", len(id)), 0
	looks := New(cfg)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun, took := time.Now(), time.Duration(0)
	roster := discovery.NewRoster(discovery.Config{Self: cfg.Node, Report: func(c discovery.Candidate) {
		if c.Node == id && took == 0 {
			took = time.Since(begun)
			cancel()
		}
	}})
	if err := roster.Run(ctx, looks, silentSource{speaks}); err != nil {
		return 0, err
	}
	if took > 0 {
		return took, nil
	}
	if err := errors.Join(speaks.Health(), looks.Health()); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("mdns: what was announced was not heard within %v", time.Since(begun).Round(10*time.Millisecond))
}

// silentSource is a source whose sightings are dropped.
type silentSource struct{ *Source }

func (s silentSource) Run(ctx context.Context, _ func(discovery.Sighting)) error {
	return s.Source.Run(ctx, func(discovery.Sighting) {})
}
