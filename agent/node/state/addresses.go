package state

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"symbio/community"
	"symbio/security/identity"
	"symbio/security/private"
)

// Bounds of the addresses that are kept.
const (
	maxAddresses = 256
	// AddressLife is how long an address is kept: as long as a certificate that has ended is renewed.
	AddressLife = 30 * 24 * time.Hour
)

// Address is where a node of the cluster was dialled, and when that was noted. It is a hint: the certificate says which
// node answers there.
type Address struct {
	Addr netip.AddrPort `json:"addr"`
	Seen time.Time      `json:"seen"`
}

func (n Node) addressFile() string { return filepath.Join(n.member(), "met.json") }

// Addresses are those of other nodes that were kept and are not too old. Without a file that can be read there are none.
func (n Node) Addresses() map[community.NodeID]Address {
	all := map[community.NodeID]Address{}
	if data, err := private.Read(n.addressFile(), 64<<10); err != nil || json.Unmarshal(data, &all) != nil {
		return map[community.NodeID]Address{}
	}
	maps.DeleteFunc(all, func(id community.NodeID, a Address) bool {
		_, err := identity.ParseNodeID(string(id))
		return err != nil || time.Since(a.Seen) >= AddressLife
	})
	return all
}

// KeepAddresses keeps the latest of the addresses for Addresses to return after a restart.
func (n Node) KeepAddresses(all map[community.NodeID]Address) error {
	oldest := slices.SortedFunc(maps.Keys(all), func(a, b community.NodeID) int { return cmp.Or(all[a].Seen.Compare(all[b].Seen), cmp.Compare(a, b)) })
	for _, id := range oldest[:max(0, len(all)-maxAddresses)] {
		delete(all, id)
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return private.Replace(n.addressFile(), data)
}
