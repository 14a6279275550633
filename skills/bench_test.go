package skills_test

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"symbio/skills"
)

// BenchmarkScan reports the first scan of 1,000 skills as a ratio to the floor: walk, open, read 4
// KiB, close. The bars to hold are in skills.md, part 5.
func BenchmarkScan(b *testing.B) {
	root := b.TempDir()
	for i := range 1000 {
		dir := filepath.Join(root, fmt.Sprintf("skill-%04d", i))
		if err := os.MkdirAll(filepath.Join(dir, "references"), 0o700); err != nil {
			b.Fatal(err)
		}
		content := fmt.Sprintf("---\nname: skill-%04d\ndescription: %s\nlicense: MIT\n---\n%s", i, strings.Repeat("what it does ", 12), strings.Repeat("text\n", 1300))
		if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	cfg := skills.Config{Roots: []skills.Root{{Path: root, Scope: skills.ScopeUser}}}
	var ours, floor time.Duration
	for b.Loop() {
		start := time.Now()
		c, err := skills.Scan(b.Context(), cfg)
		if err != nil || len(c.Skills) != 1000 {
			b.Fatalf("%d skills, %v", len(c.Skills), err)
		}
		ours += time.Since(start)
		start = time.Now()
		walkAndRead(b, root)
		floor += time.Since(start)
	}
	b.ReportMetric(float64(ours)/float64(floor), "x-floor")
	b.ReportMetric(float64(ours.Microseconds())/float64(b.N)/1000, "ms/1000-skills")
}

func walkAndRead(b *testing.B, root string) {
	head := make([]byte, 4<<10)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "SKILL.md" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.ReadFull(f, head)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}
