//go:build !linux && !darwin

package terminal

import (
	"errors"
	"os"
	"time"
)

// readTimeout is not used here, because KeyReader needs a raw terminal; keys.go refers to it.
const readTimeout = 100 * time.Millisecond

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// CanRaw returns false: raw mode is not implemented for this system. Commands read names and whole
// lines instead.
func CanRaw(*os.File) bool { return false }

// InForeground returns true: this system has no job control.
func InForeground(*os.File) bool { return true }

// MakeRaw always fails; see CanRaw.
func MakeRaw(*os.File) (restore func() error, err error) {
	return nil, errors.New("keys cannot be read one by one on this system")
}

// size returns the usual size: the real one cannot be asked for.
func size(*os.File) (columns, lines int) { return defaultColumns, defaultLines }
