//go:build system && linux

package terminal_test

import (
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

func TestMain(m *testing.M) { symbiotest.Main(m, nil) }
