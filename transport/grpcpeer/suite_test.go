package grpcpeer_test

import (
	"testing"

	"symbio/transport/transporttest"
)

func TestTransportSuite(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{
		Bubble: true,
		New:    func(t *testing.T) transporttest.Fixture { return newLAN(t) },
	})
}
