package oracle_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/openai"
)

// openaiAnswer is what OpenAI's own client makes of an answer.
func openaiAnswer(ctx context.Context, server roundTrip) (answer, error) {
	client := sdk.NewClient(option.WithBaseURL("http://127.0.0.1:1/v1"), option.WithAPIKey("the-key"), option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: server}))
	stream := client.Chat.Completions.NewStreaming(ctx, sdk.ChatCompletionNewParams{Model: "m", Messages: []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage("hello")}})
	defer stream.Close()
	var acc sdk.ChatCompletionAccumulator
	var a answer
	for stream.Next() {
		acc.AddChunk(stream.Current())
		a.Cached = max(a.Cached, int(stream.Current().Usage.PromptTokensDetails.CachedTokens))
	}
	if err := stream.Err(); err != nil {
		return answer{}, err
	}
	for _, c := range acc.Choices {
		a.Text, a.Stop = c.Message.Content+c.Message.Refusal, c.FinishReason
		for _, call := range c.Message.ToolCalls {
			a.Calls = append(a.Calls, call.ID+" "+call.Function.Name+" "+string(llm.Args(call.Function.Arguments)))
		}
	}
	a.Input, a.Output = int(acc.Usage.PromptTokens), int(acc.Usage.CompletionTokens)
	return a, nil
}

func openaiModel(t testing.TB, s roundTrip) llm.Model {
	m, err := openai.New(openai.Config{BaseURL: "http://127.0.0.1:1/v1", Model: "m", Key: llm.NewSecret("the-key"), HTTP: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestOpenAIsClientReadsTheSame(t *testing.T) {
	stops := map[string]llm.Stop{"stop": llm.StopEnd, "tool_calls": llm.StopTools, "length": llm.StopLength, "content_filter": llm.StopFilter}
	compare(t, "../internal/agent/llm/openai/testdata", openaiModel, openaiAnswer, stops, map[string]string{
		// Where servers that are only nearly compatible are read here, and not there.
		"no-blank-lines": "", "no-index": "", "no-index-no-id": "", "same-index-no-id": "", "same-index-no-arguments": "", "whole-calls": "",
		"content-parts": "", "other-types": "", "new-id-each-fragment": "", "repeated-ids": "", "repeated-fields": "",
		"no-finish": "no reason to stop there", "announced-calls-text": "", "second-choice": "one answer was asked for", "document": "", "document-mislabelled": "",
		"refusal": "a refusal is a filter's here", "usage-each-chunk": "they add them up",
		"cut": "half an answer passes for a whole one there", "cut-in-a-call": "", "cut-in-an-event": "", "only-comments": "", "only-done": "", "empty": "", "announced-calls": "",
		"html": "", "document-without-answer": "", "document-error": "", "document-cut": "", "error-named-event": "",
		"byte-order-mark": "", "error-object": "theirs passes it over", "no-last-line-end": "",
	})
}

func TestOpenAIsClientWritesTheSame(t *testing.T) {
	keep := func(body *[]byte) roundTrip {
		return func(r *http.Request) (*http.Response, error) {
			*body, _ = io.ReadAll(r.Body)
			return nil, io.EOF
		}
	}
	var ours, theirs []byte
	schema := map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "integer"}}, "required": []any{"a"}, "additionalProperties": false}
	raw, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	png := []byte("\x89PNG\r\n\x1a\n rest")
	_, _ = llm.Collect(openaiModel(t, keep(&ours)).Stream(t.Context(), llm.Request{
		System: "be brief",
		Messages: []llm.Message{
			{Role: llm.User, Text: "hi", Images: []llm.Image{{Type: "image/png", Data: png}}},
			{Role: llm.Assistant, Text: "wait", Calls: []llm.ToolCall{{ID: "1", Name: "A", Args: json.RawMessage(`{"a":1}`)}}},
			{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1", Name: "A", Text: "ok", Images: []llm.Image{{Type: "image/png", Data: png}}}}},
			{Role: llm.User, Text: "and?"},
		},
		Tools:  []llm.ToolSpec{{Name: "A", Description: "does a", Schema: raw}},
		Output: &llm.Output{Name: "place", Schema: raw},
	}), nil)
	client := sdk.NewClient(option.WithBaseURL("http://127.0.0.1:1/v1"), option.WithAPIKey("the-key"), option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: keep(&theirs)}))
	stream := client.Chat.Completions.NewStreaming(t.Context(), sdk.ChatCompletionNewParams{
		Model: "m",
		Messages: []sdk.ChatCompletionMessageParamUnion{
			sdk.SystemMessage("be brief"),
			sdk.UserMessage([]sdk.ChatCompletionContentPartUnionParam{
				sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64,iVBORw0KGgogcmVzdA=="}), sdk.TextContentPart("hi"),
			}),
			{OfAssistant: &sdk.ChatCompletionAssistantMessageParam{
				Content: sdk.ChatCompletionAssistantMessageParamContentUnion{OfString: sdk.String("wait")},
				ToolCalls: []sdk.ChatCompletionMessageToolCallUnionParam{{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID: "1", Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: "A", Arguments: `{"a":1}`},
				}}},
			}},
			sdk.ToolMessage("ok", "1"),
			sdk.UserMessage([]sdk.ChatCompletionContentPartUnionParam{
				sdk.TextContentPart("What A shows (1):"), sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64,iVBORw0KGgogcmVzdA=="}),
			}),
			sdk.UserMessage("and?"),
		},
		Tools: []sdk.ChatCompletionToolUnionParam{sdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "A", Description: sdk.String("does a"), Parameters: schema})},
		ResponseFormat: sdk.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "place", Schema: schema, Strict: sdk.Bool(true)},
		}},
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
	})
	for stream.Next() {
	}
	if d := cmp.Diff(decoded(t, theirs), decoded(t, ours)); d != "" {
		t.Errorf("the request (-theirs +ours):\n%s", d)
	}
}
