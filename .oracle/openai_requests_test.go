package oracle_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/openai"
)

// openaiLeftOut are the fields of the SDK's requests that ours never have, each with the reason. The list is exact: a field of
// the SDK is either here or in a request of the table.
var openaiLeftOut = map[string]string{
	"background": "an answer is streamed at once", "conversation": "stateless: the request has the whole conversation", "previous_response_id": "likewise",
	"prompt": "prompts are ours, not stored at the provider", "context_management": "conversations are shortened on this side", "truncation": "likewise: what is cut is decided here",
	"max_tool_calls": "the agent counts its calls and turns", "parallel_tool_calls": "the default allows them",
	"functions": "the old name of tools", "function_call": "likewise", "max_tokens": "only for compatible servers; see the test of the wire",
	"top_p": "reasoning models refuse it", "top_logprobs": "not read", "logprobs": "not read", "logit_bias": "not used", "seed": "not honoured by reasoning models",
	"n": "one answer is read", "frequency_penalty": "reasoning models refuse it", "presence_penalty": "likewise", "prediction": "not used",
	"modalities": "text is the default", "audio": "not used", "image": "no pictures are made", "web_search_options": "tools are our own, behind the guard", "verbosity": "the default fits",
	"user": "no people are named to the provider", "safety_identifier": "likewise", "metadata": "nothing is stored there", "service_tier": "the account's default", "moderation": "the account's default",
	"access_programs": "the account's default", "prompt_cache_key": "the beginning of the request is stable, which is enough for the cache", "prompt_cache_retention": "the account's default",
	"prompt_cache_options": "the default caches by the beginning",
}

// Pieces of the table's conversations.
var (
	png        = []llm.Image{{Type: "image/png", Data: []byte("\x89PNG\r\n\x1a\n rest")}}
	closed     = json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer","description":"x < y"}},"required":["a"],"additionalProperties":false}`)
	open       = json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}}}`)
	nested     = json.RawMessage(`{"type":"object","properties":{"l":{"type":"array","items":{"anyOf":[{"type":"string","format":"date"},{"type":"null"}]}}},"required":["l"],"additionalProperties":false}`)
	closedTool = llm.ToolSpec{Name: "A", Description: "does a", Schema: closed}
	openTool   = llm.ToolSpec{Name: "B", Schema: open}
)

func said(text string, images ...llm.Image) llm.Message {
	return llm.Message{Role: llm.User, Text: text, Images: images}
}

func answered(text string, calls ...llm.ToolCall) llm.Message {
	return llm.Message{Role: llm.Assistant, Text: text, Calls: calls}
}

func thought(m llm.Message, thoughts ...llm.Thinking) llm.Message { m.Thinking = thoughts; return m }

func own(raw string, text, calls int) llm.Thinking {
	return llm.Thinking{Model: "openai:m", Raw: json.RawMessage(raw), AfterText: text, AfterCalls: calls}
}

func call(id, name, args string) llm.ToolCall {
	return llm.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)}
}

func results(list ...llm.ToolResult) llm.Message { return llm.Message{Role: llm.Tool, Results: list} }

func result(id, text string) llm.ToolResult { return llm.ToolResult{CallID: id, Name: "A", Text: text} }

func failed(id, text string) llm.ToolResult {
	return llm.ToolResult{CallID: id, Name: "A", Text: text, IsError: true}
}

func shown(id, text string) llm.ToolResult {
	return llm.ToolResult{CallID: id, Name: "A", Text: text, Images: png}
}

func dialog(messages ...llm.Message) llm.Request { return llm.Request{Messages: messages} }

func change(r llm.Request, f func(*llm.Request)) llm.Request { f(&r); return r }

const (
	reasoning1 = `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"First <b>"}],"encrypted_content":"gAAA1=="}`
	reasoning2 = `{"id":"rs_2","type":"reasoning","summary":[],"encrypted_content":"gAAA2=="}`
	commentary = `{"type":"message","phase":"commentary"}`
	final      = `{"type":"message","phase":"final_answer"}`
)

// openaiConversations is the table: each is written by ours and by the SDK for both APIs.
var openaiConversations = map[string]llm.Request{
	"text":                    dialog(said("hi")),
	"empty text":              dialog(said("")),
	"special characters":      dialog(said("a < b && \"c\" \\ \u2028 日本語 \t")),
	"several turns":           dialog(said("a"), answered("b"), said("c"), answered("d"), said("e")),
	"system":                  {System: "be brief <now>", Messages: []llm.Message{said("hi")}},
	"system with white space": {System: "\n be brief \n", Messages: []llm.Message{said("hi")}},
	"picture":                 dialog(said("what is it?", png...)),
	"picture alone":           dialog(said("", png...)),
	"two pictures":            dialog(said("which?", png[0], png[0])),
	"a strict tool":           change(dialog(said("hi")), func(r *llm.Request) { r.Tools = []llm.ToolSpec{closedTool} }),
	"a tool that is not":      change(dialog(said("hi")), func(r *llm.Request) { r.Tools = []llm.ToolSpec{openTool} }),
	"several tools":           change(dialog(said("hi")), func(r *llm.Request) { r.Tools = []llm.ToolSpec{closedTool, openTool, {Name: "C", Schema: nested}} }),
	"a tool without a schema": change(dialog(said("hi")), func(r *llm.Request) { r.Tools = []llm.ToolSpec{{Name: "C", Description: "c"}} }),
	"a call":                  dialog(said("hi"), answered("", call("1", "A", `{"a":1}`)), results(result("1", "ok"))),
	"text and a call":         dialog(said("hi"), answered("wait", call("1", "A", `{"a":1}`)), results(result("1", "ok"))),
	"parallel calls":          dialog(said("hi"), answered("", call("1", "A", `{"a":1}`), call("2", "A", `{"a":2}`), call("3", "B", `{}`)), results(result("1", "x"), result("2", "y"), result("3", "z"))),
	"a failed call":           dialog(said("hi"), answered("", call("1", "A", `{"a":1}`)), results(failed("1", "no such file"))),
	"some calls failed":       dialog(said("hi"), answered("", call("1", "A", `{"a":1}`), call("2", "A", `{"a":2}`)), results(failed("1", "no"), result("2", ""))),
	"arguments of no object":  dialog(said("hi"), answered("", call("1", "A", `"{oops"`)), results(failed("1", "want an object"))),
	"a result with a picture": dialog(said("hi"), answered("", call("1", "A", `{}`)), results(shown("1", "see"))),
	"results with pictures":   dialog(said("hi"), answered("", call("1", "A", `{}`), call("2", "A", `{}`)), results(shown("1", "see"), shown("2", "and"))),
	"calls turn by turn": change(dialog(said("hi"), answered("", call("1", "A", `{"a":1}`)), results(result("1", "x")), answered("more", call("2", "A", `{"a":2}`)), results(result("2", "y")), answered("done"), said("and?")),
		func(r *llm.Request) { r.Tools = []llm.ToolSpec{closedTool} }),
	"a form":       change(dialog(said("hi")), func(r *llm.Request) { r.Output = &llm.Output{Name: "place", Schema: closed} }),
	"a loose form": change(dialog(said("hi")), func(r *llm.Request) { r.Output = &llm.Output{Name: "place", Schema: open} }),
	"a form after calls": change(dialog(said("hi"), answered("", call("1", "A", `{}`)), results(result("1", "x"))), func(r *llm.Request) {
		r.Output = &llm.Output{Name: "p", Schema: nested}
		r.Tools = []llm.ToolSpec{closedTool}
	}),
	"low effort":           change(dialog(said("hi")), func(r *llm.Request) { r.Effort = "low" }),
	"medium effort":        change(dialog(said("hi")), func(r *llm.Request) { r.Effort = "medium" }),
	"high effort":          change(dialog(said("hi")), func(r *llm.Request) { r.Effort = "high" }),
	"tokens of thinking":   change(dialog(said("hi")), func(r *llm.Request) { r.Thinking = 30000 }),
	"no thinking":          change(dialog(said("hi")), func(r *llm.Request) { r.Thinking = -1 }),
	"a limit":              change(dialog(said("hi")), func(r *llm.Request) { r.MaxTokens = 100 }),
	"a limit and effort":   change(dialog(said("hi")), func(r *llm.Request) { r.MaxTokens, r.Effort = 4000, "high" }),
	"a refused turn":       dialog(said("do it"), answered("I cannot help with that."), said("why?")),
	"an incomplete turn":   dialog(said("long"), answered("Half of"), said("go on")),
	"reasoning":            dialog(said("hi"), thought(answered("so"), own(reasoning1, 0, 0)), said("and?")),
	"reasoning and calls":  dialog(said("hi"), thought(answered("", call("1", "A", `{"a":1}`), call("2", "A", `{"a":2}`)), own(reasoning1, 0, 0)), results(result("1", "x"), result("2", "y"))),
	"reasoning in between": dialog(said("hi"), thought(answered("wait", call("1", "A", `{}`), call("2", "A", `{}`)), own(reasoning1, 0, 0), own(reasoning2, 4, 1)), results(result("1", "x"), result("2", "y"))),
	"reasoning each turn": dialog(said("hi"), thought(answered("", call("1", "A", `{}`)), own(reasoning1, 0, 0)), results(result("1", "x")),
		thought(answered("done"), own(reasoning2, 0, 0)), said("and?")),
	"phases":                    dialog(said("hi"), thought(answered("wait", call("1", "A", `{}`)), own(commentary, 0, 0)), results(result("1", "x")), thought(answered("done"), own(final, 0, 0)), said("and?")),
	"reasoning that was cut":    dialog(said("hi"), thought(answered("so"), own(reasoning1, 0, 0), own(reasoning2, 2, 0)), said("and?")),
	"reasoning of another":      dialog(said("hi"), thought(answered("so"), llm.Thinking{Model: "other", Raw: json.RawMessage(reasoning1)}), said("and?")),
	"everything":                {System: "s", Effort: "medium", MaxTokens: 500, Output: &llm.Output{Name: "p", Schema: closed}, Tools: []llm.ToolSpec{closedTool, openTool}, Messages: []llm.Message{said("hi", png...), thought(answered("wait", call("1", "A", `{"a":1}`)), own(reasoning1, 0, 0), own(commentary, 0, 0)), results(shown("1", "x")), said("and?")}},
	"a failure with a picture":  dialog(said("hi"), answered("", call("1", "A", `{}`)), results(llm.ToolResult{CallID: "1", Name: "A", Text: "bad", IsError: true, Images: png})),
	"temperature":               change(dialog(said("hi")), func(r *llm.Request) { r.Temperature = new(0.0) }),
	"high temperature":          change(dialog(said("hi")), func(r *llm.Request) { r.Temperature = new(1.75) }),
	"stop words":                change(dialog(said("hi")), func(r *llm.Request) { r.StopWords = []string{"END", "x <y>"} }),
	"tools by choice":           change(dialog(said("hi")), func(r *llm.Request) { r.Tools, r.ToolChoice = []llm.ToolSpec{closedTool}, llm.ChoiceAuto }),
	"no tool":                   change(dialog(said("hi")), func(r *llm.Request) { r.Tools, r.ToolChoice = []llm.ToolSpec{closedTool}, llm.ChoiceNone }),
	"some tool":                 change(dialog(said("hi")), func(r *llm.Request) { r.Tools, r.ToolChoice = []llm.ToolSpec{closedTool}, llm.ChoiceRequired }),
	"one tool":                  change(dialog(said("hi")), func(r *llm.Request) { r.Tools, r.ToolChoice = []llm.ToolSpec{closedTool, openTool}, "B" }),
	"choice without tools":      change(dialog(said("hi")), func(r *llm.Request) { r.ToolChoice = llm.ChoiceNone }),
	"text after a long history": dialog(slices.Concat(slices.Repeat([]llm.Message{said("a"), answered("b")}, 20), []llm.Message{said("c")})...),
}

func dataURL(i llm.Image) string {
	return "data:" + i.Type + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
}

func object(t *testing.T, raw json.RawMessage) map[string]any {
	t.Helper()
	if len(raw) == 0 {
		return map[string]any{"type": "object", "properties": map[string]any{}}
	}
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// isStrict says for the schemas of the table whether the server can enforce them.
func isStrict(schema json.RawMessage) bool {
	return string(schema) == string(closed) || string(schema) == string(nested)
}

// effortOf says for the requests of the table how much to think.
func effortOf(r llm.Request) shared.ReasoningEffort {
	switch {
	case r.Thinking < 0:
		return shared.ReasoningEffortNone
	case r.Thinking > 0:
		return shared.ReasoningEffortHigh
	}
	return shared.ReasoningEffort(r.Effort)
}

func failedText(r llm.ToolResult) string {
	if r.IsError {
		return "error: " + r.Text
	}
	return r.Text
}

// responseParams writes a request in the SDK's types for the Responses API.
func responseParams(t *testing.T, r llm.Request) responses.ResponseNewParams {
	p := responses.ResponseNewParams{
		Model: "m", Store: sdk.Bool(false), Include: []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
		Reasoning: shared.ReasoningParam{Effort: effortOf(r), Summary: shared.ReasoningSummaryAuto},
	}
	if s := strings.TrimSpace(r.System); s != "" {
		p.Instructions = sdk.String(s)
	}
	if r.MaxTokens > 0 {
		p.MaxOutputTokens = sdk.Int(int64(r.MaxTokens))
	}
	if r.Output != nil {
		p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{Name: r.Output.Name, Schema: object(t, r.Output.Schema), Strict: sdk.Bool(isStrict(r.Output.Schema))}
	}
	for _, tool := range r.Tools {
		f := responses.ToolParamOfFunction(tool.Name, object(t, tool.Schema), isStrict(tool.Schema))
		if tool.Description != "" {
			f.OfFunction.Description = sdk.String(tool.Description)
		}
		p.Tools = append(p.Tools, f)
	}
	if r.Temperature != nil {
		p.Temperature = sdk.Float(*r.Temperature)
	}
	switch {
	case r.ToolChoice.ForcesCall() && r.ToolChoice != llm.ChoiceRequired:
		p.ToolChoice.OfFunctionTool = &responses.ToolChoiceFunctionParam{Name: string(r.ToolChoice)}
	case r.ToolChoice != "" && len(r.Tools) > 0:
		p.ToolChoice.OfToolChoiceMode = sdk.Opt(responses.ToolChoiceOptions(r.ToolChoice))
	}
	p.Input.OfInputItemList = responses.ResponseInputParam{}
	add := func(items ...responses.ResponseInputItemUnionParam) {
		p.Input.OfInputItemList = append(p.Input.OfInputItemList, items...)
	}
	for _, m := range r.Messages {
		switch m.Role {
		case llm.User:
			if len(m.Images) == 0 {
				add(responses.ResponseInputItemParamOfMessage(m.Text, responses.EasyInputMessageRoleUser))
				continue
			}
			var parts responses.ResponseInputMessageContentListParam
			for _, i := range m.Images {
				part := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
				part.OfInputImage.ImageURL = sdk.String(dataURL(i))
				parts = append(parts, part)
			}
			if m.Text != "" {
				parts = append(parts, responses.ResponseInputContentParamOfInputText(m.Text))
			}
			add(responses.ResponseInputItemParamOfMessage(parts, responses.EasyInputMessageRoleUser))
		case llm.Tool:
			for _, one := range m.Results {
				out := responses.ResponseInputItemParamOfFunctionCallOutput(failedText(one))
				if len(one.Images) > 0 {
					out = responses.ResponseInputItemParamOfFunctionCallOutput(responses.ResponseFunctionCallOutputItemListParam{
						{OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: sdk.String(dataURL(one.Images[0])), Detail: "auto"}},
						{OfInputText: &responses.ResponseInputTextContentParam{Text: failedText(one)}},
					})
				}
				out.OfFunctionCallOutput.CallID = sdk.String(one.CallID)
				add(out)
			}
		default:
			add(assistantParams(t, m)...)
		}
	}
	return p
}

// assistantParams writes a message of the model: its items by their positions, as the table has them.
func assistantParams(t *testing.T, m llm.Message) (items []responses.ResponseInputItemUnionParam) {
	at := map[int][]llm.Thinking{} // by the number of items before: the text is the first, then the calls
	for _, th := range m.Thinking {
		n := th.AfterCalls
		if th.AfterText > 0 {
			n++
		}
		if th.Model == "openai:m" {
			at[n] = append(at[n], th)
		}
	}
	phase := ""
	before := func(n int) {
		for _, th := range at[n] {
			if v := object(t, th.Raw); v["type"] == "message" {
				phase, _ = v["phase"].(string)
				continue
			}
			var item responses.ResponseReasoningItem
			if err := json.Unmarshal(th.Raw, &item); err != nil {
				t.Fatal(err)
			}
			back := item.ToParam() // the SDK's own way from an answer to the next request
			items = append(items, responses.ResponseInputItemUnionParam{OfReasoning: &back})
		}
	}
	before(0)
	n := 0
	if m.Text != "" {
		message := responses.ResponseInputItemParamOfMessage(m.Text, responses.EasyInputMessageRoleAssistant)
		message.OfMessage.Phase = responses.EasyInputMessagePhase(phase)
		items = append(items, message)
		n++
	}
	for i, c := range m.Calls {
		if i > 0 {
			before(n)
		}
		items = append(items, responses.ResponseInputItemParamOfFunctionCall(string(llm.Object(c.Args)), c.ID, c.Name))
		n++
	}
	return items
}

// chatParams writes a request in the SDK's types for chat completions.
func chatParams(t *testing.T, r llm.Request) sdk.ChatCompletionNewParams {
	p := sdk.ChatCompletionNewParams{Model: "m", ReasoningEffort: effortOf(r), StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)}, Messages: []sdk.ChatCompletionMessageParamUnion{}}
	if s := strings.TrimSpace(r.System); s != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(s))
	}
	if r.MaxTokens > 0 {
		p.MaxCompletionTokens = sdk.Int(int64(r.MaxTokens))
	}
	if r.Output != nil {
		s := shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: r.Output.Name, Schema: object(t, r.Output.Schema)}
		if isStrict(r.Output.Schema) {
			s.Strict = sdk.Bool(true)
		}
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: s}
	}
	for _, tool := range r.Tools {
		f := shared.FunctionDefinitionParam{Name: tool.Name, Parameters: object(t, tool.Schema)}
		if tool.Description != "" {
			f.Description = sdk.String(tool.Description)
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	if r.Temperature != nil {
		p.Temperature = sdk.Float(*r.Temperature)
	}
	p.Stop.OfStringArray = r.StopWords
	switch {
	case r.ToolChoice.ForcesCall() && r.ToolChoice != llm.ChoiceRequired:
		p.ToolChoice = sdk.ToolChoiceOptionFunctionToolChoice(sdk.ChatCompletionNamedToolChoiceFunctionParam{Name: string(r.ToolChoice)})
	case r.ToolChoice != "" && len(r.Tools) > 0:
		p.ToolChoice.OfAuto = sdk.String(string(r.ToolChoice))
	}
	image := func(i llm.Image) sdk.ChatCompletionContentPartUnionParam {
		return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: dataURL(i)})
	}
	for _, m := range r.Messages {
		switch {
		case m.Role == llm.User && len(m.Images) == 0:
			p.Messages = append(p.Messages, sdk.UserMessage(m.Text))
		case m.Role == llm.User:
			var parts []sdk.ChatCompletionContentPartUnionParam
			for _, i := range m.Images {
				parts = append(parts, image(i))
			}
			if m.Text != "" {
				parts = append(parts, sdk.TextContentPart(m.Text))
			}
			p.Messages = append(p.Messages, sdk.UserMessage(parts))
		case m.Role == llm.Tool:
			var parts []sdk.ChatCompletionContentPartUnionParam
			for _, one := range m.Results {
				p.Messages = append(p.Messages, sdk.ToolMessage(failedText(one), one.CallID))
				for _, i := range one.Images {
					parts = append(parts, sdk.TextContentPart("What A shows ("+one.CallID+"):"), image(i))
				}
			}
			if parts != nil {
				p.Messages = append(p.Messages, sdk.UserMessage(parts))
			}
		default:
			a := &sdk.ChatCompletionAssistantMessageParam{}
			if m.Text != "" || len(m.Calls) == 0 {
				a.Content.OfString = sdk.String(m.Text)
			}
			for _, c := range m.Calls {
				a.ToolCalls = append(a.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID: c.ID, Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: string(llm.Object(c.Args))},
				}})
			}
			p.Messages = append(p.Messages, sdk.ChatCompletionMessageParamUnion{OfAssistant: a})
		}
	}
	return p
}

// written is what a client wrote: the path and the body, as JSON.
type written struct {
	path string
	body map[string]any
}

func (w *written) server(t *testing.T) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		w.path, w.body = r.URL.Path, nil
		if err := json.Unmarshal(body, &w.body); err != nil {
			t.Errorf("%v in %s", err, body)
		}
		return nil, io.EOF
	}
}

func sdkClient(s roundTrip) *sdk.Client {
	client := sdk.NewClient(option.WithBaseURL("https://api.openai.com/v1"), option.WithAPIKey("the-key"), option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: s}))
	return &client
}

func TestOpenAIsClientWritesEachConversationTheSame(t *testing.T) {
	if len(openaiConversations) < 30 {
		t.Errorf("%d conversations, want at least 30", len(openaiConversations))
	}
	sent, known := map[string]bool{}, map[string]bool{}
	for name, r := range openaiConversations {
		var ours, theirs written
		_, _ = llm.Collect(responsesModel(t, ours.server(t)).Stream(t.Context(), r), nil)
		if r.StopWords != nil { // that API has none
			if ours.path != "/v1/chat/completions" {
				t.Errorf("%s is sent to %s", name, ours.path)
			}
		} else {
			stream := sdkClient(theirs.server(t)).Responses.NewStreaming(t.Context(), responseParams(t, r))
			for stream.Next() {
			}
			if d := cmp.Diff(theirs.body, ours.body); d != "" || ours.path != "/v1/responses" || theirs.path != ours.path {
				t.Errorf("%s, Responses: %s (-theirs +ours):\n%s", name, ours.path, d)
			}
		}
		for key := range ours.body {
			sent[key] = true
		}

		_, _ = llm.Collect(completionsModel(t, ours.server(t)).Stream(t.Context(), r), nil)
		chat := sdkClient(theirs.server(t)).Chat.Completions.NewStreaming(t.Context(), chatParams(t, r))
		for chat.Next() {
		}
		// OpenAI's own models have max_tokens by another name, which a server of ours is asked for at first.
		if n, ok := ours.body["max_tokens"]; ok {
			ours.body["max_completion_tokens"] = n
			delete(ours.body, "max_tokens")
		}
		for _, m := range ours.body["messages"].([]any) {
			// The SDK leaves out the null that stands beside calls without a text.
			if m := m.(map[string]any); m["role"] == "assistant" && m["content"] == nil {
				delete(m, "content")
			}
		}
		if d := cmp.Diff(theirs.body, ours.body); d != "" || theirs.path != ours.path {
			t.Errorf("%s, chat completions: %s (-theirs +ours):\n%s", name, ours.path, d)
		}
		for key := range ours.body {
			sent[key] = true
		}
	}
	for _, params := range []reflect.Type{reflect.TypeFor[responses.ResponseNewParams](), reflect.TypeFor[sdk.ChatCompletionNewParams]()} {
		for i := range params.NumField() {
			key, _, _ := strings.Cut(params.Field(i).Tag.Get("json"), ",")
			if key == "" {
				continue
			}
			if out := openaiLeftOut[key] != ""; out == sent[key] {
				t.Errorf("%s of %v: in a request %v, left out with a reason %v", key, params, sent[key], out)
			}
			known[key] = true
		}
	}
	for key := range openaiLeftOut {
		if !known[key] {
			t.Errorf("%s is left out, and no field of the SDK", key)
		}
	}
}

// responsesModel asks OpenAI's own service, completionsModel a compatible server.
func responsesModel(t testing.TB, s roundTrip) llm.Model { return modelAt(t, "", s) }

func completionsModel(t testing.TB, s roundTrip) llm.Model {
	return modelAt(t, "https://compatible.example/v1", s)
}

func modelAt(t testing.TB, base string, s roundTrip) llm.Model {
	m, err := openai.New(openai.Config{BaseURL: base, Model: "m", Key: llm.NewSecret("the-key"), HTTP: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// responsesAnswer is what OpenAI's own client makes of an answer of the Responses API.
func responsesAnswer(ctx context.Context, server roundTrip) (answer, error) {
	stream := sdkClient(server).Responses.NewStreaming(ctx, responses.ResponseNewParams{Model: "m"})
	defer stream.Close()
	var a answer
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			a.Text += e.Delta
		case responses.ResponseRefusalDeltaEvent:
			a.Text, a.Stop = a.Text+e.Delta, "refusal"
		case responses.ResponseOutputItemDoneEvent:
			switch item := e.Item.AsAny().(type) {
			case responses.ResponseFunctionToolCall:
				a.Calls = append(a.Calls, item.CallID+" "+item.Name+" "+string(llm.Args(item.Arguments)))
			case responses.ResponseReasoningItem:
				if item.EncryptedContent != "" {
					a.Thoughts = append(a.Thoughts, item.RawJSON())
				}
			}
		case responses.ResponseCompletedEvent:
			a.end(e.Response, "completed")
		case responses.ResponseIncompleteEvent:
			a.end(e.Response, e.Response.IncompleteDetails.Reason)
		case responses.ResponseFailedEvent, responses.ResponseErrorEvent:
			return a, io.ErrUnexpectedEOF // an event for them, an error for us
		}
	}
	return a, stream.Err()
}

func (a *answer) end(r responses.Response, stop string) {
	if a.Stop == "" {
		if a.Stop = stop; stop == "completed" && len(a.Calls) > 0 {
			a.Stop = "calls"
		}
	}
	a.Input, a.Output, a.Cached = int(r.Usage.InputTokens), int(r.Usage.OutputTokens), int(r.Usage.InputTokensDetails.CachedTokens)
}

func TestOpenAIsClientReadsResponsesTheSame(t *testing.T) {
	stops := map[string]llm.Stop{"completed": llm.StopEnd, "calls": llm.StopTools, "max_output_tokens": llm.StopLength, "content_filter": llm.StopFilter, "refusal": llm.StopFilter}
	compare(t, "../internal/agent/llm/openai/testdata/responses", responsesModel, responsesAnswer, stops, map[string]string{
		"cut": "half an answer passes for a whole one there", "cancelled": "likewise", "only-completed": "read here from the last event, too",
		"document": "theirs was asked for a stream", "document-error": "likewise", "document-nothing": "likewise", "other-wire": "an event that they pass over",
		"known-ids": "theirs knows no conversation",
	})
}

func TestOpenAIsClientReadsServersTheSame(t *testing.T) {
	stops := map[string]llm.Stop{"stop": llm.StopEnd, "tool_calls": llm.StopTools}
	compare(t, "../internal/agent/llm/openai/testdata/servers", openaiModel, openaiAnswer, stops, map[string]string{
		"gemini":  "it says stop although there is a call",
		"mistral": "thoughts that are parts of the content are text there",
	})
}
