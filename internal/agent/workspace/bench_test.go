package workspace_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"symbio/internal/agent/workspace"
)

// BenchmarkLargeWorkspace takes and makes 10,000 files with 200 MB. The figures are times as large as those of a floor in the same run: one
// goroutine that reads and hashes the same files, and for Make also writes them.
func BenchmarkLargeWorkspace(b *testing.B) {
	const files, size = 10_000, 20_000
	dir := b.TempDir()
	random := rand.NewChaCha8([32]byte{})
	text := make([]byte, size)
	for i := range files {
		random.Read(text)
		file := filepath.Join(dir, fmt.Sprintf("%02d/%02d/%d.go", i%20, i%97, i))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	s := take(b, dir, workspace.Options{})
	store := openStore(b)
	send(b, s, store)
	var floorTake, floorMake, took, made, differed time.Duration
	n := 0
	for b.Loop() {
		n++
		began := time.Now()
		floor(b, dir, "")
		floorTake += time.Since(began)

		began = time.Now()
		take(b, dir, workspace.Options{})
		took += time.Since(began)

		copied, there := b.TempDir(), b.TempDir()
		began = time.Now()
		floor(b, dir, copied)
		floorMake += time.Since(began)

		began = time.Now()
		if err := workspace.Make(b.Context(), s.Manifest, store, there); err != nil {
			b.Fatal(err)
		}
		made += time.Since(began)

		began = time.Now()
		diff(b, s.Manifest, there, store)
		differed += time.Since(began)
		if err := errors.Join(os.RemoveAll(copied), os.RemoveAll(there)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(took.Seconds()/floorTake.Seconds(), "take/floor")
	b.ReportMetric(made.Seconds()/floorMake.Seconds(), "make/floor")
	b.ReportMetric(differed.Seconds()/floorTake.Seconds(), "diff/floor")
	b.ReportMetric(took.Seconds()/float64(n), "s/take")
	b.ReportMetric(float64(len(s.Encode()))/files/size, "manifest/content")
}

// floor hashes the files of dir, and writes them to another directory unless that is "".
func floor(b *testing.B, dir, to string) {
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		_, err = io.Copy(io.MultiWriter(sha256.New(), &text), f)
		f.Close()
		if err == nil && to != "" {
			file = filepath.Join(to, file[len(dir):])
			err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text.Bytes(), 0o644))
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}
