//go:build system && linux

package attacks_test

import (
	"os"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == obedient {
		obey()
		return
	}
	symbiotest.Main(m, nil)
}
