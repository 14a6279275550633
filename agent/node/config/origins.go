package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"symbio/internal/security/lazyregexp"
)

// Origins maps each configured key, such as node.name or capabilities.0.exec,
// to the place where it was set: "FILE:LINE" or the argument of Set. A key
// without an entry has its default. It is a map: do not use it from several
// goroutines.
type Origins map[string]string

// Set records that a key was set by something other than a file, such as "flag
// --name".
func (o Origins) Set(key, where string) { o[key] = where }

// index matches the index of an element in a message of Check, as in capabilities[0].
var index = lazyregexp.New(`\[(\d+)\]`)

// locate returns the errors of Check with the file, and the line of the key that each begins with.
func (o Origins) locate(file string, err error) error {
	if all, ok := err.(interface{ Unwrap() []error }); ok && errors.Join(all.Unwrap()...).Error() == err.Error() {
		var located []error
		for _, one := range all.Unwrap() {
			located = append(located, o.locate(file, one))
		}
		return errors.Join(located...)
	}
	key := index().ReplaceAllString(strings.TrimRight(strings.Fields(err.Error())[0], ":"), ".$1")
	if line := o.line(key); line > 0 {
		return fmt.Errorf("%s: line %d: %w", file, line, err)
	}
	return fmt.Errorf("%s: %w", file, err)
}

// line returns the first line of the values of a key of the file, or of the nearest key above it; 0 if there is none.
func (o Origins) line(key string) (first int) {
	for k, at := range o {
		n, err := strconv.Atoi(at[strings.LastIndexByte(at, ':')+1:])
		if err == nil && (k == key || strings.HasPrefix(k, key+".")) && (first == 0 || n < first) {
			first = n
		}
	}
	if above := strings.LastIndexByte(key, '.'); first == 0 && above > 0 {
		return o.line(key[:above])
	}
	return first
}

// read records the line of every value at or below n, whose key is key.
func (o Origins) read(file, key string, n *yaml.Node) {
	if key != "" && n.Kind != yaml.MappingNode { // the keys of a mapping each have an origin of their own
		o[key] = fmt.Sprintf("%s:%d", file, n.Line)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			o.read(file, key, c)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			o.read(file, join(key, n.Content[i].Value), n.Content[i+1])
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			o.read(file, join(key, strconv.Itoa(i)), c)
		}
	}
}

// Value is one value in force and the place where it was set.
type Value struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	From  string `json:"from"`
}

// Values returns every value in force, in the order of the file format. Lists
// of scalars are one value; other lists have one value for each key of each
// element, such as capabilities.0.name.
func (c Config) Values(from Origins) ([]Value, error) {
	var n yaml.Node
	if err := n.Encode(c); err != nil {
		return nil, err
	}
	var all []Value
	err := leaves("", &n, func(key string, leaf *yaml.Node) error {
		var v any
		if err := leaf.Decode(&v); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		all = append(all, Value{key, v, from.Of(key)})
		return nil
	})
	return all, err
}

// Of returns the origin of a key, else the origin of the nearest key above it that
// has one, else "default".
func (o Origins) Of(key string) string {
	for {
		if where, ok := o[key]; ok {
			return where
		}
		i := len(key) - 1
		for i >= 0 && key[i] != '.' {
			i--
		}
		if i < 0 {
			return "default"
		}
		key = key[:i]
	}
}

// leaves calls visit with every value below n, in the order of the document. It
// stops at the first error and returns it.
func leaves(key string, n *yaml.Node, visit func(string, *yaml.Node) error) error {
	switch {
	case n.Kind == yaml.MappingNode && len(n.Content) > 0:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if err := leaves(join(key, n.Content[i].Value), n.Content[i+1], visit); err != nil {
				return err
			}
		}
		return nil
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0 && n.Content[0].Kind != yaml.ScalarNode:
		for i, c := range n.Content {
			if err := leaves(join(key, strconv.Itoa(i)), c, visit); err != nil {
				return err
			}
		}
		return nil
	default:
		return visit(key, n)
	}
}

// String returns the value for one line of output: a string as it is, anything
// else as JSON.
func (v Value) String() string {
	if s, ok := v.Value.(string); ok && s != "" {
		return s
	}
	text, err := json.Marshal(v.Value)
	if err != nil {
		return fmt.Sprint(v.Value)
	}
	return string(text)
}

// join appends name to a key.
func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}
