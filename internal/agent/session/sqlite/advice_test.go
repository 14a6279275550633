package sqlite

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"
)

// Each failure of a disk says what to do, and a full one how much is free where.
func TestFailureOfTheDiskSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	room := "make room"
	if free(dir) != "" {
		room = " are free in " + dir + "): make room"
	}
	for _, c := range []struct {
		code int
		err  error
		want string
	}{
		{sqlite3.SQLITE_FULL, nil, room}, {sqlite3.SQLITE_IOERR_SHMSIZE & 0xff, nil, room}, {0, syscall.ENOSPC, room},
		{sqlite3.SQLITE_BUSY, nil, "another program holds it"}, {sqlite3.SQLITE_LOCKED, nil, "another program holds it"},
		{sqlite3.SQLITE_READONLY, nil, "writable for this user"}, {sqlite3.SQLITE_CANTOPEN, nil, "writable for this user"},
		{sqlite3.SQLITE_PERM, nil, "writable for this user"}, {0, fs.ErrPermission, "writable for this user"}, {0, syscall.EROFS, "writable for this user"},
	} {
		if got := adviceFor(c.code, c.err, dir); !strings.Contains(got, c.want) {
			t.Errorf("%d %v: %q, want %q", c.code, c.err, got, c.want)
		}
	}
}
