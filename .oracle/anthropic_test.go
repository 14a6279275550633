package oracle_test

import (
	"context"
	"net/http"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"symbio/agent/llm"
	"symbio/internal/agent/llm/anthropic"
	"symbio/internal/agent/llm/wire"
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
	m, err := anthropic.New(anthropic.Config{MaxTokens: 100, Config: wire.Config{BaseURL: "http://127.0.0.1:1", Model: "m", Key: llm.NewSecret("the-key"), HTTP: &http.Client{Transport: s}}})
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
	compare(t, "../internal/agent/llm/anthropic/testdata", anthropicModel, anthropicAnswer, stops, map[string]string{
		"bad-arguments": "they fail", "known-ids": "theirs knows no conversation", "max-tokens": "half a call is none here", "max-tokens-at-a-call": "likewise",
		"thinking-unsigned": "nobody takes it back", "no-block-start": "they fail",
		"document": "theirs was asked for a stream", "document-error": "", "document-without-answer": "", "html": "", "other-wire": "", "no-stop-reason": "",
		"pause-turn": "an answer that is not whole, which a conversation resumes", "refusal-explained": "the explanation is the text here",
		"cut": "half an answer passes for a whole one there", "cut-in-a-call": "", "cut-in-an-event": "",
	})
}
