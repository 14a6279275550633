package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/tool"
)

const (
	// maxFields limits the fields of a form, and maxForm its size in bytes; people fill in less. A larger one is cancelled.
	maxFields = 20
	maxForm   = 16 << 10
	// maxElicitTries is how often a person is asked until the answer fits the form.
	maxElicitTries = 3
)

// elicitWarning is shown with each question of a server.
const elicitWarning = "The server reads your answer. Give it no passwords or keys."

// elicit puts a form of the server to the person of the agent whose call it belongs to. With protocols before the one of
// 2026-07-28 a form does not say so; then it is the latest call that runs. Nothing is filled in but what the person types
// and the server's own defaults. The form is cancelled without a running call or a person, and when the call ends. Of
// several forms one is asked about at a time.
func (s *server) elicit(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	fields := fieldsOf(r.Params.RequestedSchema)
	call := s.calls.find(ctx)
	if data, err := json.Marshal(fields); err != nil || call == nil || r.Params.Mode == "url" || len(fields) > maxFields || len(data) > maxForm {
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}
	call, end := s.calls.beginAnswer(ctx, call)
	defer end()
	return askToFill(call, ServerPart(s.entry.Name), r.Params.Message, fields), nil
}

// askToFill asks the person of a call until the answer fits the form.
func askToFill(call context.Context, server, message string, fields map[string]tool.Field) *sdk.ElicitResult {
	args, why := map[string]any{"message": tool.Shorten(message, maxDescription), "form": fields}, elicitWarning
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
func fieldsOf(schema any) map[string]tool.Field {
	var form struct {
		Properties map[string]tool.Field
		Required   []string
	}
	if text, err := json.Marshal(schema); err != nil || json.Unmarshal(text, &form) != nil {
		return nil
	}
	for name, f := range form.Properties {
		f.Required, f.Description = slices.Contains(form.Required, name), tool.Shorten(f.Description, maxQuoted)
		form.Properties[name] = f
	}
	return form.Properties
}

// fill returns the values of a form from the text of a person, which is the value of the only field, or NAME: VALUE for
// each, separated by semicolons or lines or as a JSON object; and the defaults of the other fields. A yes without a text is true for an
// only field that is a boolean.
func fill(fields map[string]tool.Field, typed string) (map[string]any, error) {
	values := map[string]any{}
	for name, f := range fields {
		if f.Default != nil {
			values[name] = f.Default
		}
	}
	for _, part := range parts(fields, typed) {
		name, text, _ := strings.Cut(part, ":")
		f, ok := fields[strings.TrimSpace(name)]
		value, err := f.Parse(text)
		if !ok || err != nil {
			return nil, fmt.Errorf("%q does not fit the form", tool.Shorten(part, maxQuoted))
		}
		if value != nil {
			values[strings.TrimSpace(name)] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name].Required && values[name] == nil {
			return nil, fmt.Errorf("%q is missing; answer with NAME: VALUE", tool.Shorten(name, maxQuoted))
		}
	}
	return values, nil
}

// parts splits a typed text into NAME: VALUE.
func parts(fields map[string]tool.Field, typed string) (all []string) {
	for name, f := range fields {
		if len(fields) == 1 && (typed != "" || f.Type == "boolean" && f.Default == nil) {
			return []string{name + ":" + typed}
		}
	}
	var values map[string]string // of a terminal that asks for one after the other
	if json.Unmarshal([]byte(typed), &values) != nil {
		return strings.FieldsFunc(typed, func(r rune) bool { return r == ';' || r == '\n' })
	}
	for name, text := range values {
		all = append(all, name+":"+text)
	}
	return all
}
