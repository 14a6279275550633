package main

import (
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

func TestMain(m *testing.M) { symbiotest.Main(m, nil) }

// Each script is a user's session: a home of its own, real processes, real sockets on loopback.
func TestScripts(t *testing.T) {
	t.Parallel()
	symbiotest.RunScripts(t, "testdata/script")
}
