package skills_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/skills"
	"symbio/skills/format"
)

var update = flag.Bool("update", false, "write the golden file anew")

// TestMessagesOfSkillsThatDoNotLoad compares the whole messages, with DIR for the directory.
func TestMessagesOfSkillsThatDoNotLoad(t *testing.T) {
	const golden = "testdata/load-errors.golden"
	base := real(t)
	var b strings.Builder
	for _, row := range []struct{ name, content string }{
		{"missing", ""}, {"empty-directory", ""}, {"empty-file", ""}, {"no-front-matter", "# Title\n"},
		{"unterminated", "---\nname: x\n"}, {"utf-16", "\xFF\xFE-\x00"}, {"not-yaml", "---\nname: [\n---\n"},
		{"a-list", "---\n- a\n---\n"}, {"twice", "---\nname: twice\nname: twice\n---\n"},
		{"one-issue", "---\nname: one-issue\n---\n"},
		{"several-issues", "---\nname: Several_Issues\ndescription: [a]\ncompatibility: \"\"\nmetadata: x\nversion: 1\nallowed-tools: [Read]\n---\n"},
		{"another-name", "---\nname: other\ndescription: d\n---\n"},
		{"large", strings.Repeat("x", 1<<20+1)},
	} {
		dir := filepath.Join(base, row.name)
		switch row.name {
		case "missing":
		case "empty-directory":
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		default:
			write(t, filepath.Join(dir, "SKILL.md"), row.content)
		}
		_, err := skills.Load(dir, format.Policy{Level: format.Strict})
		if err == nil {
			t.Errorf("%s: loaded", row.name)
			continue
		}
		fmt.Fprintf(&b, "== %s\n%s\n", row.name, strings.ReplaceAll(err.Error(), base, "DIR"))
	}
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); d != "" {
		t.Errorf("(-golden +got):\n%s", d)
	}
}
