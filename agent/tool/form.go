package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Form is the Args of a question (QuestionOf): what is asked, and the fields to fill in by their names.
type Form struct {
	Message string           `json:"message"`
	Fields  map[string]Field `json:"form"`
}

// FormOf returns the form in the arguments of a decision about what. It has no fields if that is not a question: the
// arguments of a call are shown as they are, so that none is hidden.
func FormOf(what string, args json.RawMessage) (f Form) {
	if !strings.HasPrefix(what, QuestionOf) || json.Unmarshal(args, &f) != nil {
		return Form{}
	}
	return f
}

// Field is a field of a form, as its JSON schema describes it.
type Field struct {
	Type        string   `json:"type"`
	Required    bool     `json:"required,omitempty"`
	Enum        []string `json:"enum,omitempty"`
	Default     any      `json:"default,omitempty"`
	Description string   `json:"description,omitempty"`
}

// String returns a field for people. The text is the server's: it must be made safe to be shown.
func (f Field) String() string {
	text := f.Type
	if f.Required {
		text += ", required"
	}
	if len(f.Enum) > 0 {
		text += ", one of " + strings.Join(f.Enum, ", ")
	}
	if f.Default != nil {
		text += fmt.Sprintf(", default %v", f.Default)
	}
	return text + ": " + f.Description
}

// Parse returns a typed text as a value of the field. An empty text is the default, yes for a boolean without one, and
// otherwise nothing, which is an error if the field is required.
func (f Field) Parse(text string) (any, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "" && f.Default != nil:
		return f.Default, nil
	case f.Type == "boolean":
		if yes := text == "" || slices.Contains([]string{"yes", "y", "true"}, strings.ToLower(text)); yes ||
			slices.Contains([]string{"no", "n", "false"}, strings.ToLower(text)) {
			return yes, nil
		}
		return nil, fmt.Errorf("%q is neither yes nor no", text)
	case text == "" && f.Required:
		return nil, errors.New("it is required")
	case text == "":
		return nil, nil
	case f.Type == "integer", f.Type == "number":
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || f.Type == "integer" && n != math.Trunc(n) {
			return nil, fmt.Errorf("%q is no %s", text, f.Type)
		}
		return n, nil
	case len(f.Enum) > 0 && !slices.Contains(f.Enum, text):
		return nil, fmt.Errorf("%q is none of %s", text, strings.Join(f.Enum, ", "))
	}
	return text, nil
}
