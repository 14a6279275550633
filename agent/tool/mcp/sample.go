//lint:file-ignore SA1019 sampling is deprecated since the protocol of 2026-07-28; servers still use it

package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/llm"
	"symbio/agent/tool"
)

const (
	// maxSampleMessages and maxSampleText limit what a server may ask the model, so that a person can read all of it. More
	// is refused, since a part would be another question.
	maxSampleMessages, maxSampleText = 20, 16 << 10
	// maxSampleTokens limits an answer, whatever the server asks for: several pages.
	maxSampleTokens = 4 << 10
	// sampleRefused is the protocol's code for a request that the person refused.
	sampleRefused = -1
)

// sample asks the model of the agent whose call a request of the server belongs to, if the rules or the person allow that.
// The model has no tools and nothing of the agent's conversation. With protocols before the one of 2026-07-28 a request does
// not say to which call it belongs; it is then refused while several agents use the server, since the wrong one would pay.
// The errors are for the server: they do not tell it why this node refused.
func (s *server) sample(ctx context.Context, r *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
	refuse := func(why string) (*sdk.CreateMessageResult, error) {
		return nil, &jsonrpc.Error{Code: sampleRefused, Message: "the model was not asked: " + why}
	}
	ask, shown, err := sampleRequest(r.Params)
	if err != nil {
		return refuse(err.Error())
	}
	call := s.calls.find(ctx)
	if call == nil || call != ctx && s.calls.haveSeveralAgents() {
		return refuse("there is not exactly one agent that calls this server")
	}
	noted := map[string]any{"messages": len(ask.Messages), "max_tokens": ask.MaxTokens}
	call, end := s.calls.beginAnswer(ctx, call)
	defer end()
	answer, err := tool.Sample(call, ServerPart(s.entry.Name), shown, noted, ask)
	switch {
	case errors.Is(err, tool.ErrNotAllowed):
		return refuse(err.Error())
	case err != nil || answer.Stop == llm.StopFilter:
		return refuse("it did not answer")
	}
	reason := "endTurn"
	if answer.Stop == llm.StopLength {
		reason = "maxTokens"
	}
	return &sdk.CreateMessageResult{Role: "assistant", Model: cmp.Or(answer.Usage.Model, "unknown"), StopReason: reason,
		Content: &sdk.TextContent{Text: answer.Message.Text}}, nil
}

// sampleRequest returns what a server asks the model, in a printable form, and the same as a person is shown it.
func sampleRequest(p *sdk.CreateMessageParams) (ask llm.Request, shown map[string]any, err error) {
	if p.MaxTokens < 1 || len(p.Messages) == 0 || len(p.Messages) > maxSampleMessages {
		return ask, nil, fmt.Errorf("it takes 1 to %d messages, and at least a token for the answer", maxSampleMessages)
	}
	ask = llm.Request{System: tool.Readable([]byte(p.SystemPrompt)), MaxTokens: int(min(p.MaxTokens, maxSampleTokens)), Thinking: -1}
	size, lines := len(p.SystemPrompt), []any{}
	for _, m := range p.Messages {
		text, ok := m.Content.(*sdk.TextContent)
		if !ok || !slices.Contains([]llm.Role{llm.User, llm.Assistant}, llm.Role(m.Role)) {
			return ask, nil, errors.New("it takes texts of the roles user and assistant alone")
		}
		size += len(text.Text)
		one := llm.Message{Role: llm.Role(m.Role), Text: tool.Readable([]byte(text.Text))}
		ask.Messages, lines = append(ask.Messages, one), append(lines, string(one.Role)+": "+one.Text)
	}
	if size > maxSampleText {
		return ask, nil, fmt.Errorf("it takes %d KiB of text", maxSampleText>>10)
	}
	return ask, map[string]any{"system": ask.System, "messages": lines, "max_tokens": ask.MaxTokens}, nil
}
