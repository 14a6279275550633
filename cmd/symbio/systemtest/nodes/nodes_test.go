//go:build system

package nodes_test

import (
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

func TestMain(m *testing.M) { symbiotest.Main(m, nil) }

// Each script is a session of a user who has several nodes: real processes, real sockets on loopback.
func TestScripts(t *testing.T) {
	t.Parallel()
	symbiotest.RunScripts(t, "testdata/script")
}
