package format_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/skills/format"
)

var update = flag.Bool("update", false, "write the golden file anew")

// TestEdgeMessagesAreThoseOfTheGoldenFile holds the line, the field and the words of each diagnostic of
// the edge table, at each level.
func TestEdgeMessagesAreThoseOfTheGoldenFile(t *testing.T) {
	const file = "testdata/edges.golden"
	var b strings.Builder
	for _, e := range edges {
		dir := e.dir
		if dir == "" {
			dir = "my-skill"
		}
		for _, level := range []format.Level{format.Strict, format.Standard, format.Lenient} {
			_, _, diags := format.Parse([]byte(e.content), dir, format.Policy{Level: level})
			fmt.Fprintf(&b, "%s, %s:", e.id, level)
			if len(diags) == 0 {
				b.WriteString(" ok")
			}
			for _, d := range diags {
				fmt.Fprintf(&b, "\n  %d %s %s", d.Line, cmpOr(d.Field, "-"), strings.ReplaceAll(oneDiagnostic(d), "\n", `\n`))
			}
			b.WriteString("\n")
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); d != "" {
		t.Errorf("(-golden +got):\n%s", d)
	}
}

func cmpOr(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// oneDiagnostic returns a diagnostic as a line of the file.
func oneDiagnostic(d format.Diagnostic) string {
	text := fmt.Sprintf("%s: %s [%s]", d.Severity, d.Message, d.Code)
	if d.Line > 0 {
		text = fmt.Sprintf("line %d: %s", d.Line, text)
	}
	return text
}
