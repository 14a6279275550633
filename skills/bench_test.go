package skills_test

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"symbio/actor"
	"symbio/skills"
)

// forest makes n skills as people write them: a few lines of front matter and some kilobytes of text, a
// quarter with references, a fifth with scripts. All of it is an hour old.
func forest(b *testing.B, n int) string {
	b.Helper()
	root := b.TempDir()
	made := []string{root}
	put := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
		made = append(made, path)
	}
	mkdir := func(path string) string {
		if err := os.Mkdir(path, 0o700); err != nil {
			b.Fatal(err)
		}
		made = append(made, path)
		return path
	}
	for i := range n {
		dir := mkdir(filepath.Join(root, fmt.Sprintf("skill-%05d", i)))
		description := strings.Repeat("what it does ", 12) + "and when"
		switch i % 50 { // of those that people publish, eight in a hundred are not plain lines
		case 0, 10, 20:
			description = ">\n  " + description + "\n  " + description
		case 30:
			description = "Use when: " + description
		}
		more := ""
		if i%3 == 0 {
			more = "metadata:\n  author: somebody\n  version: \"1.0\"\n"
		}
		put(filepath.Join(dir, "SKILL.md"), fmt.Sprintf("---\nname: skill-%05d\ndescription: %s\nlicense: MIT\n%s---\n%s", i, description, more, strings.Repeat("text\n", 300+(i%7)*400)))
		if i%4 == 0 {
			put(filepath.Join(mkdir(filepath.Join(dir, "references")), "more.md"), "more")
		}
		if i%5 == 0 {
			put(filepath.Join(mkdir(filepath.Join(dir, "scripts")), "run.sh"), "true")
		}
	}
	before := time.Now().Add(-time.Hour)
	for _, path := range slices.Backward(made) {
		if err := os.Chtimes(path, before, before); err != nil {
			b.Fatal(err)
		}
	}
	return root
}

// BenchmarkScan compares scans with the floor: walk, open, read 4 KiB, close. The bars of skills.md, part
// 5: a first scan at most 1.3, a rescan by a walk 0.6, by times alone 0.15, 2 KiB of heap a skill. Each
// round takes all of them in turn, and the medians count, so that what else the machine does hits all.
func BenchmarkScan(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			root := forest(b, n)
			cfg := skills.Config{Roots: []skills.Root{{Path: root, Scope: skills.ScopeUser}}}
			full := func(c skills.Catalog, err error) skills.Catalog {
				if err != nil || len(c.Skills) != n || c.Truncated {
					b.Fatalf("%d skills, truncated %t, %v", len(c.Skills), c.Truncated, err)
				}
				return c
			}
			warm := skills.NewScanner(cfg)
			full(warm.Scan(b.Context()))
			var floor, first, walked, known []time.Duration
			for b.Loop() {
				floor = append(floor, timed(func() { walkAndRead(b, root) }))
				first = append(first, timed(func() { full(skills.Scan(b.Context(), cfg)) }))
				walked = append(walked, timed(func() { full(warm.Scan(b.Context())) }))
				known = append(known, timed(func() { full(warm.Refresh(b.Context())) }))
			}
			least := float64(median(floor))
			b.ReportMetric(float64(median(first))/least, "x-floor-first")
			b.ReportMetric(float64(median(walked))/least, "x-floor-walk")
			b.ReportMetric(float64(median(known))/least, "x-floor-times")
			b.ReportMetric(float64(median(first).Microseconds())/1000, "ms-first")
			b.ReportMetric(float64(heapOf(func() any {
				s := skills.NewScanner(cfg)
				return []any{s, full(s.Scan(b.Context()))}
			}))/float64(n), "heap-B/skill")
		})
	}
}

// BenchmarkNewRegistry is what 1,000 skills add to the start of a node: at most 100 ms (R73).
func BenchmarkNewRegistry(b *testing.B) {
	cfg := skills.Config{Roots: []skills.Root{{Path: forest(b, 1000), Scope: skills.ScopeUser}}}
	var took []time.Duration
	for b.Loop() {
		system := actor.NewSystem(actor.Config{})
		took = append(took, timed(func() {
			if _, err := skills.NewRegistry(system, cfg); err != nil {
				b.Fatal(err)
			}
		}))
		if err := system.Shutdown(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(median(took).Microseconds())/1000, "ms/1000-skills")
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func median(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

// heapOf is how many bytes what f returns keeps.
func heapOf(f func() any) int64 {
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the first one empties pools into their victims
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	kept := f()
	after := live()
	runtime.KeepAlive(kept)
	return after - before
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
		if _, err = io.ReadFull(f, head); err == io.ErrUnexpectedEOF {
			err = nil
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}
