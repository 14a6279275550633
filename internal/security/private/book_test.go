package private_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/internal/security/private"
)

type decision struct {
	About string `json:"about"`
	Count int    `json:"count,omitempty"`
}

func decisions(dir string) private.Book[decision] {
	return private.Book[decision]{Dir: dir, Key: func(d decision) string { return d.About }, Check: func(d decision) error {
		if d.About == "" {
			return errors.New("it is about nothing")
		}
		return nil
	}}
}

func TestBookKeepsTheLastRecordOfAKey(t *testing.T) {
	b := decisions(filepath.Join(t.TempDir(), "new", "book"))
	for _, d := range []decision{{"a", 1}, {"b", 1}, {"a", 2}} {
		if err := b.Put(d); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := b.Find("a"); err != nil || d.Count != 2 {
		t.Errorf("found %+v, %v", d, err)
	}
	if err := b.Remove("b"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Find("b"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after it was removed: %v", err)
	}
	if err := b.Remove("b"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("removed again: %v", err)
	}
	if all, err := b.All(); len(all) != 1 || err != nil {
		t.Errorf("left are %v, %v", all, err)
	}
	if err := b.Put(decision{}); !errors.Is(err, private.ErrRecord) {
		t.Errorf("put nothing: %v", err)
	}
	if err := b.Put(decision{About: strings.Repeat("x", 64<<10)}); !errors.Is(err, private.ErrFull) {
		t.Errorf("put too much: %v", err)
	}
}

func TestBookIsFull(t *testing.T) {
	dir := t.TempDir()
	for i := range 4097 {
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("a", i%60)+string(rune('a'+i/60%26))+
			hex.EncodeToString([]byte{byte(i >> 8), byte(i)})+".json"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := decisions(dir)
	if err := b.Put(decision{About: "a"}); !errors.Is(err, private.ErrFull) {
		t.Errorf("put one more: %v", err)
	}
	sum := sha256.Sum256([]byte("a"))
	if err := os.WriteFile(filepath.Join(dir, hex.EncodeToString(sum[:])+".json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(decision{About: "a"}); err != nil {
		t.Errorf("replace one: %v", err)
	}
	if _, err := b.All(); !errors.Is(err, private.ErrFull) {
		t.Errorf("listed: %v", err)
	}
}

// FuzzBook holds that whatever a file contains is an error or a record of that file's name.
func FuzzBook(f *testing.F) {
	for _, text := range []string{`{"about":"a"}`, `{"about":"b"}`, `{"about":"a"}{}`, `{"about":"a","more":1}`, `{"about":""}`, "",
		"[]", "{"} {
		f.Add([]byte(text))
	}
	sum := sha256.Sum256([]byte("a"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := errors.Join(os.Chmod(dir, 0o700),
			os.WriteFile(filepath.Join(dir, hex.EncodeToString(sum[:])+".json"), text, 0o600)); err != nil {
			t.Fatal(err)
		}
		d, err := decisions(dir).Find("a")
		if err == nil && d.About != "a" || err != nil && !errors.Is(err, private.ErrRecord) {
			t.Errorf("%q: %+v, %v", text, d, err)
		}
	})
}
