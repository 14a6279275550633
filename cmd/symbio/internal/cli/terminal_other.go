//go:build !linux && !darwin

package cli

import (
	"errors"
	"os"
	"time"
)

const tick = 100 * time.Millisecond

// canRaw: there is no list to choose from here; the commands take names.
func canRaw(*os.File) bool { return false }

func rawTerminal(*os.File) (restore func() error, err error) {
	return nil, errors.New("choosing from a list is not possible on this system")
}

func terminalSize(*os.File) (columns, lines int) { return usualColumns, usualLines }
