package scripted

import (
	"fmt"
	"strings"

	"symbio/internal/security/lazyregexp"
)

// placeholder is a name between {{ and }}.
var placeholder = lazyregexp.New(`\{\{(.*?)\}\}`)

// placeholderName is the name in a placeholder.
func placeholderName(text string) string { return strings.TrimSpace(text[2 : len(text)-2]) }

// checkPlaceholders returns an error that names the first placeholder in text that is not known.
func checkPlaceholders(text string, known map[string]bool) error {
	for _, p := range placeholder().FindAllString(text, -1) {
		if !known[placeholderName(p)] {
			return fmt.Errorf("%s is no placeholder: write {{user}}, {{system}}, {{turn}}, {{result}}, or the name of a group in this turn's match", p)
		}
	}
	return nil
}

// fill replaces the placeholders in v: in a text, or in all strings of a list or a map, whose keys
// stay as they are.
func fill(v any, values map[string]string) any {
	switch v := v.(type) {
	case string:
		return placeholder().ReplaceAllStringFunc(v, func(p string) string { return values[placeholderName(p)] })
	case []any:
		filled := make([]any, len(v))
		for i := range v {
			filled[i] = fill(v[i], values)
		}
		return filled
	case map[string]any:
		filled := make(map[string]any, len(v))
		for key, value := range v {
			filled[key] = fill(value, values)
		}
		return filled
	}
	return v
}
