package community

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"symbio/internal/security/visible"
)

// A schema can come from another node, and the JSON schema library has no limits of its own. A schema that
// refers to itself in place never ends; one that refers to the same part twice at each level takes exponential
// time. Each schema is therefore weighed before it is used: the number of its parts, counting the target of a
// reference at each reference. The time of a check is at most proportional to the weight times the size of the
// value.
const (
	maxWeight = 1 << 13 // some three times what 16 KiB without references can weigh
	maxWork   = 1 << 27 // weight times bytes: well under a second, or 1 MiB by a schema of 128 parts
)

// schema is a compiled JSON schema. A nil schema accepts every value.
type schema struct {
	resolved *jsonschema.Resolved
	weight   int
}

// errTooLargeToCheck means that a value is too large to be checked in bounded time.
var errTooLargeToCheck = errors.New("it is too large to be checked by its schema")

// dialects are the supported versions of JSON schema. Without $schema the newest applies.
var dialects = []string{"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema#"}

// compile parses and weighs a schema. It fetches nothing: it refuses a schema that refers to another document or
// to itself, or that is ambiguous. The panic of the library on a malformed schema is an error.
func compile(text json.RawMessage) (s *schema, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("the schema cannot be read: %v", p)
		}
	}()
	v, err := decode(text, true)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	switch top := v.(type) {
	case bool:
	case map[string]any:
		if named, ok := top["$schema"]; ok && !slices.ContainsFunc(dialects, func(d string) bool { return named == d }) {
			return nil, fmt.Errorf("$schema is %v: known are %s", named, strings.Join(dialects, ", "))
		}
	default:
		return nil, errors.New("a schema is an object, or true or false")
	}
	w := weigher{root: v, known: map[string]int{}}
	weight, err := w.weigh(v, "", false)
	if err != nil {
		return nil, err
	}
	// The library gets what was weighed, not the text, in which it might see something else.
	same, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var parsed jsonschema.Schema
	if err := json.Unmarshal(same, &parsed); err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	resolved, err := parsed.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	return &schema{resolved, weight}, nil
}

// check returns an error if data does not fit, with the place and the fault. errTooLargeToCheck: the check would
// take too long.
func (s *schema) check(data []byte, contentType string) (err error) {
	if s == nil {
		return nil
	}
	if !isJSON(contentType) {
		return fmt.Errorf("it is %s, and has to be JSON", printable(contentType))
	}
	if s.weight*len(data) > maxWork {
		return errTooLargeToCheck
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it cannot be checked by its schema: %v", p)
		}
	}()
	v, err := decode(data, false)
	if err != nil {
		return err
	}
	if err := s.resolved.Validate(v); err != nil {
		return errors.New(shortenSchemaError(err.Error()))
	}
	return nil
}

// isJSON reports whether a content type is JSON; "" is.
func isJSON(contentType string) bool {
	if contentType == "" || contentType == "application/json" {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

// shortenSchemaError shortens the library's message "validating root: validating /properties/n: …" to the
// innermost place and the fault there. It keeps both ends of a message that quotes a large value.
func shortenSchemaError(text string) string {
	place := ""
	for {
		rest, ok := strings.CutPrefix(text, "validating ")
		if !ok {
			break
		}
		at, tail, ok := strings.Cut(rest, ": ")
		if !ok {
			break
		}
		if text = tail; at != "root" {
			place = at + ": "
		}
	}
	const head, tail = 60, 120
	if len(text) > head+tail+len(" … ") {
		text = visible.Prefix(text, head) + " … " + visible.Suffix(text, tail)
	}
	return printable(place) + text
}

// weigher computes the weight of a schema.
type weigher struct {
	root  any
	known map[string]int // by reference; 0 while it is being weighed
}

// dataKeywords are keywords whose values are data, in which "type" can be anything. A property can have such a
// name too, so no check that makes a schema safe may depend on this list.
var dataKeywords = []string{"const", "enum", "default", "examples", "dependentRequired", "dependencies"}

var errTooComplex = fmt.Errorf("the schema has more than %d parts, counting what it refers to each time", maxWeight)

// weigh returns the weight of v and all that is in it. quoted means that v is data.
func (w *weigher) weigh(v any, path string, quoted bool) (int, error) {
	total := 1
	add := func(n int, err error) error {
		if err == nil && total+n > maxWeight {
			err = errTooComplex
		}
		total += n
		return err
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			if err := add(w.weigh(item, path+"/"+strconv.Itoa(i), quoted)); err != nil {
				return 0, err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) { // so that the same one of two faults is reported each time
			item, at := v[key], path+"/"+key
			if err := add(w.weigh(item, at, quoted || slices.Contains(dataKeywords, key))); err != nil {
				return 0, err
			}
			if err := add(w.keyword(key, item, path, at)); err != nil {
				return 0, err
			}
			if key == "type" && !quoted {
				if err := checkTypes(item, at); err != nil {
					return 0, err
				}
			}
		}
	}
	return total, nil
}

// keyword returns the weight of a keyword in addition to its value, or an error if it is not allowed. It ignores
// the case of keys, as encoding/json does.
func (w *weigher) keyword(key string, item any, path, at string) (int, error) {
	text, isText := item.(string)
	switch {
	case isText && strings.EqualFold(key, "$ref"):
		return w.reference(text, at)
	case isText && (strings.EqualFold(key, "$dynamicRef") || strings.EqualFold(key, "$recursiveRef")):
		return 0, fmt.Errorf("%s: only $ref can refer to something", printable(at))
	case isText && path != "" && strings.EqualFold(key, "$id"):
		return 0, fmt.Errorf("%s: a part of a schema cannot have a $id", printable(at))
	case isText && strings.EqualFold(key, "pattern"):
		return patternWeight(text), nil
	case strings.EqualFold(key, "patternProperties"):
		total := 0
		of, _ := item.(map[string]any)
		for pattern := range of {
			total += patternWeight(pattern)
		}
		return total, nil
	case strings.EqualFold(key, "uniqueItems"):
		return 16, nil // each item is read once more, with all that is in it
	}
	return 0, nil
}

// checkTypes refuses an unknown type, which no value could have: probably a typing error.
func checkTypes(item any, at string) error {
	names, ok := item.([]any)
	if !ok {
		names = []any{item}
	}
	for _, n := range names {
		if n, ok := n.(string); ok && !slices.Contains([]string{"null", "boolean", "integer", "number", "string", "array", "object"}, n) {
			return fmt.Errorf("%s: there is no type %q", printable(at), printable(n))
		}
	}
	return nil
}

// reference returns the weight of the target of a $ref.
func (w *weigher) reference(ref, at string) (int, error) {
	if n, ok := w.known[ref]; ok {
		if n == 0 {
			return 0, fmt.Errorf("%s: the schema refers to itself, so that a check might not end", printable(at))
		}
		return n, nil
	}
	target, err := w.find(ref)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", printable(at), err)
	}
	w.known[ref] = 0
	n, err := w.weigh(target, strings.TrimPrefix(ref, "#"), false)
	w.known[ref] = n
	return n, err
}

// find resolves a JSON pointer within the schema.
func (w *weigher) find(ref string) (any, error) {
	u, err := url.Parse(ref)
	if err != nil || !strings.HasPrefix(ref, "#") || u.Fragment != "" && u.Fragment[0] != '/' {
		return nil, fmt.Errorf("$ref %q: only a place in the same schema can be referred to, as #/…; nothing is fetched", printable(ref))
	}
	v := w.root
	if u.Fragment == "" {
		return v, nil
	}
	for _, step := range strings.Split(u.Fragment[1:], "/") {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		var ok bool
		switch in := v.(type) {
		case map[string]any:
			v, ok = in[step]
		case []any:
			i, err := strconv.Atoi(step)
			if ok = err == nil && i >= 0 && i < len(in); ok {
				v = in[i]
			}
		}
		if !ok {
			return nil, fmt.Errorf("$ref %q: there is no such place", printable(ref))
		}
	}
	return v, nil
}

// patternWeight returns the size of the compiled regular expression: x{1000} is short as text, but takes a
// thousand steps for each character.
func patternWeight(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0 // the library says what is wrong
	}
	return regexpWeight(re)
}

// regexpWeight counts the steps of a parsed expression, up to just over maxWeight.
func regexpWeight(re *syntax.Regexp) int {
	total := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		total += regexpWeight(sub)
	}
	if re.Op == syntax.OpRepeat {
		total *= max(re.Min, re.Max, 1)
	}
	return min(total, maxWeight+1)
}
