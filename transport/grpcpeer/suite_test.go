package grpcpeer_test

import (
	"testing"
	"time"

	"symbio/transport/grpcpeer/grpcpeertest"
)

func TestTransportSuite(t *testing.T) {
	runSuite(t, Suite{New: func(t *testing.T) Fixture { return newLAN(t) }})
}

func TestTransportSuiteOnASlowLAN(t *testing.T) {
	runSuite(t, Suite{
		Slack: 300 * time.Millisecond, // a few times there and back
		New: func(t *testing.T) Fixture {
			return newSlowLAN(t, grpcpeertest.Config{Delay: 20 * time.Millisecond, Jitter: 30 * time.Millisecond})
		},
	})
}
