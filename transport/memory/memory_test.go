package memory_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"symbio/community"
	"symbio/transport/memory"
	"symbio/transport/transporttest"
)

// lan is a Hub as the suite wants it.
type lan struct{ *memory.Hub }

func (l lan) Join(_ *testing.T, name string) transporttest.Node {
	id := idOf(name)
	return transporttest.Node{ID: id, Network: l.Node(id, name)}
}

func idOf(name string) community.NodeID {
	sum := sha256.Sum256([]byte(name))
	return community.NodeID(hex.EncodeToString(sum[:16]))
}

func TestMemoryIsANetwork(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{Bubble: true, New: func(*testing.T) transporttest.Fixture {
		return lan{memory.NewHub(memory.Config{})}
	}})
}

func TestSlowMemoryIsANetwork(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{
		Bubble: true,
		Slack:  300 * time.Millisecond, // a few times there and back
		New: func(*testing.T) transporttest.Fixture {
			return lan{memory.NewHub(memory.Config{Delay: 20 * time.Millisecond, Jitter: 30 * time.Millisecond, Seed: 7})}
		},
	})
}
