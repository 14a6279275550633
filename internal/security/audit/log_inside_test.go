package audit

import (
	"os"
	"path/filepath"
	"testing"
)

// A log whose disk has failed in the middle of a record goes on in a new file, and verifies.
func TestLogGoesOnAfterFailedWrites(t *testing.T) {
	for name, fail := range map[string]func(*testing.T, *Log){
		"the rest of a record stays": func(t *testing.T, l *Log) {
			if n, err := l.file.WriteString(`{"seq":`); err != nil || n != 7 {
				t.Fatal(n, err)
			}
			l.size, l.torn = l.cfg.MaxFile, 7
		},
		"the first record of a file cannot be written": func(t *testing.T, l *Log) {
			if err := l.begin(record{Entry: []byte("{")}); err == nil {
				t.Fatal("a record that is no JSON was written")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "log")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			l, err := Open(dir, Config{})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := l.Append(Entry{Tool: "Bash"}); err != nil {
					t.Fatal(err)
				}
				fail(t, l)
			}
			if err := l.Append(Entry{Tool: "Bash"}); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if r, err := Verify(t.Context(), dir, nil); err != nil {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}
