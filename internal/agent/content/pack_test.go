package content_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"symbio/internal/agent/content"
)

// putAll puts texts together and returns their hashes.
func putAll(t *testing.T, s *content.Store, texts ...string) (all []content.Hash) {
	t.Helper()
	var sizes []int
	for _, text := range texts {
		all, sizes = append(all, content.Sum([]byte(text))), append(sizes, len(text))
	}
	if err := s.PutAll(all, sizes, []byte(strings.Join(texts, ""))); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPutAllKeepsContentsTogetherAlsoAfterRestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 0)
	one := put(t, s, "one")
	all := putAll(t, s, "one", "two", "", "three", "two")
	if got := names(t, dir); len(got) != 2 || len(s.All()) != 4 {
		t.Errorf("files %v, kept are %v", got, s.All())
	}
	for _, s := range []*content.Store{s, open(t, dir, 0)} {
		for i, want := range []string{"one", "two", "", "three"} {
			if got := read(t, s, all[i]); got != want || !s.Has(all[i]) {
				t.Errorf("read %q, want %q; has %v", got, want, s.Has(all[i]))
			}
		}
		if len(s.All()) != 4 {
			t.Errorf("kept are %v", s.All())
		}
	}
	if err := s.Remove(all[3]); err != nil || s.Has(all[1]) || !s.Has(one) || len(names(t, dir)) != 1 {
		t.Errorf("removed: %v; kept are %v in %v", err, s.All(), names(t, dir))
	}
}

func TestPutAllTakesAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 100)
	for want, second := range map[error]string{content.ErrMismatch: strings.Repeat("b", 90), content.ErrFull: strings.Repeat("a", 90)} {
		hashes := []content.Hash{content.Sum([]byte("a")), content.Sum([]byte(strings.Repeat("a", 90)))}
		if err := s.PutAll(hashes, []int{1, 90}, []byte("a"+second)); !errors.Is(err, want) || len(s.All()) != 0 || len(names(t, dir)) != 0 {
			t.Errorf("%v, want %v; kept are %v in %v", err, want, s.All(), names(t, dir))
		}
	}
	if err := s.PutAll(nil, nil, nil); err != nil || len(names(t, dir)) != 0 {
		t.Errorf("put nothing: %v, files %v", err, names(t, dir))
	}
}

func TestPackIsCollectedWhenNoneOfItIsPinned(t *testing.T) {
	s := open(t, t.TempDir(), 1000)
	all := putAll(t, s, "one", "two") // less than 500 bytes with their index
	unpin, again := s.Pin(all[:1]), s.Pin(all)
	put(t, s, strings.Repeat("x", 510))
	if put(t, s, strings.Repeat("y", 510)); !s.Has(all[0]) || !s.Has(all[1]) {
		t.Errorf("what is pinned was collected; kept are %v", s.All())
	}
	again()
	if err := s.Remove(all[1]); !errors.Is(err, content.ErrPinned) {
		t.Errorf("remove what is kept with something pinned: %v", err)
	}
	unpin()
	put(t, s, strings.Repeat("z", 1000))
	if len(s.All()) != 1 {
		t.Errorf("kept are %v, want one", s.All())
	}
}

// damagedPack puts two contents together and has damage change their file.
func damagedPack(t *testing.T, damage func([]byte) []byte) (dir string, all []content.Hash) {
	t.Helper()
	dir = t.TempDir()
	all = putAll(t, open(t, dir, 0), "one", "two")
	name := filepath.Join(dir, names(t, dir)[0])
	data, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, damage(data), 0o600)
	}
	if hour := time.Now().Add(-time.Hour); err == nil {
		err = os.Chtimes(name, hour, hour)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, all
}

func TestPackWithDamagedContentIsRemoved(t *testing.T) {
	dir, all := damagedPack(t, func(b []byte) []byte { return bytes.Replace(b, []byte("two"), []byte("\x00\x00\x00"), 1) })
	s := open(t, dir, 0)
	defer s.Pin(all)()
	if _, err := s.Open(all[1]); !errors.Is(err, fs.ErrNotExist) || s.Has(all[1]) || s.Has(all[0]) || len(names(t, dir)) != 0 {
		t.Errorf("open: %v; kept are %v", err, s.All())
	}
	putAll(t, s, "one", "two")
	if got := read(t, s, all[0]) + read(t, s, all[1]); got != "onetwo" {
		t.Errorf("read %q", got)
	}
}

func TestYoungerFileOfContentCounts(t *testing.T) {
	dir, all := damagedPack(t, func(b []byte) []byte { return bytes.Replace(b, []byte("two"), []byte("\x00\x00\x00"), 1) })
	if err := os.WriteFile(filepath.Join(dir, all[1].String()), []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, 0)
	if got := read(t, s, all[0]) + read(t, s, all[1]); got != "onetwo" || len(s.All()) != 2 {
		t.Errorf("read %q; kept are %v", got, s.All())
	}
	if err := s.Remove(all[0]); err != nil || !s.Has(all[1]) {
		t.Errorf("removed the older one: %v; kept are %v", err, s.All())
	}
}

func TestPackWithDamagedIndexIsRemoved(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty":               func([]byte) []byte { return nil },
		"cut in the index":    func(b []byte) []byte { return b[:40] },
		"cut in the contents": func(b []byte) []byte { return b[:len(b)-1] },
		"too long":            func(b []byte) []byte { return append(b, 'x') },
		"zeros":               func(b []byte) []byte { return make([]byte, len(b)) },
		"no entries":          func([]byte) []byte { return []byte("[]") },
		"hash that is none":   func(b []byte) []byte { return bytes.Replace(b, []byte(`"Hash":"`), []byte(`"Hash":"/`), 1) },
		"another size":        func(b []byte) []byte { return bytes.Replace(b, []byte(`"Size":3`), []byte(`"Size":4`), 1) },
		"size below 0":        func(b []byte) []byte { return bytes.Replace(b, []byte(`"Size":3`), []byte(`"Size":-3`), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := damagedPack(t, damage)
			if s := open(t, dir, 0); len(s.All()) != 0 || len(names(t, dir)) != 0 {
				t.Errorf("kept are %v in %v", s.All(), names(t, dir))
			}
		})
	}
}

func FuzzPack(f *testing.F) {
	one := fmt.Sprintf(`{"Hash":"%v","Size":1}`, content.Sum([]byte("x")))
	f.Add([]byte("[" + one + "]x"))
	f.Add([]byte("[" + one + "," + one + "]xx"))
	f.Add([]byte("[" + one + `,{"Size":9},{"Size":-9}]x`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "pack-x"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, 0)
		for _, e := range s.All() {
			if e.Size > int64(len(data)) {
				t.Errorf("%d bytes in a file of %d", e.Size, len(data))
			}
			if s.Has(e.Hash) && content.Sum([]byte(read(t, s, e.Hash))) != e.Hash {
				t.Error("a wrong content was read")
			}
		}
	})
}
