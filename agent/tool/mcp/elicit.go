package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/tool"
)

const (
	// maxFields limits the fields of a form; people fill in fewer. A form with more is cancelled.
	maxFields = 20
	// maxElicitTries is how often a person is asked until the answer fits the form.
	maxElicitTries = 3
)

// elicitWarning is shown with each question of a server.
const elicitWarning = "The server reads your answer. Give it no passwords or keys."

// field is a field of a form, as its JSON schema describes it.
type field struct {
	Type, Description string
	Enum              []string
	Default           any
	required          bool
}

// elicit puts a form of the server to the person of the agent whose call it belongs to. With protocols before that of
// 2026-07-28 a form does not say so; then it is the latest call that runs. Nothing is filled in but what the person types
// and the server's own defaults. The form is cancelled without a running call or a person, and when the call ends. Of
// several forms one is asked about at a time.
func elicit(ctx context.Context, s *server, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	fields := fieldsOf(r.Params.RequestedSchema)
	call := callOf(ctx, s)
	if call == nil || r.Params.Mode == "url" || len(fields) > maxFields {
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}
	call, end := duringCall(s, ctx, call)
	defer end()
	return askToFill(call, ServerPart(s.Name), r.Params.Message, fields), nil
}

// callOf returns the context of the call that a request of the server belongs to; nil if none runs.
func callOf(ctx context.Context, s *server) context.Context {
	if tool.AgentOf(ctx) != "" {
		return ctx
	}
	return latestCall(s)
}

// duringCall waits until no other request of the server is answered. It returns a context that ends with the call and
// with the request, and a function that the caller must call when the request is answered.
func duringCall(s *server, request, call context.Context) (context.Context, func()) {
	s.asking.Lock()
	call, cancel := context.WithCancel(call)
	stop := context.AfterFunc(request, cancel)
	return call, func() { stop(); cancel(); s.asking.Unlock() }
}

// askToFill asks the person of a call until the answer fits the form.
func askToFill(call context.Context, server, message string, fields map[string]field) *sdk.ElicitResult {
	form := map[string]any{}
	for name, f := range fields {
		form[name] = f.text()
	}
	args, why := map[string]any{"message": tool.Shorten(message, maxDescription), "form": form}, elicitWarning
	for try := 0; try < maxElicitTries && call.Err() == nil; try++ {
		answer := tool.Question(call, server, args, why)
		switch content, err := fill(fields, answer.Reason); {
		case answer.Allow && err == nil:
			return &sdk.ElicitResult{Action: "accept", Content: content}
		case answer.Allow:
			why = "Not sent: " + err.Error() + ". " + elicitWarning
		case answer.By != "":
			return &sdk.ElicitResult{Action: "decline"}
		default: // no person, or no answer in time
			return &sdk.ElicitResult{Action: "cancel"}
		}
	}
	return &sdk.ElicitResult{Action: "cancel"}
}

// fieldsOf reads a schema of flat fields; others have been refused by the SDK.
func fieldsOf(schema any) map[string]field {
	var form struct {
		Properties map[string]field
		Required   []string
	}
	if text, err := json.Marshal(schema); err != nil || json.Unmarshal(text, &form) != nil {
		return nil
	}
	for name, f := range form.Properties {
		f.required = slices.Contains(form.Required, name)
		form.Properties[name] = f
	}
	return form.Properties
}

// text returns a field for people.
func (f field) text() string {
	text := f.Type + map[bool]string{true: ", required"}[f.required]
	if len(f.Enum) > 0 {
		text += ", one of " + strings.Join(f.Enum, ", ")
	}
	if f.Default != nil {
		text += fmt.Sprintf(", default %v", f.Default)
	}
	return tool.Shorten(text+": "+f.Description, maxQuoted)
}

// fill returns the values of a form: of what a person typed, which is the value of the only field, or NAME: VALUE for
// each, separated by semicolons or lines; and the defaults of the other fields. A yes without a text is true for an
// only field that is a boolean.
func fill(fields map[string]field, typed string) (map[string]any, error) {
	values := map[string]any{}
	for name, f := range fields {
		if f.Default != nil {
			values[name] = f.Default
		}
	}
	for _, part := range parts(fields, typed) {
		name, text, _ := strings.Cut(part, ":")
		f, ok := fields[strings.TrimSpace(name)]
		value, err := f.parse(strings.TrimSpace(text))
		if !ok || err != nil {
			return nil, fmt.Errorf("%q does not fit the form", tool.Shorten(part, maxQuoted))
		}
		values[strings.TrimSpace(name)] = value
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name].required && values[name] == nil {
			return nil, fmt.Errorf("%q is missing; answer with NAME: VALUE", tool.Shorten(name, maxQuoted))
		}
	}
	return values, nil
}

// parts splits a typed text into NAME: VALUE.
func parts(fields map[string]field, typed string) []string {
	for name, f := range fields {
		if len(fields) == 1 && (typed != "" || f.Type == "boolean" && f.Default == nil) {
			return []string{name + ":" + typed}
		}
	}
	return strings.FieldsFunc(typed, func(r rune) bool { return r == ';' || r == '\n' })
}

// parse returns a typed text as a value of the field.
func (f field) parse(text string) (any, error) {
	switch f.Type {
	case "boolean":
		return strconv.ParseBool(strings.NewReplacer("yes", "true", "no", "false").Replace(strings.ToLower(text + map[bool]string{true: "yes"}[text == ""])))
	case "integer", "number":
		return strconv.ParseFloat(text, 64)
	}
	if len(f.Enum) > 0 && !slices.Contains(f.Enum, text) {
		return nil, fmt.Errorf("%q is no choice", text)
	}
	return text, nil
}
