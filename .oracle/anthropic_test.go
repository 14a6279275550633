package oracle_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/agent/llm/anthropic"
	"symbio/agent/llm/wire"
)

func anthropicClient(server roundTrip) sdk.Client {
	return sdk.NewClient(option.WithBaseURL("http://127.0.0.1:1"), option.WithAPIKey("the-key"), option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: server}))
}

// anthropicAnswer is what Anthropic's own client makes of an answer.
func anthropicAnswer(ctx context.Context, server roundTrip) (answer, error) {
	client := anthropicClient(server)
	stream := client.Messages.NewStreaming(ctx, sdk.MessageNewParams{Model: "m", MaxTokens: 100, Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("hello"))}})
	defer stream.Close()
	var m sdk.Message
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			return answer{}, err
		}
	}
	if err := stream.Err(); err != nil {
		return answer{}, err
	}
	a := answer{Stop: string(m.StopReason)}
	for _, b := range m.Content {
		switch b := b.AsAny().(type) {
		case sdk.TextBlock:
			a.Text += b.Text
		case sdk.ToolUseBlock:
			a.Calls = append(a.Calls, b.ID+" "+b.Name+" "+string(llm.Args(string(b.Input))))
		case sdk.ThinkingBlock:
			a.Thoughts = append(a.Thoughts, b.Thinking+" "+b.Signature)
		case sdk.RedactedThinkingBlock:
			a.Thoughts = append(a.Thoughts, b.Data)
		}
	}
	a.Input = int(m.Usage.InputTokens + m.Usage.CacheReadInputTokens + m.Usage.CacheCreationInputTokens)
	a.Output, a.Cached = int(m.Usage.OutputTokens), int(m.Usage.CacheReadInputTokens)
	return a, nil
}

func anthropicModel(t testing.TB, s roundTrip) llm.Model {
	m, err := anthropic.New(anthropic.Config{MaxTokens: 100, Config: wire.Config{BaseURL: "http://127.0.0.1:1", Model: "m", Key: llm.NewSecret("the-key"), HTTP: &http.Client{Transport: s}, MaxRetries: -1}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAnthropicsClientReadsTheSame(t *testing.T) {
	stops := map[string]llm.Stop{
		"end_turn": llm.StopEnd, "stop_sequence": llm.StopEnd, "tool_use": llm.StopTools, "max_tokens": llm.StopLength,
		"model_context_window_exceeded": llm.StopLength, "refusal": llm.StopFilter,
	}
	compare(t, "../agent/llm/anthropic/testdata", anthropicModel, anthropicAnswer, stops, map[string]string{
		"bad-arguments": "they fail", "known-ids": "theirs knows no conversation", "max-tokens": "half a call is none here", "max-tokens-at-a-call": "likewise",
		"thinking-unsigned": "nobody takes it back", "no-block-start": "they fail",
		"document": "theirs was asked for a stream", "document-error": "", "document-without-answer": "", "html": "", "other-wire": "", "no-stop-reason": "", "nameless-call": "",
		"pause-turn": "an answer that is not whole, which a conversation resumes", "refusal-explained": "the explanation is the text here",
		"cut": "half an answer passes for a whole one there", "cut-in-a-call": "", "cut-in-an-event": "",
	})
}

func TestAnthropicsClientWritesTheSame(t *testing.T) {
	keep := func(body *[]byte) roundTrip {
		return func(r *http.Request) (*http.Response, error) {
			*body, _ = io.ReadAll(r.Body)
			if r.URL.Path != "/v1/messages" || r.Header.Get("X-Api-Key") != "the-key" || r.Header.Get("Anthropic-Version") != "2023-06-01" {
				t.Errorf("asked %s with %v", r.URL, r.Header)
			}
			return nil, io.EOF
		}
	}
	var ours, theirs []byte
	png := []byte("\x89PNG\r\n\x1a\n rest")
	_, _ = llm.Collect(anthropicModel(t, keep(&ours)).Stream(t.Context(), llm.Request{
		System: "be brief", Thinking: 2000,
		Messages: []llm.Message{
			{Role: llm.User, Text: "hi", Images: []llm.Image{{Type: "image/png", Data: png}}},
			{Role: llm.Assistant, Text: "wait", Calls: []llm.ToolCall{{ID: "1", Name: "A", Args: json.RawMessage(`{"a":1}`)}, {ID: "2", Name: "A", Args: json.RawMessage(`{"a":2}`)}}, Thinking: []llm.Thinking{
				{Model: "anthropic:m", Text: "hm", Signature: "c2ln"}, {Model: "anthropic:m", Sealed: "c2VjcmV0"}}},
			{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "2", Name: "A", Text: "see", Images: []llm.Image{{Type: "image/png", Data: png}}}, {CallID: "1", Name: "A", Text: "bad", IsError: true}}},
		},
		Tools: []llm.ToolSpec{{Name: "A", Description: "does a", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`)}},
	}), nil)
	client := anthropicClient(keep(&theirs))
	hi := sdk.NewTextBlock("hi")
	hi.OfText.CacheControl = sdk.NewCacheControlEphemeralParam()
	result := sdk.NewToolResultBlock("1", "bad", true)
	result.OfToolResult.CacheControl = sdk.NewCacheControlEphemeralParam()
	seen := sdk.ToolResultBlockParam{ToolUseID: "2", Content: []sdk.ToolResultBlockParamContentUnion{
		{OfImage: sdk.NewImageBlockBase64("image/png", "iVBORw0KGgogcmVzdA==").OfImage}, {OfText: &sdk.TextBlockParam{Text: "see"}},
	}}
	stream := client.Messages.NewStreaming(t.Context(), sdk.MessageNewParams{
		Model: "m", MaxTokens: 2100,
		System:   []sdk.TextBlockParam{{Text: "be brief", CacheControl: sdk.NewCacheControlEphemeralParam()}},
		Thinking: sdk.ThinkingConfigParamOfEnabled(2000),
		Messages: []sdk.MessageParam{
			sdk.NewUserMessage(sdk.NewImageBlockBase64("image/png", "iVBORw0KGgogcmVzdA=="), hi),
			sdk.NewAssistantMessage(sdk.NewThinkingBlock("c2ln", "hm"), sdk.NewRedactedThinkingBlock("c2VjcmV0"), sdk.NewTextBlock("wait"), sdk.NewToolUseBlock("1", map[string]any{"a": 1}, "A"), sdk.NewToolUseBlock("2", map[string]any{"a": 2}, "A")),
			sdk.NewUserMessage(sdk.ContentBlockParamUnion{OfToolResult: &seen}, result),
		},
		Tools: []sdk.ToolUnionParam{{OfTool: &sdk.ToolParam{Name: "A", Description: sdk.String("does a"), CacheControl: sdk.NewCacheControlEphemeralParam(),
			InputSchema: sdk.ToolInputSchemaParam{Properties: map[string]any{"a": map[string]any{"type": "integer"}}, Required: []string{"a"}}}}},
	})
	for stream.Next() {
	}
	if d := cmp.Diff(decoded(t, theirs), decoded(t, ours)); d != "" {
		t.Errorf("the request (-theirs +ours):\n%s", d)
	}
}
