package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	doc, instance, err := readAnswer(answer)
	if f.text && err != nil {
		doc, instance, err = quote(answer), answer, nil
	}
	if err != nil {
		return "", err
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

// AsJSON returns an answer as JSON: its JSON document without a code block around it, else the whole answer as a
// JSON string.
func AsJSON(answer string) string {
	if doc, _, err := readAnswer(answer); err == nil {
		return doc
	}
	return quote(answer)
}

// readAnswer returns the JSON document that an answer is, without a code block around it, and its value. The error
// is a text for the model.
func readAnswer(answer string) (doc string, instance any, err error) {
	doc = stripCodeBlock(answer)
	dec := json.NewDecoder(strings.NewReader(doc))
	err = dec.Decode(&instance)
	_, more := dec.Token()
	switch {
	case errors.Is(err, io.EOF):
		return "", nil, errors.New("there is no JSON in it")
	case err != nil:
		return "", nil, fmt.Errorf("it is not JSON: %s", shorten(err.Error()))
	case !errors.Is(more, io.EOF):
		return "", nil, errors.New("there is more behind the JSON document")
	}
	return doc, instance, nil
}

// quote returns a text as a JSON string.
func quote(text string) string {
	quoted, _ := json.Marshal(text) // a string has a JSON form
	return string(quoted)
}

// stripCodeBlock returns an answer without the Markdown code block that many models put around JSON.
func stripCodeBlock(text string) string {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		if inner, ok = strings.CutSuffix(inner, "```"); ok {
			_, inner, _ = strings.Cut(inner, "\n")
			return strings.TrimSpace(inner)
		}
	}
	return text
}
