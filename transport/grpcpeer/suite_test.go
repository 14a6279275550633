package grpcpeer_test

import (
	"testing"

	"symbio/transport/grpcpeer"
	"symbio/transport/transporttest"
)

func TestTransportSuite(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{
		Bubble: true,
		New:    func(t *testing.T) transporttest.Fixture { return newLAN(t) },
	})
}

// Nodes that do not speak Link keep the same promises.
func TestTransportSuiteWithoutLink(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{
		Bubble: true,
		Silent: true,
		New: func(t *testing.T) transporttest.Fixture {
			l := newLAN(t)
			l.tune = func(c *grpcpeer.Config) { c.Protocol = grpcpeer.Version{Major: 1} }
			return l
		},
	})
}

// Nodes that speak Link and not InvokeStream, too.
func TestTransportSuiteWithoutUpdates(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{
		Bubble: true,
		Silent: true,
		New: func(t *testing.T) transporttest.Fixture {
			l := newLAN(t)
			l.tune = func(c *grpcpeer.Config) { c.Protocol = grpcpeer.Version{Major: 1, Minor: 1} }
			return l
		},
	})
}
