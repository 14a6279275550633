package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
)

// Copy writes the sessions of the file from into the new file to, which is private to its user. A
// node may use from meanwhile: the copy has what was committed when Copy began, and nothing waits
// for it. It returns fs.ErrNotExist if there is no file, and fs.ErrExist if to exists; after another
// error to may hold a part.
func Copy(ctx context.Context, from, to string) (err error) {
	if _, err := os.Stat(from); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // SQLite would give it the mode of the umask
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	s := &Store{path: from, opened: true}
	if s.readers, err = sql.Open("sqlite", dsn(from, "FULL", url.Values{})); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	_, err = s.readers.ExecContext(ctx, "VACUUM INTO ?", to)
	return s.explain(err)
}

// Check reads the whole of an existing file, which no node uses, and returns an error that wraps
// session.ErrDamaged if it is damaged. It takes seconds for each gigabyte.
func Check(ctx context.Context, path string) (err error) {
	s, err := OpenReader(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.explain(s.isOK(ctx, quickCheck))
}
