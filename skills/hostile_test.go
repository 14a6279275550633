package skills_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"symbio/skills"
	"symbio/skills/format"
)

// A hostile is a way to fill a directory with something that looks like a skill; r chooses what differs.
type hostile func(t *testing.T, dir string, r *rand.Rand)

func text(content func(r *rand.Rand, name string) string) hostile {
	return func(t *testing.T, dir string, r *rand.Rand) {
		write(t, filepath.Join(dir, "SKILL.md"), content(r, filepath.Base(dir)))
	}
}

func noise(r *rand.Rand, n int) string {
	b := make([]byte, r.IntN(n))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

func framed(lines string) string { return "---\n" + lines + "\n---\ntext\n" }

func headed(name, lines string) string {
	return framed("name: " + name + "\ndescription: d\n" + lines)
}

// hostiles are what attackers, broken editors and odd machines leave behind.
func hostiles() []hostile {
	parts := []string{"name: ", "description: ", "a", ": ", "\n", "\r\n", "  ", "- ", "[", "]", "{", "}", "&a ", "*a", "<<: ", "!x ", "|",
		">", "\"", "'", "#", "\t", "---", "\n---\n", "...", "?", "%", "\u2028", "\x00", "\xff", "é", "allowed-tools: ", "Bash(", ")", ","}
	return []hostile{
		text(func(r *rand.Rand, name string) string { return headed(name, "") }),
		text(func(r *rand.Rand, _ string) string { return noise(r, 3000) }),
		text(func(r *rand.Rand, _ string) string { return framed(noise(r, 300)) }),
		text(func(r *rand.Rand, name string) string { return headed(name, noise(r, 300)) }),
		text(func(r *rand.Rand, name string) string { // cut off anywhere, in a character too
			s := headed(name, "license: 把脉🚀é\nmetadata:\n  a: b\n")
			return s[:r.IntN(len(s))]
		}),
		text(func(r *rand.Rand, name string) string {
			var b strings.Builder
			for range r.IntN(60) {
				b.WriteString(parts[r.IntN(len(parts))])
			}
			return "---\n" + b.String() + "\n---\n"
		}),
		text(func(r *rand.Rand, name string) string { // one byte of a good one changed
			b := []byte(headed(name, "allowed-tools: Read Bash(git:*)\nmetadata: {a: b}\n"))
			b[r.IntN(len(b))] = byte(r.Uint32())
			return string(b)
		}),
		text(func(r *rand.Rand, name string) string { // grows ninefold with each line if it is resolved
			s := "a: &a [x,x,x,x,x,x,x,x,x]\n"
			for c := 'b'; c <= 'z'; c++ {
				s += fmt.Sprintf("%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 8), c-1)
			}
			return headed(name, s)
		}),
		text(func(r *rand.Rand, name string) string {
			n := 1 + r.IntN(1+r.IntN(20_000))
			return headed(name, "deep: "+strings.Repeat("[", n)+strings.Repeat("]", n*r.IntN(2)))
		}),
		text(func(r *rand.Rand, name string) string {
			return headed(name, strings.Repeat("- ", r.IntN(1+r.IntN(10_000))))
		}),
		text(func(r *rand.Rand, name string) string {
			return headed(name, "license: "+strings.Repeat("x", 64<<10+r.IntN(200)-150))
		}),
		text(func(r *rand.Rand, name string) string {
			return headed(name, "allowed-tools: "+strings.Repeat("Bash(", r.IntN(1+r.IntN(5000))))
		}),
		text(func(r *rand.Rand, name string) string {
			return strings.Repeat(" ---\n", r.IntN(2000)) + headed(name, "")
		}),
		text(func(r *rand.Rand, name string) string { return "\xEF\xBB\xBF" + headed(name, "") }),
		text(func(r *rand.Rand, name string) string { return "\xFF\xFE-\x00-\x00" }),
		text(func(r *rand.Rand, name string) string { return "" }),
		func(t *testing.T, dir string, r *rand.Rand) { // sparse
			write(t, filepath.Join(dir, "SKILL.md"), headed(filepath.Base(dir), ""))
			if err := os.Truncate(filepath.Join(dir, "SKILL.md"), 100<<20); err != nil {
				t.Fatal(err)
			}
		},
		func(t *testing.T, dir string, r *rand.Rand) { pipe(t, filepath.Join(dir, "SKILL.md")) },
		func(t *testing.T, dir string, r *rand.Rand) {
			targets := []string{"/dev/zero", "/dev/stdin", "/etc/passwd", "../..", ".", "SKILL.md", "gone", "/proc/self/mem",
				strings.Repeat("x/", 100)}
			link(t, targets[r.IntN(len(targets))], filepath.Join(dir, "SKILL.md"))
		},
		func(t *testing.T, dir string, r *rand.Rand) {
			skill(t, dir)
			link(t, []string{"..", ".", "/", "../..", "gone"}[r.IntN(5)], filepath.Join(dir, "loop"))
		},
		func(t *testing.T, dir string, r *rand.Rand) {
			write(t, filepath.Join(dir, "SKILL.md", "SKILL.md"), headed("SKILL.md", ""))
		},
		func(t *testing.T, dir string, r *rand.Rand) {
			write(t, filepath.Join(dir, "node_modules", ".hidden", "references", "x", "SKILL.md"), noise(r, 500))
		},
		func(t *testing.T, dir string, r *rand.Rand) {
			write(t, filepath.Join(dir, strings.Repeat("d/", 1+r.IntN(25)), "SKILL.md"), headed("d", ""))
		},
		func(t *testing.T, dir string, r *rand.Rand) {
			write(t, filepath.Join(dir, "\xff\n\x1b[31m", "SKILL.md"), headed("x", ""))
		},
	}
}

// hostileTree fills a directory with n of them and returns the paths of all that is called SKILL.md.
func hostileTree(t *testing.T, n int) (root string, files map[string]bool) {
	t.Helper()
	root = real(t)
	r := rand.New(rand.NewPCG(7, 11))
	kinds := hostiles()
	for i := range n {
		kinds[i%len(kinds)](t, filepath.Join(root, fmt.Sprintf("g-%02d", i%17), fmt.Sprintf("s-%04d", i)), r)
	}
	files = map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d.Name() == "SKILL.md" {
			files[path] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return root, files
}

func TestHostileSkillFilesHaveOneVerdict(t *testing.T) {
	const n = 300
	root, files := hostileTree(t, n)
	write(t, filepath.Join(filepath.Dir(root), "planted", "SKILL.md"), "# none") // links lead here by way of /
	for _, level := range []format.Level{format.Strict, format.Standard, format.Lenient} {
		told := map[string]int{}
		bad := 0
		err := skills.ValidateTree(t.Context(), root, format.Policy{Level: level}, func(r skills.Report) error {
			told[r.Path]++
			if !r.OK {
				bad++
			}
			if r.OK == format.Failed(r.Diagnostics) || r.OK && r.Name == "" {
				t.Errorf("%s, %q: ok %t, name %q, with %v", level, r.Path, r.OK, r.Name, r.Diagnostics)
			}
			line, err := json.Marshal(r)
			if err != nil || bytes.ContainsAny(line, "\n\x1b") {
				t.Errorf("%s: %q, %v", r.Path, line, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for path := range files {
			if told[path] != 1 {
				t.Errorf("%s, %q: %d verdicts", level, path, told[path])
			}
		}
		if len(told) != len(files) {
			t.Errorf("%s: %d files, %d verdicts", level, len(files), len(told))
		}
		if bad < n/3 || bad > n {
			t.Errorf("%s: %d of %d are not ok", level, bad, n)
		}
	}
	// A scan has nothing to add but what it may leave out.
	cfg := user(root)
	c := scan(t, cfg)
	for _, p := range c.Errors {
		if !files[p.Path] {
			t.Errorf("a scan complains about %q: %v", p.Path, p.Diagnostics)
		}
	}
}

// TestValidationHoldsOneSkillInMemory compares what is live in the middle of a large tree with the
// beginning.
func TestValidationHoldsOneSkillInMemory(t *testing.T) {
	root := real(t)
	body := strings.Repeat("x", 256<<10)
	for i := range 200 {
		write(t, filepath.Join(root, fmt.Sprintf("s-%03d", i), "SKILL.md"), headed(fmt.Sprintf("s-%03d", i), "")+body)
	}
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, most, seen := live(), int64(0), 0
	err := skills.ValidateTree(t.Context(), root, format.Policy{}, func(skills.Report) error {
		if seen++; seen%50 == 0 {
			most = max(most, live()-before)
		}
		return nil
	})
	if err != nil || seen != 200 {
		t.Fatalf("%d verdicts, %v", seen, err)
	}
	if most > 10*int64(len(body)) {
		t.Errorf("%d bytes are held for skills of %d", most, len(body))
	}
}

func TestValidationEndsWithItsContextAndItsReader(t *testing.T) {
	root := real(t)
	for i := range 50 {
		skill(t, filepath.Join(root, fmt.Sprintf("s-%02d", i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	err := skills.ValidateTree(ctx, root, format.Policy{}, func(skills.Report) error {
		if seen++; seen == 10 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || seen != 10 {
		t.Errorf("cancelled: %d verdicts, %v", seen, err)
	}
	full := errors.New("the disk is full")
	if err := skills.ValidateTree(t.Context(), root, format.Policy{}, func(skills.Report) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v, want the reader's own error", err)
	}
}
