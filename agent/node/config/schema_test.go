package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"symbio/agent/node/config"
)

// schemaErr returns a function that validates a YAML text against the schema of configuration files.
func schemaErr(t *testing.T) func(text string) error {
	t.Helper()
	s, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) error {
		value := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return err
		}
		return resolved.Validate(value)
	}
}

func TestSchemaAcceptsEachExampleOfReference(t *testing.T) {
	check := schemaErr(t)
	for _, k := range reference(t) {
		if k.Example == "" {
			continue
		}
		text := document(k.Name, k.Example)
		if strings.Contains(k.Name, ".NAME.") {
			text = document(strings.ReplaceAll(k.Name, ".NAME.", ".model:x."), k.Example)
		}
		if err := check(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if err := check(document(k.Name+"x", k.Example)); err == nil && !strings.HasPrefix(k.Type, "mapping of") {
			t.Errorf("the unknown key %sx is accepted", k.Name)
		}
	}
}

// The words and limits in reference.yaml and the checks in the code say the same.
func TestSchemaAndCheckAgreeOnWordsAndNumbers(t *testing.T) {
	check := schemaErr(t)
	agree := func(text string) {
		t.Helper()
		_, _, parsed := config.Parse("f", []byte(text))
		if valid := check(text); (parsed == nil) != (valid == nil) {
			t.Errorf("%s: Parse says %v, the schema %v", text, parsed, valid)
		}
	}
	for _, k := range reference(t) {
		if strings.Contains(k.Name, "[]") {
			continue // needs other keys, too
		}
		if k.Name == "web.search.provider" {
			continue // searxng needs a URL
		}
		name := strings.ReplaceAll(k.Name, ".NAME.", ".openai:x.")
		around := func(v string) string { return v }
		switch {
		case strings.HasPrefix(k.Type, "list of"):
			around = func(v string) string { return "[" + v + "]" }
		case strings.HasPrefix(k.Type, "mapping of names"):
			around = func(v string) string { return "{'openai:x': " + v + "}" }
		}
		if len(k.Values) > 0 {
			for _, v := range append(slices.Clone(k.Values), "nonsense") {
				agree(document(name, around("'"+v+"'")))
			}
		}
		if strings.Contains(k.Type, "integer") || k.Type == "number" {
			for _, v := range []string{"-1", "0", "1", "50", "51", "4194304", "4194305", "many"} {
				agree(document(name, around(v)))
			}
		}
		if k.Type == "boolean" {
			agree(document(name, "7"))
		}
		if k.Type == "duration" {
			for _, v := range []string{"10m", "1h30m", "1.5s", "soon", "10 m", "-1s", "5"} {
				agree(document(name, around(v)))
			}
		}
	}
}

func TestSchemaRefusesMistakesOfOneKey(t *testing.T) {
	check := schemaErr(t)
	for _, text := range []string{
		"node:\n  nmae: x\n", "sandbx: {}\n", "budget:\n  depth: deep\n", "budget: {agents: -1}\n", "limits: {connections: 0}\n", "limits: {message: 1000000000}\n", "limits: {mesage: 1}\n",
		"capabilities: [{name: a, exec: [x], concurrency: -1}]\n", "model: [{a: b}]\n", "prices: {'openai:a': {input: -1}}\n", "prices: {'openai:a': {inputs: 1}}\n",
		"providers: {anthropic: {api_key: x}}\n", "skills: {overrides: {a: sometimes}}\n", "skills: {tools: [skill_run]}\n", "skills: {initial: {max_bytes: 0}}\n",
		"skills: {max_active: 0}\n", "skills: {grant_ttl: day}\n", "security: lax\n", "sandbox: restrictives\n", "sandbox: {network: some}\n",
		"capabilities: [{name: a, exec: [x], sandbox: {network: some}}]\n", "capabilities: [{name: agents.spawn, agents: [x], budget: {tokens: many}}]\n", "skills: {share: yes please}\n",
		"permissions: {allow: [{rule: Read, mach: [x]}]}\n", "approvals: {timeout: soon}\n", "log: [a]\n",
	} {
		if check(text) == nil {
			t.Errorf("%s is accepted", text)
		}
		if _, _, err := config.Parse("f", []byte(text)); err == nil {
			t.Errorf("Parse accepts %s", text)
		}
	}
}
