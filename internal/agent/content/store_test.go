package content_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"symbio/internal/agent/content"
)

func open(t *testing.T, dir string, maxSize int64) *content.Store {
	t.Helper()
	s, err := content.Open(content.Config{Dir: dir, MaxSize: maxSize})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *content.Store, text string) content.Hash {
	t.Helper()
	h, n, err := s.Put(strings.NewReader(text), int64(len(text)))
	if err != nil || n != int64(len(text)) || h != content.Sum([]byte(text)) {
		t.Fatalf("put %d bytes: %v, %d, %v", len(text), h, n, err)
	}
	return h
}

func read(t *testing.T, s *content.Store, h content.Hash) string {
	t.Helper()
	f, err := s.Open(h)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// names returns the names of the files in a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		all = append(all, f.Name())
	}
	return all
}

func TestStoreKeepsContentsByHash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "store")
	s := open(t, dir, 0)
	h := put(t, s, "hello")
	if again := put(t, s, "hello"); again != h || len(names(t, dir)) != 1 {
		t.Errorf("put again: %v, files %v", again, names(t, dir))
	}
	if got := read(t, s, h); got != "hello" || !s.Has(h) {
		t.Errorf("read %q, has %v", got, s.Has(h))
	}
	for path, want := range map[string]fs.FileMode{dir: 0o700 | fs.ModeDir, filepath.Join(dir, h.String()): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := s.Remove(h); err != nil || s.Has(h) || len(s.All()) != 0 || len(names(t, dir)) != 0 {
		t.Errorf("removed: %v; kept are %v, files %v", err, s.All(), names(t, dir))
	}
	if _, err := s.Open(h); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open what was removed: %v", err)
	}
	if err := s.Remove(h); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed again: %v", err)
	}
}

func TestPutLeavesNothingWhenItFails(t *testing.T) {
	broken := errors.New("broken")
	pinned := content.Sum([]byte("12345678"))
	for name, c := range map[string]struct {
		r    io.Reader
		max  int64
		want error
	}{
		"too large":         {strings.NewReader("hello"), 4, content.ErrTooLarge},
		"endless":           {endless{}, 1, content.ErrTooLarge},
		"over what is kept": {endless{}, 1<<63 - 1, content.ErrTooLarge},
		"reader fails":      {io.MultiReader(strings.NewReader("he"), iotest.ErrReader(broken)), 100, broken},
		"no room":           {strings.NewReader("123"), 100, content.ErrFull},
		"wrong hash":        {strings.NewReader("x"), 100, content.ErrMismatch},
		"nothing came":      {strings.NewReader(""), 100, content.ErrMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, 10)
			defer s.Pin([]content.Hash{pinned})()
			put(t, s, "12345678")
			var err error
			if c.want == content.ErrMismatch {
				err = s.PutAs(content.Sum([]byte("y")), c.r, c.max)
			} else {
				_, _, err = s.Put(c.r, c.max)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if got := names(t, dir); err == nil || len(got) != 1 || got[0] != pinned.String() {
				t.Errorf("%v; left are %v", err, got)
			}
			put(t, s, "12") // its bytes do not count any more
		})
	}
}

// endless is a reader without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "xx"), nil }

func TestPutFailsWhenDirectoryIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir, 0)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Put(strings.NewReader("a"), 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("put: %v", err)
	}
}

func TestPutAsTakesOnlyTheContentAlsoWhenItIsKept(t *testing.T) {
	s := open(t, t.TempDir(), 0)
	a := put(t, s, "a")
	if err := s.PutAs(a, strings.NewReader("a"), 1); err != nil {
		t.Errorf("put what is kept: %v", err)
	}
	if err := s.PutAs(a, strings.NewReader("b"), 1); !errors.Is(err, content.ErrMismatch) {
		t.Errorf("put another content under a hash that is kept: %v", err)
	}
}

func TestStoreCollectsWhatWasUsedLongestAgo(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 10)
	a, b, c := put(t, s, "aaa"), put(t, s, "bbb"), put(t, s, "ccc")
	read(t, s, a)
	d := put(t, s, "dd")
	if s.Has(b) || !s.Has(a) || !s.Has(c) || !s.Has(d) {
		t.Errorf("kept are %v; b is to go", s.All())
	}
	unpin := s.Pin([]content.Hash{a, c, a})
	put(t, s, "eeee") // d goes, although it was used last
	if s.Has(d) || !s.Has(a) || !s.Has(c) {
		t.Errorf("kept are %v, of which a and c are pinned", s.All())
	}
	if err := s.Remove(a); !errors.Is(err, content.ErrPinned) {
		t.Errorf("remove what is pinned: %v", err)
	}
	unpin()
	unpin()
	put(t, s, "0123456789")
	if all := s.All(); len(all) != 1 || all[0].Size != 10 {
		t.Errorf("kept are %v", all)
	}
}

func TestPinHoldsWhatIsPutLater(t *testing.T) {
	s := open(t, t.TempDir(), 4)
	a := content.Sum([]byte("aa"))
	first, second := s.Pin([]content.Hash{a}), s.Pin([]content.Hash{a})
	put(t, s, "aa")
	first()
	put(t, s, "bb")
	if put(t, s, "cc"); !s.Has(a) {
		t.Error("a pinned content was collected")
	}
	second()
	put(t, s, "dd")
	if put(t, s, "ee"); s.Has(a) {
		t.Error("a content that is not pinned any more was kept")
	}
}

func TestOpenTakesUpWhatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, 0)
		old := put(t, s, "old")
		young := put(t, s, "young")
		for h, age := range map[content.Hash]time.Duration{old: 2 * time.Hour, young: time.Hour} {
			at := time.Now().Add(-age)
			if err := os.Chtimes(filepath.Join(dir, h.String()), at, at); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{".put-123", ".put-", "notes.txt", strings.ToUpper(old.String())} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("left"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s = open(t, dir, 10)
		if got := strings.Join(names(t, dir), " "); strings.Contains(got, ".put-") || !strings.Contains(got, "notes.txt") {
			t.Errorf("files after it was opened: %s", got)
		}
		if len(s.All()) != 2 || read(t, s, old) != "old" {
			t.Errorf("kept are %v", s.All())
		}
		s = open(t, dir, 6) // old was used after young
		if all := s.All(); len(all) != 1 || all[0].Hash != old || !all[0].Used.Equal(time.Now()) {
			t.Errorf("kept are %v, want old, used at %v", all, time.Now())
		}
	})
}

func TestOpenChecksWhatEarlierProcessWrote(t *testing.T) {
	dir := t.TempDir()
	a, b := content.Sum([]byte("aa")), content.Sum([]byte("bb"))
	for _, h := range []content.Hash{a, b} { // after a loss of power
		if err := os.WriteFile(filepath.Join(dir, h.String()), []byte("\x00\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, 4)
	defer s.Pin([]content.Hash{b})()
	if _, err := s.Open(a); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open a damaged content: %v", err)
	}
	if put(t, s, "bb") != b || read(t, s, b) != "bb" {
		t.Errorf("a damaged content was not replaced: %q", read(t, s, b))
	}
	put(t, s, "cc") // counted once
	if len(s.All()) != 2 {
		t.Errorf("kept are %v", s.All())
	}
	if err := os.Remove(filepath.Join(dir, b.String())); err != nil {
		t.Fatal(err)
	}
	if s.Has(b) || len(s.All()) != 1 {
		t.Errorf("has what another program removed; kept are %v", s.All())
	}
}

func TestStoreIsSafeForConcurrentUse(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 3000)
	var users sync.WaitGroup
	for g := range 8 {
		users.Go(func() {
			for i := range 50 {
				text := strings.Repeat(fmt.Sprint(i%7), 100+i%7) // the goroutines put the same
				h := content.Sum([]byte(text))
				unpin := s.Pin([]content.Hash{h})
				err := s.PutAs(h, iotest.OneByteReader(strings.NewReader(text)), 200)
				if g == 0 {
					_, _, err = s.Put(bytes.NewReader(fmt.Appendf(nil, "%0900d", i)), 900) // so that there is something to collect
				} else if err == nil && read(t, s, h) != text {
					t.Errorf("read another content than %s", text)
				}
				if err != nil && !errors.Is(err, content.ErrFull) {
					t.Error(err)
				}
				unpin()
				s.Remove(h)
			}
		})
	}
	users.Wait()
	var size int64
	for _, e := range s.All() {
		size += e.Size
	}
	if size > 3000 || len(names(t, dir)) != len(s.All()) {
		t.Errorf("%d bytes, kept are %d contents in %d files", size, len(s.All()), len(names(t, dir)))
	}
	put(t, s, strings.Repeat("x", 3000)) // nothing is counted that is not there
}

func TestParseHashTakesOneSpelling(t *testing.T) {
	h := content.Sum(nil)
	if got, err := content.ParseHash(h.String()); got != h || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	for _, s := range []string{"", h.String()[1:], h.String() + "0", strings.ToUpper(h.String()), strings.Repeat("g", 64), "../" + h.String()[3:], strings.Repeat("é", 32)} {
		if _, err := content.ParseHash(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}
