package sqlite_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"symbio/agent/session"
	"symbio/internal/agent/session/sqlite"
)

func TestFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	fill(t, s, "a", 1)
	for _, end := range []string{"", "-wal", "-shm"} {
		if info, err := os.Stat(path + end); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", path+end, info, err)
		}
	}
}

func TestFileWithoutTablesGetsThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	exec(t, path, "VACUUM") // a database without tables
	s := open(t, path)
	fill(t, s, "a", 8<<10)
	if version := query(t, path, "PRAGMA user_version"); version != "4" {
		t.Errorf("the version is %s", version)
	}
}

// A command of another symbio may read while the file is new; it must not take it for damaged.
func TestOtherVersionIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	filled(t, path)
	for version, mend := range map[int]string{7: "update symbio", 2: "move the file away"} {
		exec(t, path, fmt.Sprint("PRAGMA user_version = ", version))
		before := read(t, path)
		for name, open := range map[string]func(string) (*sqlite.Store, error){"Open": sqlite.Open, "OpenReader": sqlite.OpenReader} {
			s, err := open(path)
			if s != nil || err == nil || errors.Is(err, session.ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("version %d, this one knows 4", version)) || !strings.Contains(err.Error(), mend) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s of version %d: %v, %v", name, version, s, err)
			}
		}
		if !bytes.Equal(read(t, path), before) {
			t.Errorf("the file of version %d was changed", version)
		}
	}
}

func TestOpenReaderWantsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	if s, err := sqlite.OpenReader(path); s != nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, %v", s, err)
	}
	if names := list(t, filepath.Dir(path)); len(names) > 0 {
		t.Errorf("OpenReader made %q", names)
	}
}

// damages are the ways in which a file is damaged so that Open sees it.
var damages = map[string]func(file []byte) []byte{
	"random bytes": func(file []byte) []byte {
		random := rand.New(rand.NewPCG(1, 2))
		for n := range file {
			file[n] = byte(random.Uint32())
		}
		return file
	},
	"text":          func([]byte) []byte { return bytes.Repeat([]byte("this is no database\n"), 100) },
	"truncated":     func(file []byte) []byte { return file[:len(file)/2] },
	"cut in a page": func(file []byte) []byte { return file[:len(file)/2+777] },
	"zeroed header": func(file []byte) []byte { clear(file[:100]); return file },
	"zeroed schema": func(file []byte) []byte { clear(file[100:4096]); return file },
}

// The damaged file keeps all its bytes under another name, and the new store works.
func TestDamagedFileIsSetAside(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sessions.db")
			filled(t, path)
			before := damage(read(t, path))
			write(t, path, before)
			for round := range 2 { // the second damage must not replace the first one's file
				s, err := sqlite.Open(path)
				if s == nil || !errors.Is(err, session.ErrDamaged) {
					t.Fatalf("Open: %v, %v", s, err)
				}
				aside := setAside(t, path)
				if len(aside) != round+1 || !strings.Contains(err.Error(), aside[round]) {
					t.Errorf("the error %q does not name the new one of %q", err, aside)
				}
				if !bytes.Equal(read(t, aside[round]), before) {
					t.Error("the file was changed before it was set aside")
				}
				fill(t, s, "new", 8<<10)
				if all, err := s.Sessions(t.Context(), session.Filter{}); err != nil || len(all) != 1 {
					t.Errorf("the new store has %+v, %v", all, err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if again, err := sqlite.Open(path); err != nil || again.Close() != nil {
					t.Errorf("the new file: %v", err)
				}
				write(t, path, before)
			}
		})
	}
}

// A page in the middle is found only by the query that reads it. From then on nothing is written, and
// the next Open, which would not have seen it, sets the file aside.
func TestDamageFoundLaterEndsWriting(t *testing.T) {
	for name, find := range map[string]func(s *sqlite.Store, id string) error{
		"by a query":    func(s *sqlite.Store, id string) error { _, err := s.Entries(t.Context(), id, 0); return err },
		"by a deletion": func(s *sqlite.Store, id string) error { return s.Delete(t.Context(), id) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sessions.db")
			filled(t, path)
			file := read(t, path)
			page := pageOfTable(t, path, "entries") * 4096
			clear(file[page : page+4096])
			write(t, path, file)
			s, err := sqlite.Open(path)
			if err != nil {
				t.Fatalf("Open saw it at once: %v", err)
			}
			var found error
			for _, id := range []string{"a", "b", "c", "d"} {
				found = errors.Join(found, find(s, id))
			}
			if !errors.Is(found, session.ErrDamaged) || !strings.Contains(found.Error(), "restart the node, which sets the file aside") {
				t.Errorf("the error is %v", found)
			}
			log := read(t, path+"-wal")
			err = s.Commit([]session.Write{{Info: session.Info{ID: "x", Root: "x"}}})
			for what, err := range map[string]error{"Commit": err, "Rename": s.Rename(t.Context(), "a", "x"), "Delete": s.Delete(t.Context(), "a")} {
				if !errors.Is(err, session.ErrDamaged) {
					t.Errorf("%s in a damaged file: %v", what, err)
				}
			}
			if all, err := s.Sessions(t.Context(), session.Filter{}); err != nil || len(all) < 3 {
				t.Errorf("what is not damaged cannot be read: %+v, %v", all, err)
			}
			if !bytes.Equal(read(t, path+"-wal"), log) {
				t.Error("something was written")
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			s, err = sqlite.Open(path)
			if s == nil || !errors.Is(err, session.ErrDamaged) || len(setAside(t, path)) != 1 {
				t.Fatalf("Open: %v, %v", s, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if s, err = sqlite.Open(path); err != nil || s.Close() != nil {
				t.Errorf("the new file is under suspicion, too: %v", err)
			}
		})
	}
}

// SQLite reads the log up to the first byte that does not match its sums, because it cannot tell damage from the
// end of what was written before a loss of power. What follows is lost without an error: the limit that the
// documentation of the package names. What is left is the state after one of the commits.
func TestDamagedLogEndsAtDamage(t *testing.T) {
	for name, damage := range map[string]struct {
		at   func(log []byte) int // the byte that is damaged
		want []string
	}{
		"header": {func([]byte) int { return 0 }, []string{"a"}},
		"frame":  {func(log []byte) int { return len(log) - 1 }, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, copied := filepath.Join(dir, "sessions.db"), filepath.Join(dir, "copied.db")
			s := open(t, path)
			fill(t, s, "a", 8<<10)
			checkpoint(t, path)
			fill(t, s, "b", 8<<10)
			fill(t, s, "c", 8<<10)
			log := read(t, path+"-wal")
			log[damage.at(log)] ^= 1
			write(t, copied, read(t, path))
			write(t, copied+"-wal", log)
			all, err := open(t, copied).Sessions(t.Context(), session.Filter{})
			var got []string
			for _, i := range all {
				got = append(got, i.ID)
			}
			slices.Sort(got)
			if !slices.Equal(got, damage.want) || err != nil {
				t.Errorf("the sessions are %q, %v, want %q", got, err, damage.want)
			}
		})
	}
}

// A suspicion that is not confirmed ends with the check.
func TestFileUnderSuspicionStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	filled(t, path)
	write(t, path+".suspect", nil)
	if s := open(t, path); s == nil || len(setAside(t, path)) != 0 {
		t.Error("a file without damage was set aside")
	}
	if names := list(t, filepath.Dir(path)); strings.Contains(strings.Join(names, " "), "suspect") {
		t.Errorf("the suspicion stays: %q", names)
	}
}

// filled makes a file with four sessions, without a log.
func filled(t *testing.T, path string) {
	t.Helper()
	s, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		fill(t, s, id, 64<<10)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// pageOfTable returns the index of a page in the middle of a table.
func pageOfTable(t *testing.T, path, table string) (page int64) {
	t.Helper()
	fmt.Sscan(query(t, path, "SELECT pageno - 1 FROM dbstat WHERE name = '"+table+"' AND pagetype = 'leaf' ORDER BY pageno LIMIT 1 OFFSET 3"), &page)
	return page
}

// setAside returns the files that were set aside, the latest last.
func setAside(t *testing.T, path string) (names []string) {
	t.Helper()
	for _, name := range list(t, filepath.Dir(path)) {
		if strings.Contains(name, ".damaged-") && !strings.HasSuffix(name, "-wal") && !strings.HasSuffix(name, "-shm") {
			names = append(names, filepath.Join(filepath.Dir(path), name))
		}
	}
	return names
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		names = append(names, f.Name())
	}
	return names
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
