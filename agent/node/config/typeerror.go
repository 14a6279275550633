package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"symbio/internal/security/lazyregexp"
)

// typeError matches the error of a YAML decoder about the type of a value.
var typeError = lazyregexp.New("^line (\\d+): cannot unmarshal (!!\\w+)(?: `((?s:.*))`)? into (\\S+)$")

// wanted says for people what a value of a Go type is.
var wanted = map[string]string{
	"bool": "true or false", "int": "a whole number", "int64": "a whole number", "float64": "a number", "string": "text", "time.Duration": "how long, such as 30s or 5m",
}

// DecodeError is PlainError with the key of each value of a wrong type, and the type it must have. text is
// the file.
func DecodeError(text []byte, err error) string {
	var typed *yaml.TypeError
	var doc yaml.Node
	if !errors.As(err, &typed) || yaml.Unmarshal(text, &doc) != nil {
		return PlainError(err)
	}
	named := &yaml.TypeError{}
	for _, one := range typed.Errors {
		if m := typeError().FindStringSubmatch(one); m != nil && !presetOnly().MatchString(one) {
			if key := keyAt(&doc, "", m); key != "" {
				one = fmt.Sprintf("line %s: %s has to be %s", m[1], key, wantedOf(m[4]))
				if m[3] != "" {
					one += fmt.Sprintf(", not %q", m[3])
				}
			}
		}
		named.Errors = append(named.Errors, one)
	}
	return PlainError(named)
}

// wantedOf says what a value of a Go type is.
func wantedOf(goType string) string {
	if w := wanted[goType]; w != "" {
		return w
	}
	if strings.HasPrefix(goType, "[]") {
		return "a list"
	}
	return "a mapping of keys"
}

// keyAt returns the key of the value at or below n that is meant by a match of typeError; "" if none is.
func keyAt(n *yaml.Node, key string, m []string) string {
	value := strings.TrimSuffix(m[3], "...")
	if key != "" && strconv.Itoa(n.Line) == m[1] && n.ShortTag() == m[2] && strings.HasPrefix(n.Value, value) {
		return key
	}
	for i, c := range n.Content {
		at := key
		switch {
		case n.Kind == yaml.MappingNode && i%2 == 0:
			continue
		case n.Kind == yaml.MappingNode:
			at = join(key, n.Content[i-1].Value)
		case n.Kind == yaml.SequenceNode:
			at = join(key, strconv.Itoa(i))
		}
		if found := keyAt(c, at, m); found != "" {
			return found
		}
	}
	return ""
}
