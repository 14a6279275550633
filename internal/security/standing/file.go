package standing

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"symbio/internal/security/private"
)

// maxFile is the most bytes of a file: MaxEntries of the longest entries.
const maxFile = 4 << 20

// format is the version of the file. Format 1 had rules for single commands, which allowed more
// than was shown; it is refused, not converted.
const format = 2

// fileJSON is the file: one JSON object, indented. Unknown fields are an error.
type fileJSON struct {
	Format  int     `json:"format"`
	Entries []Entry `json:"entries"`
}

// read returns the entries of a file, none if it does not exist. A file that another user could
// have written, that is damaged or of another format, or that has one bad entry is an error: none
// of it counts then. The error says to move the file away.
func read(file string) ([]Entry, error) {
	var v fileJSON
	err := private.ReadJSON(file, maxFile, &v)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	err = cmp.Or(err, v.check())
	if err != nil {
		return nil, fmt.Errorf("%s: %w; move it away to begin anew", file, err)
	}
	return v.Entries, nil
}

// check returns an error unless Keep could have written every entry, and each has an id of its own.
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

// write replaces the file in one step; ErrFull if it would exceed maxFile. A reader finds the old
// entries or the new ones.
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
