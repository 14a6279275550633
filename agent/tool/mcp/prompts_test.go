package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestPromptsAreListedAndFilledIn(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "texts", Version: "1"}, nil)
	server.AddPrompt(&sdk.Prompt{Name: "review", Description: "Reviews\n\x1b[2Ja file.",
		Arguments: []*sdk.PromptArgument{{Name: "file", Required: true}}},
		func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			if r.Params.Arguments["file"] == "" {
				return nil, errors.New("file is missing")
			}
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
				{Role: "user", Content: &sdk.TextContent{Text: "Review " + r.Params.Arguments["file"] + strings.Repeat("x", 100<<10)}},
				{Role: "assistant", Content: &sdk.ImageContent{}},
			}}, nil
		})
	server.AddPrompt(&sdk.Prompt{Name: "bad\nname"}, nil)
	for i := range 2 * maxPrompts {
		server.AddPrompt(&sdk.Prompt{Name: fmt.Sprintf("z%d", i)}, nil)
	}
	there := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(there.Close) // after the client has left
	m, ctx := run(t, Config{Servers: []Server{{Name: "texts", Type: HTTP, URL: there.URL}}})
	all, err := m.Prompts(ctx)
	if err != nil || len(all) != maxPrompts {
		t.Fatalf("%d prompts, %v", len(all), err)
	}
	want := Prompt{Command: "mcp__texts__review", Server: "texts", Name: "review", Description: "Reviews a file.",
		Arguments: []Argument{{Name: "file", Required: true}}}
	if d := cmp.Diff(want, all[0]); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	text, err := m.Prompt(ctx, "texts", "review", map[string]string{"file": "a.go"})
	if err != nil || !strings.HasPrefix(text, "Review a.gox") || !strings.Contains(text, "Assistant: [content that is no text]") ||
		len(text) > maxPromptText+200 {
		t.Errorf("%d bytes, %v: %.50s", len(text), err, text)
	}
	if _, err := m.Prompt(ctx, "texts", "review", nil); err == nil || !strings.Contains(err.Error(), "file is missing") {
		t.Error(err)
	}
	if _, err := m.Prompt(ctx, "none", "review", nil); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}
