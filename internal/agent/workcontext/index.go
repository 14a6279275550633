package workcontext

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
)

// The limits of the search for changes: an index of that many bytes and files, and the contents of files whose
// times say nothing. A larger repository is not described.
const (
	maxIndex   = 4 << 20
	maxTracked = 5000
	maxHashed  = 8 << 20
)

// indexEntry is a file as git's index has it.
type indexEntry struct {
	name            string
	sec, nsec, size uint32
	hash            [sha1.Size]byte
	// skipped is true if git does not compare the file either.
	skipped bool
}

// An entry of the index has a head of that size, a flag for files that are assumed to be unchanged, and a mode, which
// for submodules is this one.
const (
	entrySize     = 62
	flagAssumed   = 0x8000
	modeSubmodule = 0o160000
)

// parseIndex reads the files of an index of version 2, the usual one, with SHA-1 hashes. ok is false for any other
// text, and for more than maxTracked files.
func parseIndex(text []byte) (files []indexEntry, ok bool) {
	if len(text) < 12 || string(text[:4]) != "DIRC" || text[7] != 2 {
		return nil, false
	}
	n := binary.BigEndian.Uint32(text[8:])
	if n > maxTracked {
		return nil, false
	}
	for text = text[12:]; n > 0; n-- {
		if len(text) < entrySize+2 {
			return nil, false
		}
		word := func(at int) uint32 { return binary.BigEndian.Uint32(text[at:]) }
		end := bytes.IndexByte(text[entrySize:], 0)
		padded := (entrySize + end + 8) / 8 * 8 // one to eight zeros, to a multiple of eight
		if end <= 0 || padded > len(text) {
			return nil, false
		}
		skipped := binary.BigEndian.Uint16(text[60:])&flagAssumed != 0 || word(24) == modeSubmodule
		files = append(files, indexEntry{string(text[entrySize : entrySize+end]), word(8), word(12), word(36), [sha1.Size]byte(text[40:60]), skipped})
		text = text[padded:]
	}
	return files, true
}

// unstaged says whether the tracked files in the directory top differ from the index in the directory of git. It is
// "" if that cannot be said. Contents are compared where the time of a file changed and its size did not, without
// the filters that a repository may have, because those are programs.
func unstaged(top, gitDir string) string {
	g, err := os.OpenRoot(gitDir)
	if err != nil {
		return ""
	}
	defer g.Close()
	text, err := readFile(g, "index", maxIndex)
	files, ok := parseIndex(text)
	if err != nil || !ok {
		return ""
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return ""
	}
	defer root.Close()
	room := int64(maxHashed)
	for _, f := range files {
		switch same, known := f.compare(root, &room); {
		case !known:
			return ""
		case !same:
			return ", with unstaged changes"
		}
	}
	return ", no unstaged changes"
}

// compare reports whether a file is as the index has it. known is false when room, the bytes that may still be
// read, is used up.
func (f indexEntry) compare(root *os.Root, room *int64) (same, known bool) {
	if f.skipped {
		return true, true
	}
	info, err := root.Lstat(f.name)
	if err != nil || uint32(info.Size()) != f.size && f.size != 0 { // git writes size 0 where it is not sure, as in a conflict
		return false, true
	}
	if f.isAsOld(info) {
		return true, true
	}
	if *room -= info.Size(); *room < 0 {
		return false, false
	}
	var text []byte
	if info.Mode().Type() == fs.ModeSymlink {
		target, _ := root.Readlink(f.name)
		text = []byte(target)
	} else if text, err = readFile(root, f.name, info.Size()); err != nil {
		return false, true
	}
	return sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(text)), text...)) == f.hash, true
}

// isAsOld reports whether a file has the size and the time of the index.
func (f indexEntry) isAsOld(info fs.FileInfo) bool {
	at := info.ModTime()
	return uint32(info.Size()) == f.size && uint32(at.Unix()) == f.sec && (f.nsec == 0 || uint32(at.Nanosecond()) == f.nsec)
}
