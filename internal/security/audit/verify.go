package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Report is what Verify found in order, up to the first error.
type Report struct {
	// Files counts the files that were read to their end.
	Files int `json:"files"`
	// Records counts the decisions. The first record of each file is none.
	Records uint64 `json:"records"`
	// First is the number of the oldest record. If it is above 1, older files have been removed.
	First uint64 `json:"first"`
	// Head is the hash of the last record. If a person notes it elsewhere, Verify can later check
	// it as a Point, even against an attacker who can sign checkpoints.
	Head string `json:"head"`
	// Unanchored are the numbers of the records at which the log was opened without a checkpoint.
	// Records that were cut off right before one of them do not show.
	Unanchored []uint64 `json:"unanchored,omitempty"`
	// Torn counts the places where a record was cut off in the middle, as by a crash.
	Torn int `json:"torn"`
	// Last is the number of the last record.
	Last uint64 `json:"last"`
}

// ErrBroken means that the log is not as it was written: a program changed, removed or
// reordered records.
var ErrBroken = errors.New("the audit log was changed")

// Point is a record that has to be in the log: the one of a Checkpoint, or one whose hash a person
// noted.
type Point struct {
	// Seq is for the error only; 0 means that it is not known.
	Seq uint64
	// Hash finds the record: no two records have the same one.
	Hash string
}

// Verify reads the whole log in a directory. It checks each record against the hash in the next
// one, and that the record of each point is there. It calls each, if that is not nil, with the
// decisions in their order; an error of each ends it. If the log was changed, the error wraps
// ErrBroken and names file and line, and the Report covers what comes before. A missing directory
// is an error; with points it is ErrBroken.
//
// A log that is being written may be verified; records that are appended meanwhile may or may not
// be seen. Verify holds one file at a time in memory.
func Verify(ctx context.Context, dir string, each func(Entry) error, points ...Point) (Report, error) {
	files, err := list(dir)
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && len(points) > 0) {
		return Report{}, fmt.Errorf("verify the audit log: %w", err)
	}
	return verify(ctx, files, each, points...)
}

// verify is Verify for the given files. They may begin anywhere in the log: the first record is
// believed, unless its number is 1.
func verify(ctx context.Context, files []segment, each func(Entry) error, points ...Point) (Report, error) {
	r := Report{Head: origin}
	v := verifier{Report: &r, ctx: ctx, each: each, points: slices.Clone(points)}
	v.pass(origin)
	for i, f := range files {
		if i > 0 && f.number != files[i-1].number+1 {
			return r, fmt.Errorf("%w: the files between %s and %s are missing", ErrBroken, filepath.Base(files[i-1].path), filepath.Base(f.path))
		}
		if err := v.file(f); err != nil {
			return r, err
		}
		r.Files++
	}
	if len(v.points) > 0 {
		p := v.points[0]
		return r, fmt.Errorf("%w: record %d with the hash %s is missing: the log now ends with record %d, so its end was cut off or all of it was replaced", ErrBroken, p.Seq, p.Hash, r.Last)
	}
	return r, nil
}

// pass removes the points with this hash from those still to be found.
func (v *verifier) pass(hash string) {
	v.points = slices.DeleteFunc(v.points, func(p Point) bool { return p.Hash == hash })
}

// verifier goes through the files and fills in the Report, whose Last and Head are also the record
// that the next one must follow.
type verifier struct {
	*Report
	ctx  context.Context
	each func(Entry) error
	// points are those that have not been found yet.
	points []Point
	// rest counts the bytes after the last whole record of the file before. The first record of the
	// next file has to state the same number (record.Torn).
	rest int
}

// file verifies the lines of one file. It counts an end without a line break as torn, and leaves it
// to the next file's first record to confirm that.
func (v *verifier) file(f segment) error {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("verify the audit log: %w", err)
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	rest := len(text) - whole
	lines := scanner(bytes.NewReader(text[:whole]))
	n := 0
	for lines.Scan() {
		n++
		if err := v.line(lines.Bytes(), n == 1); err != nil {
			if errors.Is(err, ErrBroken) {
				err = fmt.Errorf("%s, line %d: %w", filepath.Base(f.path), n, err)
			}
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s, line %d: %w: it is no record", filepath.Base(f.path), n+1, ErrBroken)
	}
	if v.rest = rest; rest > 0 {
		v.Torn++
	}
	return nil
}

// line verifies one record. first says that it is the first in its file: only those have no Entry.
func (v *verifier) line(text []byte, first bool) error {
	if err := v.ctx.Err(); err != nil {
		return context.Cause(v.ctx)
	}
	r, err := parse(text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	begun := v.First > 0
	switch {
	case first != (r.Entry == nil):
		return fmt.Errorf("%w: a file begins in the middle, or not at its beginning", ErrBroken)
	case begun:
		err = r.follows(v.Last, v.Head)
	case r.Seq == 1:
		err = r.follows(0, origin)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if first && v.Files > 0 && r.Torn != v.rest {
		return fmt.Errorf("%w: there are %d bytes behind the last record of the file before, and the record says %d", ErrBroken, v.rest, r.Torn)
	}
	if !begun {
		v.First = r.Seq
	}
	v.Last, v.Head = r.Seq, r.Hash
	v.pass(r.Hash)
	if r.Unanchored {
		v.Unanchored = append(v.Unanchored, r.Seq)
	}
	if r.Entry == nil {
		return nil
	}
	v.Records++
	if v.each == nil {
		return nil
	}
	var e Entry
	if err := json.Unmarshal(r.Entry, &e); err != nil {
		return fmt.Errorf("%w: a record that is no decision", ErrBroken)
	}
	return v.each(e)
}
