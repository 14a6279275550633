package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/security/permission"
)

type anyCall struct{}

func (anyCall) Judge(permission.Call) permission.Verdict {
	return permission.Verdict{Action: permission.Allow}
}

// elicited has a server ask with a form during a call, with today's protocol or an older one. It returns what the
// call of the server's tool returned, and what the person was asked; the answers are given in turn.
func elicited(t *testing.T, older bool, form string, answers ...tool.Answer) (result string, asked []tool.Decision) {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "asker"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "a"},
		func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			got, ok := r.Params.InputResponses["color"].(*sdk.ElicitResult)
			if !ok {
				return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"color": &sdk.ElicitParams{Message: "Which color?",
					RequestedSchema: json.RawMessage(form)}}}, nil, nil
			}
			content, err := json.Marshal(got.Content)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: got.Action + " " + string(content)}}}, nil, err
		})
	bubbled(t, Config{}, connectionTo(server, older), func(t *testing.T, ctx context.Context, m *Manager) {
		one, err := m.Tool(ctx, "s", "a")
		if err != nil {
			t.Fatal(err)
		}
		cfg := tool.SetConfig{Guard: anyCall{}, Agent: "ann"}
		if answers != nil {
			cfg.Ask = func(_ context.Context, d tool.Decision) tool.Answer {
				asked = append(asked, d)
				return answers[len(asked)-1]
			}
		}
		result = tool.NewSet(cfg, one).Run(ctx, []llm.ToolCall{{ID: "1", Name: "mcp__s__a", Args: json.RawMessage(`{}`)}})[0].Text
	})
	return result, asked
}

const (
	colorForm = `{"type":"object","properties":{"color":{"type":"string","enum":["red","blue"],"description":"yours"}},"required":["color"]}`
	twoForm   = `{"type":"object","properties":{"size":{"type":"integer"},"gift":{"type":"boolean","default":false},"note":{"type":"string"}},"required":["size"]}`
	yesForm   = `{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"]}`
)

func TestPersonAnswersQuestionOfServer(t *testing.T) {
	typed := func(text string) tool.Answer { return tool.Answer{Allow: true, By: "terminal", Reason: text} }
	for _, c := range []struct {
		name, form string
		answers    []tool.Answer
		want       string
		asked      int
	}{
		{"only field", colorForm, []tool.Answer{typed("blue")}, `accept {"color":"blue"}`, 1},
		{"wrong, then right", colorForm, []tool.Answer{typed("green"), typed("red")}, `accept {"color":"red"}`, 2},
		{"wrong each time", colorForm, []tool.Answer{typed("green"), typed(""), typed("x")}, `cancel null`, 3},
		{"no", colorForm, []tool.Answer{{By: "terminal"}}, `decline null`, 1},
		{"no answer in time", colorForm, []tool.Answer{{Why: "It took too long."}}, `cancel null`, 1},
		{"no person", colorForm, nil, `cancel null`, 0},
		{"several fields", twoForm, []tool.Answer{typed("size: 3; note: by Monday: soon")}, `accept {"gift":false,"note":"by Monday: soon","size":3}`, 1},
		{"several fields as JSON", twoForm, []tool.Answer{typed(`{"size":"3","note":"a; b"}`)}, `accept {"gift":false,"note":"a; b","size":3}`, 1},
		{"no value", twoForm, []tool.Answer{typed("size: 3; note:")}, `accept {"gift":false,"size":3}`, 1},
		{"part of an integer", twoForm, []tool.Answer{typed("size: 3.5"), typed("size: inf"), typed("size: 1e1")}, `accept {"gift":false,"size":10}`, 3},
		{"unknown field", twoForm, []tool.Answer{typed("size: 3; colour: red"), typed("size: 4;gift: yes")}, `accept {"gift":true,"size":4}`, 2},
		{"yes to a boolean", yesForm, []tool.Answer{typed("")}, `accept {"sure":true}`, 1},
		{"typed no to a boolean", yesForm, []tool.Answer{typed("no")}, `accept {"sure":false}`, 1},
		{"yes does not fill a form of several", twoForm, []tool.Answer{typed(""), {By: "terminal"}}, `decline null`, 2},
	} {
		for _, older := range []bool{false, true} {
			got, asked := elicited(t, older, c.form, c.answers...)
			if got != c.want || len(asked) != c.asked {
				t.Errorf("%s, older %t: the server got %q after %d questions", c.name, older, got, len(asked))
			}
			for i, d := range asked {
				if d.Tool != "question of s" || d.Agent != "ann" || d.CallID != "1?" || d.Verdict.Action != permission.Ask ||
					!strings.Contains(d.Verdict.Why, "passwords or keys") || strings.HasPrefix(d.Verdict.Why, "Not sent: ") != (i > 0) {
					t.Errorf("%s, older %t: question %d is %+v", c.name, older, i, d)
				}
			}
		}
	}
	_, asked := elicited(t, true, colorForm, tool.Answer{})
	args, err := json.Marshal(asked[0].Args)
	form := tool.FormOf(asked[0].Tool, args)
	if got := form.Fields["color"].String(); err != nil || got != "string, required, one of red, blue: yours" || form.Message == "" {
		t.Errorf("the person is shown %s: %q, %v", args, got, err)
	}
	if form := tool.FormOf("a_tool", args); form.Fields != nil {
		t.Errorf("the arguments of a call are taken for a form: %v", form)
	}
}

func TestFormWithTooManyFieldsIsCancelled(t *testing.T) {
	var fields []string
	for i := range maxFields + 1 {
		fields = append(fields, fmt.Sprintf(`"f%d":{"type":"string"}`, i))
	}
	for _, form := range []string{strings.Join(fields, ","), `"f":{"type":"string","description":"` + strings.Repeat("x", maxForm) +
		`"},"` + strings.Repeat("n", maxForm) + `":{"type":"string"}`} {
		if got, asked := elicited(t, true, `{"type":"object","properties":{`+form+`}}`, tool.Answer{Allow: true}); got != "cancel null" ||
			asked != nil {
			t.Errorf("got %q after %v", got, asked)
		}
	}
}

func FuzzFill(f *testing.F) {
	for _, form := range []string{colorForm, twoForm, yesForm, `{"properties":{"":{}}}`, `[]`} {
		for _, typed := range []string{"", "red", "size: 3; gift: no", ":::;;\n", `{"size":"3"}`} {
			f.Add(form, typed)
		}
	}
	f.Fuzz(func(t *testing.T, form, typed string) {
		fields := fieldsOf(json.RawMessage(form))
		values, err := fill(fields, typed)
		for name, one := range fields {
			if text := one.String(); !strings.Contains(text, one.Description) {
				t.Errorf("the field is shown as %q, without %q", text, one.Description)
			}
			if _, ok := values[name]; err == nil && one.Required && !ok {
				t.Errorf("%q is missing in %v", name, values)
			}
			if text, ok := values[name].(string); ok && one.Default == nil && one.Type == "string" && len(one.Enum) > 0 &&
				!slices.Contains(one.Enum, text) {
				t.Errorf("%q is no choice", text)
			}
		}
	})
}

// connectionTo returns what connects to a server of the test; an older one does not have the protocol of 2026-07-28.
func connectionTo(server *sdk.Server, older bool) func(context.Context, Server) (*link, error) {
	if older {
		server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
				if method == "server/discover" {
					return nil, errBroken
				}
				return next(ctx, method, r)
			}
		})
	}
	return func(ctx context.Context, _ Server) (*link, error) {
		there, here := sdk.NewInMemoryTransports()
		session, err := server.Connect(ctx, there, nil)
		if err != nil {
			return nil, err
		}
		return &link{transport: here, end: func() { session.Close() }}, nil
	}
}
