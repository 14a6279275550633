package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// args are the arguments of a call: a mapping whose strings are templates, or one template that
// renders a JSON object.
type args struct {
	node  *yaml.Node
	whole source
	value value
}

// value is one value inside args.
type value struct {
	kind   valueKind
	fixed  any    // what a fixedValue is
	src    source // what a textValue or jsonValue renders from
	object []field
	list   []value
}

type valueKind int

const (
	fixedValue valueKind = iota // not a template
	textValue                   // a template that renders a string
	jsonValue                   // a template that renders JSON
	objectValue
	listValue
)

type field struct {
	key   string
	value value
}

func (a *args) UnmarshalYAML(n *yaml.Node) error {
	a.node = n
	switch n.Kind {
	case yaml.MappingNode:
		return nil
	case yaml.ScalarNode:
		return a.whole.UnmarshalYAML(n)
	}
	return fmt.Errorf("line %d: args is a mapping, or a template that renders a JSON object", n.Line)
}

func (a *args) present() bool { return a.node != nil }

func (a *args) compile(c *compiler, name string) (err error) {
	if !a.present() {
		return nil
	}
	if a.whole.present() {
		return c.template(&a.whole, name)
	}
	a.value, err = c.value(a.node, name)
	return err
}

// value compiles one YAML value.
func (c *compiler) value(n *yaml.Node, name string) (value, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return c.scalar(n, name)
	case yaml.SequenceNode:
		v := value{kind: listValue}
		for i, item := range n.Content {
			e, err := c.value(item, fmt.Sprintf("%s[%d]", name, i))
			if err != nil {
				return v, err
			}
			v.list = append(v.list, e)
		}
		return v, nil
	case yaml.MappingNode:
		v := value{kind: objectValue}
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			switch {
			case k.Kind != yaml.ScalarNode:
				return v, fmt.Errorf("line %d: a template must stand in quotes", k.Line)
			case k.ShortTag() == "!!merge":
				return v, fmt.Errorf("line %d: args cannot be merged", k.Line)
			case seen[k.Value]:
				return v, fmt.Errorf("line %d: %q is there twice", k.Line, k.Value)
			}
			seen[k.Value] = true
			e, err := c.value(n.Content[i+1], name+"."+k.Value)
			if err != nil {
				return v, err
			}
			v.object = append(v.object, field{k.Value, e})
		}
		return v, nil
	}
	return value{}, fmt.Errorf("line %d: args cannot have anchors or aliases", n.Line)
}

func (c *compiler) scalar(n *yaml.Node, name string) (value, error) {
	src := source{text: n.Value, line: n.Line}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		err := c.template(&src, name)
		return value{kind: textValue, src: src}, err
	case "!json":
		err := c.template(&src, name)
		return value{kind: jsonValue, src: src}, err
	case "!!null", "!!bool", "!!int", "!!float":
		var fixed any
		if err := n.Decode(&fixed); err != nil {
			return value{}, fmt.Errorf("line %d: %w", n.Line, err)
		}
		if _, err := json.Marshal(fixed); err != nil {
			return value{}, fmt.Errorf("line %d: %s is not a JSON value", n.Line, n.Value)
		}
		return value{fixed: fixed}, nil
	}
	return value{}, fmt.Errorf("line %d: unknown tag %s", n.Line, n.Tag)
}

// render writes the arguments as a JSON object.
func (a *args) render(r *run) (json.RawMessage, error) {
	if !a.present() {
		return json.RawMessage("{}"), nil
	}
	var b bytes.Buffer
	if a.whole.present() {
		text, err := r.render(&a.whole)
		if err != nil {
			return nil, err
		}
		if err := compact(&b, text); err != nil {
			return nil, fmt.Errorf("%s: %w", a.whole.name, err)
		}
		if b.Bytes()[0] != '{' {
			return nil, fmt.Errorf("%s: want a JSON object, got %s", a.whole.name, quote(b.String()))
		}
		return b.Bytes(), nil
	}
	if err := a.value.render(r, &b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (v *value) render(r *run, b *bytes.Buffer) error {
	switch v.kind {
	case textValue:
		text, err := r.render(&v.src)
		if err != nil {
			return err
		}
		return encode(b, text)
	case jsonValue:
		text, err := r.render(&v.src)
		if err != nil {
			return err
		}
		if err := compact(b, text); err != nil {
			return fmt.Errorf("%s: %w", v.src.name, err)
		}
		return nil
	case listValue:
		b.WriteByte('[')
		for i := range v.list {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := v.list[i].render(r, b); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	case objectValue:
		b.WriteByte('{')
		for i := range v.object {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := encode(b, v.object[i].key); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := v.object[i].value.render(r, b); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	}
	return encode(b, v.fixed)
}

// encode writes v as JSON, < > and & as they are: a model does not write them as escapes either.
func encode(b *bytes.Buffer, v any) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the encoder's line feed
	return nil
}

// compact appends text to b if it is JSON.
func compact(b *bytes.Buffer, text string) error {
	if err := json.Compact(b, []byte(text)); err != nil {
		return fmt.Errorf("rendered text is not JSON: %w: %s", err, quote(text))
	}
	return nil
}
