package definition_test

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"symbio/agent/definition"
	"symbio/skills/format"
)

// keysWithoutValue are the definitions of these tests that only Parse accepts: an editor should see that a value is missing.
var keysWithoutValue = map[string]bool{"a number for text": true, "tools unsaid": true, "keys unsaid": true}

// leftToParse are the wrong definitions of these tests that the schema accepts, because it does not know the names of
// this node, the syntax of rules, the size of files or what follows the first document.
var leftToParse = map[string]bool{
	"too large": true, "a model": true, "one of several models": true, "a tool": true, "a star among others": true, "a preset": true, "a tool for a preset": true,
	"MCP without a tool": true, "MCP with a star inside": true, "an MCP server": true, "a skill": true, "bad rule": true, "a denied tool": true, "a denied list": true, "an example": true, "a guardrail rule": true, "a guardrail example": true,
	"a home directory": true, "too large a size": true, "two documents": true,
}

// resolve returns the schema of definitions. It takes longer than the validation of a definition.
var resolve = sync.OnceValues(func() (*jsonschema.Resolved, error) {
	s, err := definition.Schema()
	if err != nil {
		return nil, err
	}
	return s.Resolve(nil)
})

// validate returns why the schema refuses the front matter of a definition, or the error of YAML.
func validate(t *testing.T, text []byte) error {
	t.Helper()
	resolved, err := resolve()
	if err != nil {
		t.Fatal(err)
	}
	head, _, err := format.SplitFrontMatter(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
	if err != nil {
		return err
	}
	var value any
	if err := yaml.Unmarshal(head, &value); err != nil {
		return err
	}
	return resolved.Validate(value)
}

func TestSchemaAcceptsExamplesOfDesigns(t *testing.T) {
	files, err := filepath.Glob("testdata/examples/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no examples", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
