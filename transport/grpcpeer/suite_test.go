package grpcpeer_test

import (
	"testing"
)

func TestTransportSuite(t *testing.T) {
	runSuite(t, Suite{New: func(t *testing.T) Fixture { return newLAN(t) }})
}
