package standing

import (
	"errors"
	"fmt"
	"io/fs"

	"symbio/security/private"
)

// maxFile bounds a file, in bytes: MostEntries with rules as long as rules can be.
const maxFile = 4 << 20

// format is the version of the file's format. Format 1 had rules for single commands, which allowed more than was shown.
const format = 2

// fileJSON is what a file holds.
type fileJSON struct {
	Format  int     `json:"format"`
	Entries []Entry `json:"entries"`
}

// read returns the content of a file that only its owner could have written.
func read(file string) ([]Entry, error) {
	var v fileJSON
	err := private.ReadJSON(file, maxFile, &v)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = v.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; move it away to begin anew", file, err)
	}
	return v.Entries, nil
}

func (v fileJSON) check() error {
	if v.Format != format {
		return fmt.Errorf("it is of format %d, and this program reads %d", v.Format, format)
	}
	if len(v.Entries) > MaxEntries {
		return fmt.Errorf("it has %d entries, and at most %d are allowed", len(v.Entries), MaxEntries)
	}
	seen := map[string]bool{}
	for i := range v.Entries {
		e := &v.Entries[i]
		if err := e.check(); err != nil {
			return err
		}
		if seen[e.ID] {
			return fmt.Errorf("entry %s is there twice", e.ID)
		}
		seen[e.ID] = true
	}
	return nil
}

// write makes the file hold the entries, whole or not at all.
func write(file string, entries []Entry) error {
	if entries == nil {
		entries = []Entry{}
	}
	err := private.ReplaceJSON(file, maxFile, fileJSON{format, entries})
	if errors.Is(err, private.ErrFull) {
		return ErrFull
	}
	return err
}
