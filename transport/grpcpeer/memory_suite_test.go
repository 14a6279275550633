package grpcpeer_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"symbio/community"
	"symbio/transport/memory"
)

// hubLAN is a Hub as the suite wants it.
type hubLAN struct{ *memory.Hub }

func (l hubLAN) Join(_ *testing.T, name string) Node {
	id := hubID(name)
	return Node{ID: id, Network: l.Node(id, name)}
}

func hubID(name string) community.NodeID {
	sum := sha256.Sum256([]byte(name))
	return community.NodeID(hex.EncodeToString(sum[:16]))
}

func TestMemoryPassesNetworkSuite(t *testing.T) {
	runSuite(t, Suite{New: func(*testing.T) Fixture {
		return hubLAN{memory.NewHub(memory.Config{})}
	}})
}

func TestSlowMemoryPassesNetworkSuite(t *testing.T) {
	runSuite(t, Suite{
		Slack: 300 * time.Millisecond, // a few times there and back
		New: func(*testing.T) Fixture {
			return hubLAN{memory.NewHub(memory.Config{Delay: 20 * time.Millisecond, Jitter: 30 * time.Millisecond, Seed: 7})}
		},
	})
}
