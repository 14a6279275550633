package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"symbio/skills/format"
)

// schema returns what symbio schema prints for the name.
func (r *reading) schema(name string) *jsonschema.Resolved {
	r.t.Helper()
	text, err := r.shell("symbio schema " + name).Output()
	if err != nil {
		r.t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		r.t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return resolved
}

func TestSchemasAcceptFilesOfPages(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	schemas := map[string]*jsonschema.Resolved{"config": r.schema("config"), "agent": r.schema("agent"), "skill": r.schema("skill")}
	seen := map[string]int{}
	for path, page := range pages(t) {
		for _, b := range blocksOf(page) {
			name, text := schemaOf(b)
			if name == "" {
				continue
			}
			seen[name]++
			if name != "config" {
				head, _, err := format.SplitFrontMatter([]byte(text))
				if err != nil {
					t.Fatalf("%s:%d: %v", path, b.line, err)
				}
				text = string(head)
			}
			value := map[string]any{}
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				t.Fatalf("%s:%d: %v", path, b.line, err)
			}
			if err := schemas[name].Validate(value); err != nil {
				t.Errorf("%s:%d: %v", path, b.line, err)
			}
		}
	}
	if seen["config"] < 5 || seen["agent"] == 0 || seen["skill"] == 0 {
		t.Errorf("the pages have %v", seen)
	}
}

// schemaOf returns the name of the schema for a block, "" if there is none.
func schemaOf(b block) (name, text string) {
	file := b.words["file"]
	switch {
	case filepath.Base(file) == "SKILL.md":
		return "skill", b.text
	case filepath.Ext(file) == ".md" && strings.HasPrefix(b.text, "---\n"):
		return "agent", b.text
	case b.lang == "yaml" && (file == "" || strings.Contains(b.text, "\nauthorize:") || strings.HasPrefix(b.text, "node:")):
		return "config", b.text
	}
	return "", ""
}

func TestSchemaOfEventsAcceptsEventsOfTour(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	events := r.schema("events")
	text, err := r.shell("symbio demo --json").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	types := map[string]bool{}
	for _, line := range lines[:len(lines)-1] { // the last one is the result of the tour
		var value map[string]any
		if err := json.Unmarshal(line, &value); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if err := events.Validate(value); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		kind, _ := value["type"].(string)
		types[kind] = true
	}
	if len(types) < 10 {
		t.Errorf("the tour has only events %v", types)
	}
}
