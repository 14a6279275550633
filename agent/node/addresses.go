package node

import (
	"context"
	"maps"
	"net/netip"
	"time"

	"symbio/agent/node/state"
	"symbio/community"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// addressInterval is the time between two looks at the connected nodes. A node
// that crashes loses at most the addresses of that time.
const addressInterval = 2 * time.Second

// keepAddresses stores the addresses of connected nodes of the cluster until
// ctx ends, so that a restarted node can dial them even if the configured peers
// are down. Addresses that are older than AddressLife, and those of removed
// nodes, are deleted. A failure to write is logged, because the addresses are
// only hints.
func (p *parts) keepAddresses(ctx context.Context) error {
	if p.self.Authority() == identity.Local {
		return nil
	}
	all := p.kept.Addresses()
	look := time.NewTicker(addressInterval)
	defer look.Stop()
	for ctx.Err() == nil {
		changed, now := false, time.Now().UTC().Truncate(time.Second)
		for _, s := range p.network.Nodes() {
			addr, err := netip.ParseAddrPort(s.Addr)
			if was := all[s.ID]; err == nil && s.Via == grpcpeer.ViaDialled && (was.Addr != addr || now.Sub(was.Seen) > state.AddressLife/30) {
				all[s.ID], changed = state.Address{Addr: addr, Seen: now}, true
			}
		}
		if changed {
			maps.DeleteFunc(all, func(id community.NodeID, a state.Address) bool {
				return now.Sub(a.Seen) > state.AddressLife || p.self.Revocations().Has(id)
			})
			if err := p.kept.KeepAddresses(all); err != nil {
				p.cfg.Logger.Warn("addresses of other nodes not kept", "err", err)
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	return nil
}
