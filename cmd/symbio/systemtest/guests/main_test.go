//go:build system && linux

package guests_test

import (
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

func TestMain(m *testing.M) { symbiotest.Main(m, nil) }
