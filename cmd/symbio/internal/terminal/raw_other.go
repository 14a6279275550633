//go:build !linux && !darwin

package terminal

import (
	"errors"
	"os"
	"time"
)

const readTimeout = 100 * time.Millisecond

// IsTerminal says whether a person reads or types there.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// CanRaw: there is no list to choose from here, and no row to type in: the commands take names and lines.
func CanRaw(*os.File) bool { return false }

// InForeground: there is no job control here.
func InForeground(*os.File) bool { return true }

// MakeRaw fails here.
func MakeRaw(*os.File) (restore func() error, err error) {
	return nil, errors.New("keys cannot be read one by one on this system")
}

// size is the usual one here.
func size(*os.File) (columns, lines int) { return defaultColumns, defaultLines }
