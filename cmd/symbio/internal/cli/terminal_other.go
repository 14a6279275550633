//go:build !linux && !darwin

package cli

import (
	"errors"
	"os"
	"time"
)

const tick = 100 * time.Millisecond

// isTerminal says whether a person reads or types there.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// canRaw: there is no list to choose from here, and no row to type in: the commands take names and lines.
func canRaw(*os.File) bool { return false }

func inFront(*os.File) bool { return true }

func rawTerminal(*os.File) (restore func() error, err error) {
	return nil, errors.New("keys cannot be read one by one on this system")
}

func terminalSize(*os.File) (columns, lines int) { return usualColumns, usualLines }
