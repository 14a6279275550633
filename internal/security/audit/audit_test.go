package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/internal/security/audit"
)

func open(t testing.TB, dir string, cfg audit.Config) *audit.Log {
	t.Helper()
	l, err := audit.Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func entry(n int) audit.Entry {
	return audit.Entry{
		Time: time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC), Node: "n1", Agent: "a1", Name: "worker", For: []string{"planner", "root"},
		Tool: "Bash", Args: json.RawMessage(fmt.Sprintf(`{"command":"echo <%d> \u2028 & ü"}`, n)), Verdict: "ask", Stage: "default",
		Why: "No rule.", Approved: n%2 == 0, By: "terminal",
	}
}

func fill(t testing.TB, dir string, cfg audit.Config, n int) {
	t.Helper()
	l, err := audit.Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := l.Append(entry(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func files(t testing.TB, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t testing.TB, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRecordsAreReadBackInOrder(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, audit.Config{}, 3)
	fill(t, dir, audit.Config{}, 2) // another process goes on
	var got []audit.Entry
	r, err := audit.Verify(t.Context(), dir, func(e audit.Entry) error { got = append(got, e); return nil })
	if err != nil {
		t.Fatal(err)
	}
	want := []audit.Entry{entry(0), entry(1), entry(2), entry(0), entry(1)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if r.Files != 1 || r.Records != 5 || r.First != 1 || r.Torn != 0 || len(r.Head) != 64 {
		t.Errorf("report %+v", r)
	}
}

func TestEveryChangedByteIsSeen(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, audit.Config{}, 2)
	file := files(t, dir)[0]
	good := read(t, file)
	for i := range good[:len(good)-1] { // without the last line's end, a record is one that was cut off
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		write(t, file, bad)
		if _, err := audit.Verify(t.Context(), dir, nil); !errors.Is(err, audit.ErrBroken) {
			t.Fatalf("a bit of byte %d (%q) flipped: %v, want ErrBroken", i, good[i], err)
		}
	}
}

func TestRecordsThatAreTakenOutMovedOrDoubledAreSeen(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, audit.Config{}, 4)
	file := files(t, dir)[0]
	lines := bytes.SplitAfter(read(t, file), []byte("\n"))
	lines = lines[:len(lines)-1]
	for name, change := range map[string]func([][]byte) [][]byte{
		"the first taken out":   func(l [][]byte) [][]byte { return l[1:] },
		"one taken out":         func(l [][]byte) [][]byte { return slices.Delete(l, 2, 3) },
		"two swapped":           func(l [][]byte) [][]byte { l[2], l[3] = l[3], l[2]; return l },
		"one doubled":           func(l [][]byte) [][]byte { return slices.Insert(l, 2, l[2]) },
		"an empty line put in":  func(l [][]byte) [][]byte { return slices.Insert(l, 2, []byte("\n")) },
		"a record with a blank": func(l [][]byte) [][]byte { l[2] = append([]byte(" "), l[2]...); return l },
	} {
		write(t, file, bytes.Join(change(slices.Clone(lines)), nil))
		if _, err := audit.Verify(t.Context(), dir, nil); !errors.Is(err, audit.ErrBroken) || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %v, want ErrBroken with the line", name, err)
		}
	}
	whole, cut := audit.Report{}, audit.Report{}
	var err error
	write(t, file, bytes.Join(lines, nil))
	if whole, err = audit.Verify(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	write(t, file, bytes.Join(lines[:4], nil))
	if cut, err = audit.Verify(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	if whole.Head == cut.Head {
		t.Error("a log with its end cut off has the same head")
	}
}

func TestLogGoesOnInNewFiles(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, audit.Config{MaxFile: 1000}, 10)
	all := files(t, dir)
	if len(all) < 3 {
		t.Fatalf("%d files", len(all))
	}
	r, err := audit.Verify(t.Context(), dir, nil)
	if err != nil || r.Records != 10 || r.Files != len(all) {
		t.Fatalf("report %+v, %v", r, err)
	}
	if err := os.Remove(all[0]); err != nil {
		t.Fatal(err)
	}
	if r, err = audit.Verify(t.Context(), dir, nil); err != nil || r.First == 1 {
		t.Errorf("without the oldest file: %+v, %v", r, err)
	}
	if err := os.Remove(all[2]); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Verify(t.Context(), dir, nil); !errors.Is(err, audit.ErrBroken) {
		t.Errorf("without a file in the middle: %v, want ErrBroken", err)
	}
}

func TestRecordThatWasCutOffIsLeftAndSaid(t *testing.T) {
	for name, first := range map[string]int{"in the first record of the file": 0, "in a later one": 2} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir, audit.Config{}, first)
			file := filepath.Join(dir, "decisions-000001.jsonl")
			old, err := os.ReadFile(file)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			write(t, file, append(old, `{"seq":99,"pr`...))
			fill(t, dir, audit.Config{}, 2)
			r, err := audit.Verify(t.Context(), dir, nil)
			if err != nil || r.Torn != 1 || r.Records != uint64(first)+2 || r.Files != 2 {
				t.Fatalf("report %+v, %v", r, err)
			}
			write(t, file, append(old, `{"seq":99,"prev`...))
			if _, err := audit.Verify(t.Context(), dir, nil); !errors.Is(err, audit.ErrBroken) {
				t.Errorf("what was left of the record was changed: %v, want ErrBroken", err)
			}
		})
	}
}

func TestDamagedEndIsNotWrittenOn(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, audit.Config{}, 2)
	file := files(t, dir)[0]
	text := bytes.Replace(read(t, file), []byte(`"approved":false`), []byte(`"approved":true`), 1)
	write(t, file, text)
	_, err := audit.Open(dir, audit.Config{})
	if err == nil || !strings.Contains(err.Error(), "audit verify") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
	if !bytes.Equal(read(t, file), text) || len(files(t, dir)) != 1 {
		t.Error("something was written")
	}
}

func TestManyMayAppendAtOnce(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, audit.Config{MaxFile: 20_000})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 50 {
				if err := l.Append(entry(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if r, err := audit.Verify(t.Context(), dir, nil); err != nil || r.Records != 400 {
		t.Errorf("report %+v, %v", r, err)
	}
}

func TestLongCallIsRecordedByItsHash(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, audit.Config{})
	e := entry(0)
	long := strings.Repeat("x", 1<<20)
	e.Args = json.RawMessage(`{"content":"` + long + `"}`)
	e.Why, e.For = long, slices.Repeat([]string{long}, 100)
	if err := l.Append(e); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(entry(1)); err != nil {
		t.Fatal(err)
	}
	var got []audit.Entry
	if _, err := audit.Verify(t.Context(), dir, func(e audit.Entry) error { got = append(got, e); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !strings.Contains(string(got[0].Args), `"left_out_bytes":1048590`) {
		t.Errorf("got %d entries, the first with %.200s", len(got), got[0].Args)
	}
}

func TestClosedLogTakesNothing(t *testing.T) {
	l := open(t, t.TempDir(), audit.Config{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(entry(0)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("got %v, want fs.ErrClosed", err)
	}
}

func TestErrorOfTheReaderEndsTheReading(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, audit.Config{}, 3)
	enough := errors.New("enough")
	n := 0
	_, err := audit.Verify(t.Context(), dir, func(audit.Entry) error { n++; return enough })
	if !errors.Is(err, enough) || n != 1 {
		t.Errorf("got %v after %d", err, n)
	}
}

func FuzzVerifyNeverPanics(f *testing.F) {
	dir := f.TempDir()
	fill(f, dir, audit.Config{}, 2)
	f.Add(read(f, files(f, dir)[0]))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"seq":1,"prev":"","entry":null,"hash":""}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "decisions-000001.jsonl"), text)
		r, err := audit.Verify(t.Context(), dir, nil)
		if err == nil {
			if l, err := audit.Open(dir, audit.Config{}); err != nil {
				t.Errorf("verified %+v, and cannot be opened: %v", r, err)
			} else if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	dir := b.TempDir()
	l := open(b, dir, audit.Config{})
	b.ResetTimer()
	for b.Loop() {
		if err := l.Append(entry(1)); err != nil {
			b.Fatal(err)
		}
	}
}
