//go:build system && linux

package lan_test

import (
	"os"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

func TestMain(m *testing.M) {
	symbiotest.Main(m, map[string]func(){"rogue": func() { beRogue(os.Stdin, os.Stdout) }})
}
