//go:build !linux && !darwin

package terminal

import "os"

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// CanRaw returns false: here commands read names and whole lines.
func CanRaw(*os.File) bool { return false }

// InForeground returns true: this system has no job control.
func InForeground(*os.File) bool { return true }

// size returns the usual size: the real one cannot be asked for.
func size(*os.File) (columns, lines int) { return defaultColumns, defaultLines }
