package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Form is a JSON schema that an answer has to fit. It is checked on this side, because many servers do not
// enforce a schema. NewForm makes it; it does not change, and may be used from many goroutines.
type Form struct {
	output   *Output
	resolved *jsonschema.Resolved
	text     bool // strings fit, and are accepted without quotes
}

// NewForm returns the form of a schema. The error says what is wrong with the schema.
func NewForm(o Output) (*Form, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(o.Schema, &s); err != nil {
		return nil, fmt.Errorf("the schema cannot be read: %s", shorten(err.Error()))
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %s", shorten(err.Error()))
	}
	return &Form{output: &o, resolved: resolved, text: s.Type == "string"}, nil
}

// Output returns the schema.
func (f *Form) Output() *Output { return f.output }

// Document returns the JSON document of an answer that fits the form, without a code block around it. Where the
// schema asks for a string, a text that is no JSON is one. The error is a text for the model.
func (f *Form) Document(answer string) (string, error) {
	doc := stripCodeBlock(answer)
	var instance any
	dec := json.NewDecoder(strings.NewReader(doc))
	err := dec.Decode(&instance)
	_, more := dec.Token()
	if f.text && (err != nil || !errors.Is(more, io.EOF)) {
		instance = answer
		quoted, _ := json.Marshal(answer) // a string has a JSON form
		doc, err, more = string(quoted), nil, io.EOF
	}
	switch {
	case errors.Is(err, io.EOF):
		return "", errors.New("there is no JSON in it")
	case err != nil:
		return "", fmt.Errorf("it is not JSON: %s", shorten(err.Error()))
	case !errors.Is(more, io.EOF):
		return "", errors.New("there is more behind the JSON document")
	}
	if err := f.resolved.Validate(instance); err != nil {
		return "", errors.New(shorten(err.Error()))
	}
	return doc, nil
}

// Correction returns the message that asks the model to correct an answer. wrong is the error of Document.
func (f *Form) Correction(wrong error) string {
	return fmt.Sprintf("That does not fit: %v.\nAnswer once more, whole and corrected. %s", wrong, f.output.Instruction())
}

// DecodeOutput reads the document of an answer that fits OutputFor[T] into a T.
func DecodeOutput[T any](doc string) (v T, err error) {
	f, err := outputTypeOf(reflect.TypeFor[T]())
	if err == nil {
		err = f.decode(doc, &v)
	}
	return v, err
}
