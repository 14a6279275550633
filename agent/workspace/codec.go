package workspace

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"symbio/agent/content"
)

// The first bytes of an encoding: what it is, and the version of its form.
const (
	manifestHeader = "symbio manifest 1\n"
	patchHeader    = "symbio patch 1\n"
)

// Encode returns the manifest as bytes. Equal manifests have equal encodings. A file takes its hash and some 20 bytes:
// of each path only the part that differs from the path before is written.
func (m Manifest) Encode() []byte {
	return appendFiles(appendText([]byte(manifestHeader), m.Commit), m.Files)
}

// Encode returns the patch as bytes, in the form of Manifest.Encode.
func (p Patch) Encode() []byte {
	return appendFiles(append([]byte(patchHeader), p.Base[:]...), p.Changes)
}

// DecodeManifest returns the manifest that another node has encoded, checked against the limits of this one. The error is
// ErrRefused or ErrTooLarge. It takes memory in proportion to data.
func DecodeManifest(data []byte, l Limits) (Manifest, error) {
	d := newDecoder(data, manifestHeader)
	m := Manifest{Commit: d.text(), Files: d.files(l.withDefaults().Files)}
	if err := d.finish(data, m.Encode); err != nil {
		return Manifest{}, fmt.Errorf("decode a workspace's manifest: %w", err)
	}
	return m, m.Check(l)
}

// DecodePatch returns the patch that another node has encoded, checked against the base that this node has sent and the
// limits of this node, as Patch.Check.
func DecodePatch(data []byte, base Manifest, l Limits) (Patch, error) {
	d := newDecoder(data, patchHeader)
	p := Patch{Base: d.hash(), Changes: d.files(len(base.Files) + l.withDefaults().Files)} // all deleted, as many new
	if err := d.finish(data, p.Encode); err != nil {
		return Patch{}, fmt.Errorf("decode a workspace's patch: %w", err)
	}
	return p, p.Check(base, l)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendFiles(b []byte, files []File) []byte {
	b = binary.AppendUvarint(b, uint64(len(files)))
	last := ""
	for _, f := range files {
		n := 0
		for n < min(len(last), len(f.Path)) && last[n] == f.Path[n] {
			n++
		}
		b = appendText(binary.AppendUvarint(b, uint64(n)), f.Path[n:])
		b = append(b, byte(f.Kind))
		if f.Kind.hasContent() {
			b = append(binary.AppendUvarint(b, uint64(f.Size)), f.Hash[:]...)
		} else {
			b = appendText(b, f.Link)
		}
		last = f.Path
	}
	return b
}

// decoder reads an encoding. After the first mistake err is set and all that it returns is empty.
type decoder struct {
	rest []byte
	err  error
}

// errForm means that an encoding is none of ours.
var errForm = fmt.Errorf("%w: its form is wrong, or the other node has another version of symbio", ErrRefused)

func newDecoder(data []byte, header string) *decoder {
	rest, found := bytes.CutPrefix(data, []byte(header))
	d := &decoder{rest: rest}
	d.fail(!found)
	return d
}

// fail notes a mistake, and reports whether there is one.
func (d *decoder) fail(bad bool) bool {
	if bad && d.err == nil {
		d.err = errForm
	}
	return d.err != nil
}

// finish returns an error unless the decoder has read all of data, and data is what encode writes: of each manifest there
// is one encoding, so that its hash names it.
func (d *decoder) finish(data []byte, encode func() []byte) error {
	d.fail(d.err == nil && (len(d.rest) > 0 || !bytes.Equal(encode(), data)))
	return d.err
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if d.fail(size <= 0) {
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) bytes(n uint64) []byte {
	if d.fail(n > uint64(len(d.rest))) {
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) text() string { return string(d.bytes(d.number())) }

func (d *decoder) hash() (h content.Hash) {
	copy(h[:], d.bytes(uint64(len(h))))
	return h
}

// files reads a list of at most limit files. Paths are bounded here already: a few bytes each can make them grow, and
// would take memory by the square of what was sent.
func (d *decoder) files(limit int) (files []File) {
	n := d.number()
	if d.err == nil && n > uint64(limit) {
		d.err = fmt.Errorf("%w: %d files, at most %d are taken", ErrTooLarge, n, limit)
	}
	for last := ""; n > 0 && d.err == nil; n-- {
		f := d.file(last)
		files, last = append(files, f), f.Path
	}
	return files
}

func (d *decoder) file(last string) (f File) {
	same := d.number()
	if d.fail(same > uint64(len(last))) {
		return f
	}
	f.Path = last[:same] + d.text()
	if kind := d.bytes(1); d.fail(len(f.Path) > maxPath) || kind == nil {
		return f
	} else {
		f.Kind = Kind(kind[0])
	}
	if f.Kind.hasContent() {
		f.Size, f.Hash = int64(d.number()), d.hash()
	} else {
		f.Link = d.text()
	}
	return f
}
