package standing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"symbio/security/private"
)

// longestFile bounds a file, in bytes: MostEntries with rules as long as rules can be.
const longestFile = 4 << 20

// format is the version of the file's format.
const format = 1

// fileJSON is what a file holds.
type fileJSON struct {
	Format  int     `json:"format"`
	Entries []Entry `json:"entries"`
}

// read returns what is in a file that nobody but its owner could have written.
func read(file string) ([]Entry, error) {
	text, err := private.Read(file, longestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; move it away to begin anew", file, err)
	}
	return entries, nil
}

// parse reads and checks the text of a file.
func parse(text []byte) ([]Entry, error) {
	if len(text) > longestFile {
		return nil, fmt.Errorf("it has over %d bytes", longestFile)
	}
	var v fileJSON
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is damaged: something follows its end")
	}
	if v.Format != format {
		return nil, fmt.Errorf("it is of format %d, and this program reads %d", v.Format, format)
	}
	if len(v.Entries) > MostEntries {
		return nil, fmt.Errorf("it has %d entries, and at most %d are allowed", len(v.Entries), MostEntries)
	}
	seen := map[string]bool{}
	for i := range v.Entries {
		e := &v.Entries[i]
		if err := e.check(); err != nil {
			return nil, err
		}
		if seen[e.ID] {
			return nil, fmt.Errorf("entry %s is there twice", e.ID)
		}
		seen[e.ID] = true
	}
	return v.Entries, nil
}

// write makes the file hold the entries, whole or not at all.
func write(file string, entries []Entry) error {
	if entries == nil {
		entries = []Entry{}
	}
	text, err := json.MarshalIndent(fileJSON{format, entries}, "", " ")
	if err != nil {
		return err
	}
	if len(text) > longestFile {
		return ErrFull
	}
	return private.Replace(file, text)
}
