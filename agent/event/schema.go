package event

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// fieldsSource has the comments of Fields, which are the descriptions of its keys.
//
//go:embed fields.go
var fieldsSource string

// head has the fields that each event has in JSON.
type head struct {
	Time  time.Time `json:"time" jsonschema:"when it happened"`
	Seq   uint64    `json:"seq" jsonschema:"the number of the event on its node; it grows, also over restarts"`
	Type  string    `json:"type" jsonschema:"what happened; which other fields there are depends on it"`
	Node  string    `json:"node" jsonschema:"the name of the node"`
	Agent string    `json:"agent" jsonschema:"the id of the member that the event is about; empty for the node itself"`
}

// Schema returns the JSON schema of an event as symbio events --json prints it, for scripts. Fields
// that it does not know are allowed: a newer node may have them.
func Schema() (*jsonschema.Schema, error) {
	s, err := jsonschema.For[head](nil)
	if err != nil {
		return nil, err
	}
	fields, err := jsonschema.ForType(reflect.TypeFor[Fields](), &jsonschema.ForOptions{
		TypeSchemas: map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[json.RawMessage](): {}}, // any JSON
	})
	if err != nil {
		return nil, err
	}
	texts := fieldTexts()
	for _, name := range fields.PropertyOrder {
		of, key := fields.Properties[name], strings.ToLower(name)
		of.Description = texts[strings.ReplaceAll(key, "_", "")]
		s.Properties[key], s.PropertyOrder = of, append(s.PropertyOrder, key)
	}
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "An event of a node of symbio"
	open(s)
	return s, nil
}

// open removes the limits on unknown fields from s and all below it.
func open(s *jsonschema.Schema) {
	s.AdditionalProperties = nil
	for _, below := range s.Properties {
		open(below)
	}
	if s.Items != nil {
		open(s.Items)
	}
}

// commentedFields matches a comment and the fields below it.
var commentedFields = regexp.MustCompile(`((?:\t// .*\n)+)((?:\t[A-Z].*\n)+)`)

// fieldTexts returns the comments of the fields of Fields by their name in lower case. A comment
// holds for all fields up to the next blank line or comment.
func fieldTexts() map[string]string {
	_, body, _ := strings.Cut(fieldsSource, "\ntype Fields struct {\n")
	body, _, _ = strings.Cut(body, "\n}\n")
	texts := map[string]string{}
	for _, m := range commentedFields.FindAllStringSubmatch(body+"\n", -1) {
		text := strings.Join(strings.Fields(strings.ReplaceAll(m[1], "\t//", "")), " ")
		for line := range strings.Lines(m[2]) {
			names, _, _ := strings.Cut(strings.ReplaceAll(line, ", ", ","), " ")
			for name := range strings.SplitSeq(names, ",") {
				texts[strings.ToLower(strings.TrimSpace(name))] = text
			}
		}
	}
	return texts
}
