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

// addressInterval is how often new addresses of other nodes are looked for.
const addressInterval = 2 * time.Second

// keepAddresses keeps where the nodes of the cluster are dialled, until ctx ends, so that after a restart one dead seed does not
// keep the others apart.
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
