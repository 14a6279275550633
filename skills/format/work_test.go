package format

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// hostile inputs grow with n bytes.
var hostile = map[string]func(n int) string{
	"keys":           func(n int) string { return numbered("k%: 1\n", n) },
	"broken keys":    func(n int) string { return numbered("k%: a: b\n", n) },
	"one broken":     func(n int) string { return "a: b: c\n" + numbered("k%: 1\n", n) },
	"flow list":      func(n int) string { return "a: " + strings.Repeat("[", n/2) + strings.Repeat("]", n/2) },
	"open list":      func(n int) string { return "a: " + strings.Repeat("[", n) },
	"flow map":       func(n int) string { return "a: " + strings.Repeat("{a: ", n/5) + strings.Repeat("}", n/5) },
	"deep blocks":    func(n int) string { return strings.Repeat("- ", n/2) },
	"quotes":         func(n int) string { return "a: " + strings.Repeat(`"`, n) },
	"long text":      func(n int) string { return "a: b: " + strings.Repeat("x\n ", n/3) },
	"tools":          func(n int) string { return "allowed-tools: " + numbered("R% ", n) },
	"tool list":      func(n int) string { return "allowed-tools:\n" + numbered("- R%\n", n) },
	"parentheses":    func(n int) string { return "allowed-tools: " + strings.Repeat("(", n/2) + strings.Repeat(")", n/2) },
	"metadata":       func(n int) string { return "metadata:\n" + numbered("  k%: [1]\n", n) },
	"many names":     func(n int) string { return "name: " + strings.Repeat("a-", n/2) },
	"delimiters":     func(n int) string { return strings.Repeat(" ---\n", n/5) },
	"anchors":        func(n int) string { return numbered("k%: &a 1\n", n) },
	"question marks": func(n int) string { return strings.Repeat("? ", n/2) },
}

func numbered(pattern string, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.ReplaceAll(pattern, "%", string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676%26))))
	}
	return b.String()
}

func TestWorkIsLinearInTheInput(t *testing.T) {
	for about, input := range hostile {
		for _, level := range []Level{Strict, Standard, Lenient} {
			front := []byte(input(maxFront - 64))
			d := decoder{policy: Policy{Level: level}}
			d.decode(front)
			// The whole once, and each of its blocks once.
			if d.parsedBytes > 2*len(front) {
				t.Errorf("%s at %s: %d bytes of front matter, %d given to YAML", about, level, len(front), d.parsedBytes)
			}
			if d.nodes > 2*len(front) {
				t.Errorf("%s at %s: %d bytes of front matter, %d nodes visited", about, level, len(front), d.nodes)
			}
			size := 0
			for _, f := range d.fields {
				size += len(scalarOrFlow(f.value))
			}
			if size > 4*len(front) {
				t.Errorf("%s at %s: %d bytes of front matter became %d of text", about, level, len(front), size)
			}
		}
	}
}

// BenchmarkHostile shows the time for the largest front matter of each hostile kind, and how often it is
// the four times that a quarter of it takes: 1 is linear.
func BenchmarkHostile(b *testing.B) {
	for about, input := range hostile {
		content := func(n int) []byte {
			return []byte("---\nname: my-skill\ndescription: d\n" + input(n) + "\n---\n")
		}
		whole, quarter := content(maxFront-64), content((maxFront-64)/4)
		b.Run(about, func(b *testing.B) {
			b.SetBytes(int64(len(whole)))
			var large, small []time.Duration
			for b.Loop() {
				large = append(large, timed(func() { Parse(whole, "my-skill", Policy{}) }))
				small = append(small, timed(func() {
					for range 4 {
						Parse(quarter, "my-skill", Policy{})
					}
				}))
			}
			slices.Sort(large)
			slices.Sort(small)
			b.ReportMetric(float64(large[len(large)/2])/float64(small[len(small)/2]), "x-linear")
			b.ReportMetric(float64(large[len(large)/2].Microseconds())/1000, "ms/64KiB")
		})
	}
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}
