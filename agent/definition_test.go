package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent"
)

func TestADefinitionIsFrontMatterAndInstructions(t *testing.T) {
	got, err := agent.ParseDefinition([]byte("\uFEFF---\r\nname: reviewer\r\ndescription: Reviews.\r\ntools: [Read]\r\nskills: [git]\r\n---\r\n\r\nYou review.\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := agent.Definition{
		Name: "reviewer", Description: "Reviews.", Tools: []string{"Read"}, Skills: []string{"git"},
		Accepts: []string{"task", "reviewer"}, MaxTurns: 32, Instructions: "You review.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definition (-want +got):\n%s", diff)
	}
}

func TestADefinitionThatIsWrongSaysWhatAndWhere(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"no front matter":   {"You review.", "line 1"},
		"not ended":         {"---\nname: a\n", "no second ---"},
		"unknown key":       {"---\nname: a\ndescription: d\nmodle: x\n---\n", `line 4: unknown key "modle"; did you mean "model"?`},
		"no name":           {"---\ndescription: d\n---\n", `name ""`},
		"a path for a name": {"---\nname: ../a\ndescription: d\n---\n", "single hyphens"},
		"no description":    {"---\nname: a\n---\n", "description is missing"},
		"bad rule":          {"---\nname: a\ndescription: d\npermissions: {deny: ['Bash(rm']}\n---\n", "Bash(rm"},
		"negative turns":    {"---\nname: a\ndescription: d\nmax_turns: -1\n---\n", "negative"},
		"too large":         {"---\nname: a\ndescription: d\n---\n" + strings.Repeat("x", 300<<10), "256 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := agent.ParseDefinition([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestOneBadDefinitionDoesNotHideTheOthers(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good.md":   "---\nname: good\ndescription: d\n---\n",
		"other.md":  "---\nname: elsewhere\ndescription: d\n---\n",
		"bad.md":    "no front matter",
		"notes.txt": "no definition at all",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := agent.LoadDefinitions(dir)
	if len(all) != 1 || all[0].Name != "good" {
		t.Errorf("definitions = %+v, want only good", all)
	}
	for _, want := range []string{"bad.md", "other.md", "differs from the file's name"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
}

func FuzzParseDefinition(f *testing.F) {
	f.Add([]byte("---\nname: a\ndescription: d\n---\ntext"))
	f.Add([]byte("---\n---\n"))
	f.Add([]byte("---\nname: &a [*a]\n---\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := agent.ParseDefinition(text)
		if err == nil && (d.Name == "" || d.Description == "" || len(d.Accepts) == 0 || d.MaxTurns <= 0) {
			t.Errorf("accepted an unusable definition: %+v", d)
		}
	})
}
