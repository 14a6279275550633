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
	"symbio/internal/security/private"
	"symbio/security/identity"
)

// The limits of the stored addresses.
const (
	maxAddresses = 256
	// AddressLife is how long an address is kept: as long as an expired
	// certificate is renewed. After that the node has to join again anyway.
	AddressLife = 30 * 24 * time.Hour
)

// Address is where a node of the cluster was dialled, and when. It is a hint
// only: the certificate decides which node answers there.
type Address struct {
	Addr netip.AddrPort `json:"addr"`
	Seen time.Time      `json:"seen"`
}

// addressFile is the file of the addresses, among the files of the member of a cluster.
const addressFile = "met.json"

// Addresses returns the stored addresses of other nodes that are not too old. A
// missing or damaged file has none, because addresses are only hints.
func (n Node) Addresses() map[community.NodeID]Address {
	all := map[community.NodeID]Address{}
	if data, err := private.Read(filepath.Join(n.member(), addressFile), 64<<10); err != nil || json.Unmarshal(data, &all) != nil {
		return map[community.NodeID]Address{}
	}
	maps.DeleteFunc(all, func(id community.NodeID, a Address) bool {
		_, err := identity.ParseNodeID(string(id))
		return err != nil || time.Since(a.Seen) >= AddressLife
	})
	return all
}

// KeepAddresses stores the latest maxAddresses addresses. It removes the others
// from all.
func (n Node) KeepAddresses(all map[community.NodeID]Address) error {
	oldest := slices.SortedFunc(maps.Keys(all), func(a, b community.NodeID) int { return cmp.Or(all[a].Seen.Compare(all[b].Seen), cmp.Compare(a, b)) })
	for _, id := range oldest[:max(0, len(all)-maxAddresses)] {
		delete(all, id)
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return private.Replace(filepath.Join(n.member(), addressFile), data)
}
