package config

import (
	"encoding/json"
	"fmt"
	"strconv"

	"gopkg.in/yaml.v3"
)

// Origins says of each configured key, such as node.name or capabilities.0.exec, where it was set.
// A key that is not there has its default.
type Origins map[string]string

// Set notes that a key was set by something else than a file, such as "flag --name".
func (o Origins) Set(key, where string) { o[key] = where }

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

// Value is one value in force.
type Value struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	From  string `json:"from"`
}

// Values lists every value in force in the order of the file format, with where it came from.
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

// Of is the origin of a key, or of the nearest key above it that has one.
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

// String is the value as a line of output shows it.
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

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}
