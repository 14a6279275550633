package config_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"symbio/agent/node/config"
	"symbio/agent/tool/security"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

func reference(t *testing.T) []config.Key {
	t.Helper()
	keys, err := config.Reference()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestReferenceHasEveryKey(t *testing.T) {
	described := map[string]bool{}
	for _, k := range reference(t) {
		described[k.Name] = true
		if k.Type != "mapping" && k.Example == "" {
			t.Errorf("%s has no example", k.Name)
		}
		if k.Type != "mapping" && k.Default == "" && k.Example == "" {
			t.Errorf("%s has no default", k.Name)
		}
	}
	// The values of `symbio config` come from the encoder, not from the walk over the types: the two must agree.
	values, err := config.Default().Values(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if name := strings.Replace(v.Key, ".0.", "[].", 1); !described[name] {
			t.Errorf("the key %s is not described", name)
		}
	}
}

// maxKeys is how many keys of the configuration have a value of their own. It only becomes smaller: each key is a question to the
// person that sets up a node.
const maxKeys = 124

func TestKeysBecomeFewer(t *testing.T) {
	n := 0
	for _, k := range reference(t) {
		if k.Type != "mapping" {
			n++
		}
	}
	if n != maxKeys {
		t.Errorf("%d keys, and maxKeys is %d: it has to be the number of keys, and only becomes smaller", n, maxKeys)
	}
}

func TestReferenceNamesThePresets(t *testing.T) {
	names := map[string][]string{"security": security.Names(), "permissions.preset": permission.PresetNames(), "sandbox.preset": sandbox.Presets()}
	for _, k := range reference(t) {
		want, ok := names[k.Name]
		if !ok {
			continue
		}
		delete(names, k.Name)
		got := slices.DeleteFunc(slices.Clone(k.Values), func(v string) bool { return slices.Contains(permission.PresetSpellings(), v) })
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: the values are %q, and the presets %q", k.Name, got, want)
		}
		for _, name := range want {
			if !strings.Contains(k.Text, name) {
				t.Errorf("%s: the text does not name %s", k.Name, name)
			}
		}
	}
	for name := range names {
		t.Errorf("there is no key %s", name)
	}
}

func TestReferenceExamplesAreValid(t *testing.T) {
	for _, k := range reference(t) {
		if k.Example == "" {
			continue
		}
		text := document(k.Name, k.Example)
		dec := yaml.NewDecoder(strings.NewReader(text))
		dec.KnownFields(true)
		c := config.Default()
		if err := dec.Decode(&c); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if strings.Contains(k.Name, "[]") || k.Name == "model" || strings.HasPrefix(k.Name, "skills.registry.") { // valid only with other keys, or a real name
			continue
		}
		if _, _, err := config.Parse("f", []byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// document returns a configuration file in which the key has the value.
func document(key, value string) string {
	parts := strings.Split(key, ".")
	for i := len(parts) - 1; i >= 0; i-- {
		if name, list := strings.CutSuffix(parts[i], "[]"); list {
			value = fmt.Sprintf("{%s: [%s]}", name, value)
		} else {
			value = fmt.Sprintf("{%s: %s}", name, value)
		}
	}
	return value
}

func TestReferenceFits80Columns(t *testing.T) {
	var b bytes.Buffer
	if err := config.WriteReference(&b, reference(t)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if want := "- `approvals.timeout` (duration, default 10m): "; !strings.Contains(b.String(), want) {
		t.Errorf("no line begins with %q", want)
	}
}

func TestRenamedKeyIsAnErrorWithTheNewName(t *testing.T) {
	for text, want := range map[string]string{} {
		if _, _, err := config.Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
