package main

import (
	"path/filepath"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
	"symbio/skills/format"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"
)

func TestSchemasAcceptFilesOfPages(t *testing.T) {
	t.Parallel()
	schemas := map[string]*jsonschema.Resolved{"config": symbiotest.Schema(t, "config"), "agent": symbiotest.Schema(t, "agent"), "skill": symbiotest.Schema(t, "skill")}
	seen := map[string]int{}
	for path, page := range symbiotest.Pages(t, "../..") {
		for _, b := range symbiotest.BlocksOf(page) {
			name, text := schemaOf(b)
			if name == "" {
				continue
			}
			seen[name]++
			if name != "config" {
				head, _, err := format.SplitFrontMatter([]byte(text))
				if err != nil {
					t.Fatalf("%s:%d: %v", path, b.Line, err)
				}
				text = string(head)
			}
			value := map[string]any{}
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				t.Fatalf("%s:%d: %v", path, b.Line, err)
			}
			if err := schemas[name].Validate(value); err != nil {
				t.Errorf("%s:%d: %v", path, b.Line, err)
			}
		}
	}
	if seen["config"] < 5 || seen["agent"] == 0 || seen["skill"] == 0 {
		t.Errorf("the pages have %v", seen)
	}
}

// schemaOf returns the name of the schema for a block, "" if there is none.
func schemaOf(b symbiotest.Block) (name, text string) {
	file := b.Words["file"]
	switch {
	case filepath.Base(file) == "SKILL.md":
		return "skill", b.Text
	case filepath.Ext(file) == ".md" && strings.HasPrefix(b.Text, "---\n"):
		return "agent", b.Text
	case b.Lang == "yaml" && (file == "" || strings.Contains(b.Text, "\nauthorize:") || strings.HasPrefix(b.Text, "node:")):
		return "config", b.Text
	}
	return "", ""
}
