package config

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Key describes one key of the configuration file.
type Key struct {
	Name    string `json:"key"` // such as limits.message, capabilities[].exec or prices.NAME.input
	Type    string `json:"type"`
	Default string `json:"default,omitempty"` // "" for mappings, whose keys have defaults of their own
	Unit    string `json:"unit,omitempty"`
	Example string `json:"example,omitempty"` // the value in YAML
	Text    string `json:"text"`
	// Values are all values that the key, or each item of its list or mapping,
	// may have; nil = not bounded by a list.
	Values []string `json:"values,omitempty"`
	// Above is what a number has to be above; nil = at least 0. Most is the
	// largest number; nil = no limit.
	Above *float64 `json:"above,omitempty"`
	Most  *float64 `json:"most,omitempty"`
}

// description is the part of a Key that the code does not know.
type description struct {
	Text, Example, Unit string
	// Default says what an absent or zero value means. It is for keys whose
	// default in the code is zero.
	Default string
	// Values, Above and Most are as in Key. Above of a mapping holds for all
	// numbers below it.
	Values      []string
	Above, Most *float64
}

// descriptions is the text of reference.yaml: a mapping of the names of keys to descriptions.
//
//go:embed reference.yaml
var descriptions []byte

// Reference returns all keys in the order of the file format. Names, types and
// defaults come from the types that the decoder fills and from Default, the
// rest from reference.yaml. It returns an error if the two do not have the same
// keys.
func Reference() ([]Key, error) {
	r := reference{described: map[string]description{}}
	dec := yaml.NewDecoder(strings.NewReader(string(descriptions)))
	dec.KnownFields(true)
	if err := dec.Decode(&r.described); err != nil {
		return nil, fmt.Errorf("reference.yaml: %w", err)
	}
	r.addFields("", nil, reflect.ValueOf(Default()))
	for name := range r.described {
		r.wrong = append(r.wrong, fmt.Errorf("reference.yaml: there is no key %s", name))
	}
	return r.keys, errors.Join(r.wrong...)
}

// reference collects the keys. A description is removed from described when its
// key is found.
type reference struct {
	keys      []Key
	described map[string]description
	wrong     []error
}

// addFields adds the fields of a struct; prefix is the name of its key, above the
// limit of its numbers.
func (r *reference) addFields(prefix string, above *float64, of reflect.Value) {
	for field, v := range of.Fields() {
		name, option, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if option == "inline" {
			r.addFields(prefix, above, v)
			continue
		}
		r.add(join(prefix, name), above, v)
	}
}

// add adds a key, and the keys below it. A pointer to a mapping, such as
// capabilities[].sandbox, has the keys of a mapping that is described
// elsewhere.
func (r *reference) add(name string, above *float64, v reflect.Value) {
	d, ok := r.described[name]
	if !ok || d.Text == "" {
		r.wrong = append(r.wrong, fmt.Errorf("reference.yaml: the key %s has no text", name))
	}
	delete(r.described, name)
	k := Key{Name: name, Type: typeName(v.Type()), Default: defaultOf(v), Unit: d.Unit, Example: d.Example, Text: d.Text, Values: d.Values, Most: d.Most}
	if d.Above != nil {
		above = d.Above
	}
	if t := strings.TrimPrefix(k.Type, "mapping of names to "); above != nil && (t == "number" || strings.HasPrefix(t, "integer")) {
		k.Above = above
	}
	if d.Default != "" {
		if !v.IsZero() {
			r.wrong = append(r.wrong, fmt.Errorf("reference.yaml: the default of %s is %s", name, k.Default))
		}
		k.Default = d.Default
	}
	r.keys = append(r.keys, k)
	switch t := v.Type(); {
	case isMapping(t):
		r.addFields(name, above, v)
	case t.Kind() == reflect.Slice && isMapping(t.Elem()):
		r.addFields(name+"[]", above, reflect.Zero(t.Elem()))
	case t.Kind() == reflect.Map && isMapping(t.Elem()):
		r.addFields(name+".NAME", above, reflect.Zero(t.Elem()))
	}
}

// isMapping reports whether values of t are mappings in the file. Types that
// decode themselves are not, but for Sandbox, which may be a word, too.
func isMapping(t reflect.Type) bool {
	return t == reflect.TypeFor[Sandbox]() || t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]())
}

// typeName returns the name of a type in the words of the file format.
func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Models]():
		return "string or list of strings"
	case reflect.TypeFor[Share]():
		return "boolean or list of strings"
	case reflect.TypeFor[Sandbox]():
		return "string or mapping"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list of " + typeName(t.Elem()) + "s"
	case reflect.Map:
		return "mapping of names to " + typeName(t.Elem()) + "s"
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Interface:
		return "JSON schema"
	case reflect.Struct:
		if !isMapping(t) {
			return "rule"
		}
		return "mapping"
	}
	if t.ConvertibleTo(reflect.TypeFor[float64]()) && !reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()) {
		return "integer"
	}
	return "string"
}

// defaultOf returns a value of Default as the file would have it, "" for a
// mapping.
func defaultOf(v reflect.Value) string {
	switch {
	case isMapping(v.Type()), v.Kind() == reflect.Pointer && isMapping(v.Type().Elem()):
		return ""
	case v.Kind() == reflect.Bool, v.CanInt(), v.CanFloat():
		text := fmt.Sprint(v.Interface())
		if _, ok := v.Interface().(time.Duration); ok { // 10m, not 10m0s
			text = strings.Replace(strings.Replace(text, "m0s", "m", 1), "h0m", "h", 1)
		}
		return text
	case v.IsZero():
		return "none"
	case v.Kind() == reflect.String:
		return v.String()
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return fmt.Sprint(v.Interface())
	}
	return string(text)
}

// WriteReference writes the keys as text of at most 80 columns, which is
// Markdown, too: a section for each key at the top level, and a list of the
// keys below it.
func WriteReference(w io.Writer, keys []Key) error {
	var b strings.Builder
	for i, k := range keys {
		if !strings.ContainsAny(k.Name, ".[") {
			fmt.Fprintf(&b, "%s## %s\n", strings.Repeat("\n", min(i, 1)), k.Name)
		}
		head := slices.DeleteFunc([]string{k.Type, k.Unit, ""}, func(s string) bool { return s == "" })
		if k.Default != "" {
			head = append(head, "default "+k.Default)
		}
		text := fmt.Sprintf("- `%s` (%s): %s", k.Name, strings.Join(head, ", "), k.Text)
		if k.Example != "" {
			text += fmt.Sprintf(" Example: `%s`.", k.Example)
		}
		wrap(&b, text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap writes the words of text in lines of at most 80 columns. The lines after
// the first are indented.
func wrap(b *strings.Builder, text string) {
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch n := len([]rune(word)); {
		case column == 0:
			column = n
		case column+1+n > 80:
			b.WriteString("\n  ")
			column = 2 + n
		default:
			b.WriteByte(' ')
			column += 1 + n
		}
		b.WriteString(word)
	}
	b.WriteByte('\n')
}
