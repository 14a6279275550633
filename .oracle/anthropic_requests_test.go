package oracle_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/anthropic"
	"symbio/internal/agent/llm/wire"
)

// adaptiveModel is a model that is asked for an effort, budgetModel one that is asked for a number of
// tokens.
const (
	adaptiveModel = "claude-opus-5"
	budgetModel   = "claude-haiku-4-5"
)

var picture = []byte("\x89PNG\r\n\x1a\n rest")

// conversations are requests of all kinds.
func conversations() map[string]llm.Request {
	schema := json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`)
	user := func(text string) llm.Message { return llm.Message{Role: llm.User, Text: text} }
	said := func(text string, calls ...llm.ToolCall) llm.Message {
		return llm.Message{Role: llm.Assistant, Text: text, Calls: calls}
	}
	call := func(id string) llm.ToolCall { return llm.ToolCall{ID: id, Name: "A", Args: json.RawMessage(`{"a":1}`)} }
	results := func(list ...llm.ToolResult) llm.Message { return llm.Message{Role: llm.Tool, Results: list} }
	thinking := func(m llm.Message, blocks ...llm.Thinking) llm.Message { m.Thinking = blocks; return m }
	own := func(text, signature, sealed string, at, calls int) llm.Thinking {
		return llm.Thinking{Model: "own", Text: text, Signature: signature, Sealed: sealed, AfterText: at, AfterCalls: calls}
	}
	images := []llm.Image{{Type: "image/png", Data: picture}}
	hi, ok, bad := user("hi"), llm.ToolResult{CallID: "1", Name: "A", Text: "ok"}, llm.ToolResult{CallID: "2", Name: "A", Text: "bad", IsError: true}
	seen := llm.ToolResult{CallID: "1", Name: "A", Text: "see", Images: images}
	tools := []llm.ToolSpec{{Name: "A", Description: "does a", Schema: schema}, {Name: "B"}}
	ask := func(messages ...llm.Message) llm.Request { return llm.Request{Messages: messages} }
	with := func(r llm.Request, change func(*llm.Request)) llm.Request { change(&r); return r }
	think := func(r llm.Request) llm.Request { r.Thinking = 2000; return r }
	tooled := func(r llm.Request) llm.Request { r.System, r.Tools = "be brief", tools; return r }
	long := ask(hi)
	for range 20 {
		long.Messages = append(long.Messages, said("so", call("1"), call("2")), results(ok, bad))
	}
	return map[string]llm.Request{
		"text": ask(hi), "two turns": ask(hi, said("yes"), user("and?")), "system": with(ask(hi), func(r *llm.Request) { r.System = "be brief <now>" }),
		"several turns": ask(hi, said("a"), user("b"), said("c"), user("d"), said("e"), user("f")),
		"tools":         tooled(ask(hi)), "tools without a system prompt": with(ask(hi), func(r *llm.Request) { r.Tools = tools }),
		"call": tooled(ask(hi, said("", call("1")), results(ok))), "text and call": tooled(ask(hi, said("wait", call("1")), results(ok))),
		"parallel calls": tooled(ask(hi, said("", call("1"), call("2")), results(ok, bad))), "error result": tooled(ask(hi, said("", call("2")), results(bad))),
		"empty result": tooled(ask(hi, said("", call("1")), results(llm.ToolResult{CallID: "1"}))), "call without arguments": tooled(ask(hi, said("", llm.ToolCall{ID: "1", Name: "B"}), results(ok))),
		"text behind results": tooled(ask(hi, said("", call("1")), results(ok), user("and be quick"))),
		"picture":             ask(llm.Message{Role: llm.User, Text: "hi", Images: images}), "picture without a text": ask(llm.Message{Role: llm.User, Images: images}),
		"two pictures": ask(llm.Message{Role: llm.User, Text: "hi", Images: append(images, images...)}), "picture of a tool": tooled(ask(hi, said("", call("1")), results(seen))),
		"thoughts": think(ask(hi)), "thoughts and tools": think(tooled(ask(hi))), "many thoughts": with(ask(hi), func(r *llm.Request) { r.Thinking = 30000 }),
		"thought before a call":  think(tooled(ask(hi, thinking(said("", call("1")), own("hm", "c2ln", "", 0, 0)), results(ok)))),
		"sealed thought":         think(tooled(ask(hi, thinking(said("", call("1")), own("", "", "c2VjcmV0", 0, 0)), results(ok)))),
		"thought without a text": think(tooled(ask(hi, thinking(said("", call("1")), own("", "c2ln", "", 0, 0)), results(ok)))),
		"interleaved thoughts":   think(tooled(ask(hi, thinking(said("ab", call("1"), call("2")), own("x", "cw==", "", 0, 0), own("y", "dA==", "", 1, 0), own("z", "dQ==", "", 2, 1)), results(ok, bad)))),
		"thoughts of two turns":  think(tooled(ask(hi, thinking(said("", call("1")), own("x", "cw==", "", 0, 0)), results(ok), thinking(said("", call("2")), own("y", "dA==", "", 0, 0)), results(bad)))),
		"foreign thought":        think(ask(hi, thinking(said("yes"), llm.Thinking{Model: "other", Text: "x", Signature: "s"}), user("and?"))),
		"low effort":             with(ask(hi), func(r *llm.Request) { r.Effort = "low" }), "medium effort": with(tooled(ask(hi)), func(r *llm.Request) { r.Effort = "medium" }),
		"high effort": with(ask(hi), func(r *llm.Request) { r.Effort = "high" }), "effort without thoughts": with(ask(hi), func(r *llm.Request) { r.Effort, r.Thinking = "high", -1 }),
		"structured answer":             with(ask(hi), func(r *llm.Request) { r.Output = &llm.Output{Name: "place", Schema: schema} }),
		"structured answer with effort": with(ask(hi), func(r *llm.Request) { r.Output, r.Effort = &llm.Output{Name: "place", Schema: schema}, "low" }),
		"short answer":                  with(ask(hi), func(r *llm.Request) { r.MaxTokens = 50 }), "short answer with thoughts": with(ask(hi), func(r *llm.Request) { r.MaxTokens, r.Thinking = 3000, 2000 }),
		"long conversation": tooled(long),
		"temperature":       with(ask(hi), func(r *llm.Request) { r.Temperature = new(0.5) }), "temperature of nothing": with(ask(hi), func(r *llm.Request) { r.Temperature = new(0.0) }),
		"temperature and thoughts": think(with(ask(hi), func(r *llm.Request) { r.Temperature = new(0.5) })), "high temperature": with(ask(hi), func(r *llm.Request) { r.Temperature = new(2.0) }),
		"stop words": with(ask(hi), func(r *llm.Request) { r.StopWords = []string{"END", "x <y>"} }), "choice without tools": with(ask(hi), func(r *llm.Request) { r.ToolChoice = llm.ChoiceNone }),
		"tools by choice": tooled(with(ask(hi), func(r *llm.Request) { r.ToolChoice = llm.ChoiceAuto })), "no tool": think(tooled(with(ask(hi), func(r *llm.Request) { r.ToolChoice = llm.ChoiceNone }))),
		"some tool": tooled(with(ask(hi), func(r *llm.Request) { r.ToolChoice = llm.ChoiceRequired })), "one tool": tooled(with(ask(hi), func(r *llm.Request) { r.ToolChoice = "B" })),
	}
}

// theirParams writes a request with the types of Anthropic's own client.
func theirParams(model string, r llm.Request) sdk.MessageNewParams {
	mark := sdk.NewCacheControlEphemeralParam()
	p := sdk.MessageNewParams{Model: sdk.Model(model), MaxTokens: 4000}
	adaptive, budget := model == adaptiveModel, int64(r.ThinkingTokens())
	switch {
	case adaptive:
		p.OutputConfig.Effort = sdk.OutputConfigEffort(r.EffortLevel())
		if budget > 0 {
			p.Thinking = sdk.ThinkingConfigParamUnion{OfAdaptive: &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}}
			p.MaxTokens += budget
		}
	case budget > 0 && r.Output == nil:
		p.MaxTokens += budget
		if r.MaxTokens > 0 {
			budget = min(budget, int64(r.MaxTokens/2))
		}
		p.Thinking = sdk.ThinkingConfigParamOfEnabled(budget)
	}
	if r.MaxTokens > 0 {
		p.MaxTokens = min(p.MaxTokens, int64(r.MaxTokens))
	}
	if r.Temperature != nil && budget == 0 {
		p.Temperature = sdk.Float(min(*r.Temperature, 1))
	}
	p.StopSequences = r.StopWords
	switch {
	case r.ToolChoice == "" || len(r.Tools) == 0:
	case r.ToolChoice == llm.ChoiceAuto:
		p.ToolChoice.OfAuto = &sdk.ToolChoiceAutoParam{}
	case r.ToolChoice == llm.ChoiceNone:
		p.ToolChoice.OfNone = new(sdk.NewToolChoiceNoneParam())
	case r.ToolChoice == llm.ChoiceRequired:
		p.ToolChoice.OfAny = &sdk.ToolChoiceAnyParam{}
	default:
		p.ToolChoice = sdk.ToolChoiceParamOfTool(string(r.ToolChoice))
	}
	if r.System != "" {
		p.System = []sdk.TextBlockParam{{Text: r.System, CacheControl: mark}}
	}
	for i, t := range r.Tools {
		var schema struct {
			Properties map[string]any
			Required   []string
			More       *bool `json:"additionalProperties"`
		}
		if json.Unmarshal(t.Schema, &schema) != nil {
			schema.Properties = map[string]any{}
		}
		tool := &sdk.ToolParam{Name: t.Name, InputSchema: sdk.ToolInputSchemaParam{Properties: schema.Properties, Required: schema.Required}}
		if schema.More != nil {
			tool.InputSchema.ExtraFields = map[string]any{"additionalProperties": *schema.More}
		}
		if t.Description != "" {
			tool.Description = sdk.String(t.Description)
		}
		if i == len(r.Tools)-1 {
			tool.CacheControl = mark
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: tool})
	}
	if r.Output != nil {
		var schema map[string]any
		_ = json.Unmarshal(r.Output.Schema, &schema) // the table's own
		if adaptive {
			p.OutputConfig.Format = sdk.JSONOutputFormatParam{Schema: schema}
		} else {
			name := "answer_" + r.Output.Name
			p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: &sdk.ToolParam{Name: name, Description: sdk.String("Gives the answer, in its form. Your answer is what you call this with."),
				InputSchema: sdk.ToolInputSchemaParam{Properties: schema["properties"], Required: []string{"a"}, ExtraFields: map[string]any{"additionalProperties": false}}}})
			p.ToolChoice = sdk.ToolChoiceParamOfTool(name)
		}
	}
	for _, m := range r.Messages {
		blocks := theirBlocks(m, adaptive || p.Thinking.OfEnabled != nil)
		role := sdk.MessageParamRoleUser
		if m.Role == llm.Assistant {
			role = sdk.MessageParamRoleAssistant
		}
		if n := len(p.Messages); n > 0 && p.Messages[n-1].Role == role {
			p.Messages[n-1].Content = append(p.Messages[n-1].Content, blocks...)
			continue
		}
		p.Messages = append(p.Messages, sdk.MessageParam{Role: role, Content: blocks})
	}
	marks := 2
	for _, m := range slices.Backward(p.Messages) {
		if m.Role == sdk.MessageParamRoleUser && marks > 0 {
			*m.Content[len(m.Content)-1].GetCacheControl() = mark
			marks--
		}
	}
	return p
}

// theirBlocks writes the blocks of a message.
func theirBlocks(m llm.Message, thinks bool) (list []sdk.ContentBlockParamUnion) {
	image := func(i llm.Image) sdk.ContentBlockParamUnion {
		return sdk.NewImageBlockBase64(i.Type, "iVBORw0KGgogcmVzdA==")
	}
	for _, i := range m.Images {
		list = append(list, image(i))
	}
	for _, r := range m.Results {
		result := &sdk.ToolResultBlockParam{ToolUseID: r.CallID}
		for _, i := range r.Images {
			result.Content = append(result.Content, sdk.ToolResultBlockParamContentUnion{OfImage: image(i).OfImage})
		}
		if r.Text != "" {
			result.Content = append(result.Content, sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: r.Text}})
		}
		if r.IsError {
			result.IsError = sdk.Bool(true)
		}
		list = append(list, sdk.ContentBlockParamUnion{OfToolResult: result})
	}
	text, calls := 0, 0
	upTo := func(t, c int) {
		if t > text {
			list = append(list, sdk.NewTextBlock(m.Text[text:t]))
		}
		for _, call := range m.Calls[calls:c] {
			args := call.Args
			if len(args) == 0 {
				args = json.RawMessage("{}")
			}
			list = append(list, sdk.NewToolUseBlock(call.ID, args, call.Name))
		}
		text, calls = t, c
	}
	for _, th := range m.Thinking {
		if !thinks || th.Model == "other" {
			continue
		}
		upTo(th.AfterText, th.AfterCalls)
		if th.Sealed != "" {
			list = append(list, sdk.NewRedactedThinkingBlock(th.Sealed))
		} else {
			list = append(list, sdk.NewThinkingBlock(th.Signature, th.Text))
		}
	}
	upTo(len(m.Text), len(m.Calls))
	return list
}

// ourBody returns the body and the header of a request of ours.
func ourBody(t *testing.T, model string, r llm.Request) (body []byte, header http.Header) {
	m, err := anthropic.New(anthropic.Config{MaxTokens: 4000, Config: wire.Config{Name: "own", BaseURL: "http://127.0.0.1:1", Model: model, Key: llm.NewSecret("the-key"),
		HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			body, _ = io.ReadAll(r.Body)
			header = r.Header
			if r.URL.Path != "/v1/messages" {
				t.Errorf("asked %s", r.URL)
			}
			return nil, io.EOF
		})}}})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = llm.Collect(m.Stream(t.Context(), r), nil)
	return body, header
}

func TestAnthropicsClientWritesTheSame(t *testing.T) {
	all := conversations()
	for name, r := range all {
		for _, model := range []string{adaptiveModel, budgetModel} {
			ours, header := ourBody(t, model, r)
			var theirs []byte
			client := anthropicClient(func(r *http.Request) (*http.Response, error) {
				theirs, _ = io.ReadAll(r.Body)
				for _, h := range []string{"X-Api-Key", "Anthropic-Version", "Content-Type"} {
					if got, want := header.Get(h), r.Header.Get(h); got != want {
						t.Errorf("%s: header %s is %q, theirs %q", name, h, got, want)
					}
				}
				return nil, io.EOF
			})
			stream := client.Messages.NewStreaming(t.Context(), theirParams(model, r))
			for stream.Next() {
			}
			if d := cmp.Diff(decoded(t, theirs), decoded(t, ours)); d != "" {
				t.Errorf("%s, %s (-theirs +ours):\n%s", name, model, d)
			}
			// What their types do not know is lost when they read our request and write it again.
			var read sdk.MessageNewParams
			if err := json.Unmarshal(ours, &read); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(read)
			if err != nil {
				t.Fatal(err)
			}
			want := decoded(t, ours).(map[string]any)
			delete(want, "stream") // their method sets it
			if d := cmp.Diff(want, decoded(t, again)); d != "" {
				t.Errorf("%s, %s: their types have other fields (-ours +theirs):\n%s", name, model, d)
			}
		}
	}
	t.Logf("%d conversations, each for two kinds of models", len(all))
}

// leftOut are the fields of a request that we never send, and why.
var leftOut = map[string]string{
	"inference_geo": "the account's setting", "service_tier": "the account's setting", "speed": "fast mode is another price, and needs an account for it",
	"top_k": "models of today refuse other values than the default", "top_p": "likewise", "container": "no tools that run at the provider",
	"metadata":      "nothing about the person is sent",
	"cache_control": "marks on blocks are under our control, and do not move", "diagnostics": "the usage shows what was cached",
}

func TestFieldsOfRequestsAreSentOrLeftOutForReason(t *testing.T) {
	sent := map[string]bool{}
	for _, r := range conversations() {
		for _, model := range []string{adaptiveModel, budgetModel} {
			body, _ := ourBody(t, model, r)
			for field := range decoded(t, body).(map[string]any) {
				sent[field] = true
			}
		}
	}
	delete(sent, "stream")
	theirs := map[string]bool{}
	for field := range reflect.TypeFor[sdk.MessageNewParams]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			theirs[name] = true
		}
	}
	for field := range theirs {
		if _, without := leftOut[field]; without == sent[field] {
			t.Errorf("%s is sent: %v, and left out for a reason: %v", field, sent[field], without)
		}
	}
	for _, field := range append(slices.Collect(maps.Keys(sent)), slices.Collect(maps.Keys(leftOut))...) {
		if !theirs[field] {
			t.Errorf("their requests have no %s", field)
		}
	}
}
