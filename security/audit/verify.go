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

// Report is what Verify found in order.
type Report struct {
	Files   int    `json:"files"`
	Records uint64 `json:"records"` // decisions
	// First is the number of the oldest record; more than 1 says that older files are gone.
	First uint64 `json:"first"`
	// Head is the hash of the last record. A copy of it elsewhere shows later, as a Point, that none was cut off.
	Head string `json:"head"`
	// Unanchored are the records at which the log was opened without a checkpoint: up to each, an end that was cut off
	// before does not show.
	Unanchored []uint64 `json:"unanchored,omitempty"`
	// Torn counts the places where a record was cut off in the middle, as by a crash.
	Torn int `json:"torn"`
	// Last is the number of the last record.
	Last uint64 `json:"last"`
}

// ErrBroken means that the log is not as it was written: a program changed, removed or
// reordered records.
var ErrBroken = errors.New("the audit log was changed")

// Point is a record that has to be in the log: that of a Checkpoint, or one that a person noted.
type Point struct {
	Seq  uint64 // 0 = not known
	Hash string
}

// Verify reads the whole log in a directory. It checks each record against the hash in the
// next one, and the log against the points, and calls each, if not nil, with the decisions in
// their order. The error wraps ErrBroken and names file and line when the chain is broken; the
// Report then covers what comes before. A log that is being written may be verified; later
// records may or may not be seen.
func Verify(ctx context.Context, dir string, each func(Entry) error, points ...Point) (Report, error) {
	files, err := list(dir)
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && len(points) > 0) {
		return Report{}, fmt.Errorf("verify the audit log: %w", err)
	}
	return verify(ctx, files, each, points...)
}

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
		return r, fmt.Errorf("%w: record %d, with the hash %s, was in it and is not: it ends with record %d now, so the end was cut off or all was replaced", ErrBroken, p.Seq, p.Hash, r.Last)
	}
	return r, nil
}

// pass marks the points with this hash as found.
func (v *verifier) pass(hash string) {
	v.points = slices.DeleteFunc(v.points, func(p Point) bool { return p.Hash == hash })
}

// verifier goes through the files.
type verifier struct {
	*Report
	ctx    context.Context
	each   func(Entry) error
	points []Point // not found yet
	rest   int     // bytes after the last whole record of the file before
}

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
		return fmt.Errorf("%w: %d bytes after the last record of the file before, and %d were there", ErrBroken, v.rest, r.Torn)
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
