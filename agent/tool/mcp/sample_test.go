//lint:file-ignore SA1019 see sample.go

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

// rules are a guard that allows the tools of servers, and asks about what else there is but for the names in allow.
type rules struct{ allow, deny []string }

func (r rules) Judge(c permission.Call) permission.Verdict {
	switch {
	case slices.Contains(r.deny, c.Tool):
		return permission.Verdict{Why: "rule of the test"}
	case strings.HasPrefix(c.Tool, "mcp__") || slices.Contains(r.allow, c.Tool):
		return permission.Verdict{Action: permission.Allow}
	}
	return permission.Verdict{Action: permission.Ask}
}

// sampled has a server ask the model during a call, with today's protocol or an older one. It returns what the call
// of the server's tool returned.
func sampled(t *testing.T, older bool, cfg tool.SetConfig, ask *sdk.CreateMessageParams) (result string) {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "asker"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "a"},
		func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			var got *sdk.CreateMessageResult
			if older {
				var err error
				if got, err = r.Session.CreateMessage(ctx, ask); err != nil {
					return nil, nil, err
				}
			} else if answer, ok := r.Params.InputResponses["m"].(*sdk.CreateMessageWithToolsResult); ok {
				got = &sdk.CreateMessageResult{Content: answer.Content[0], StopReason: answer.StopReason, Model: answer.Model}
			} else {
				return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"m": ask}}, nil, nil
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: got.Model + " " + got.StopReason + ": " +
				got.Content.(*sdk.TextContent).Text}}}, nil, nil
		})
	bubbled(t, Config{}, connectionTo(server, older), func(t *testing.T, ctx context.Context, m *Manager) {
		one, err := m.Tool(ctx, "s", "a")
		if err != nil {
			t.Fatal(err)
		}
		cfg.Agent = "ann"
		result = tool.NewSet(cfg, one).Run(ctx, []llm.ToolCall{{ID: "1", Name: "mcp__s__a", Args: json.RawMessage(`{}`)}})[0].Text
	})
	return result
}

func asks(texts ...string) *sdk.CreateMessageParams {
	p := &sdk.CreateMessageParams{MaxTokens: 100_000, SystemPrompt: "be\x1b[31m short", IncludeContext: "allServers"}
	for i, text := range texts {
		p.Messages = append(p.Messages, &sdk.SamplingMessage{Role: sdk.Role([]string{"user", "assistant"}[i%2]),
			Content: &sdk.TextContent{Text: text}})
	}
	return p
}

func TestServerAsksModelAsRulesAndPersonAllow(t *testing.T) {
	yes, no := tool.Answer{Allow: true, By: "terminal"}, tool.Answer{By: "terminal", Reason: "secret reason"}
	pays := func(err error, stop llm.Stop) func(context.Context, string, llm.Request) (llm.Response, error) {
		return func(context.Context, string, llm.Request) (llm.Response, error) {
			return llm.Response{Message: llm.Message{Text: "42"}, Stop: stop, Usage: llm.Usage{Model: "m"}}, err
		}
	}
	model := pays(nil, llm.StopEnd)
	for _, c := range []struct {
		name   string
		guard  rules
		answer *tool.Answer
		model  func(context.Context, string, llm.Request) (llm.Response, error)
		want   string
	}{
		{"the person says yes", rules{}, &yes, model, "m endTurn: 42"},
		{"the person says no", rules{}, &no, model, "it was not allowed"},
		{"no person", rules{}, nil, model, "it was not allowed"},
		{"a rule allows", rules{allow: []string{"mcp_sampling__s"}}, nil, model, "m endTurn: 42"},
		{"a rule denies", rules{deny: []string{"mcp_sampling__s"}}, &yes, model, "it was not allowed"},
		{"cut", rules{}, &yes, pays(nil, llm.StopLength), "m maxTokens: 42"},
		{"filtered", rules{}, &yes, pays(nil, llm.StopFilter), "it did not answer"},
		{"the model fails", rules{}, &yes, pays(errBroken, ""), "it did not answer"},
		{"no model", rules{}, &yes, nil, "it did not answer"},
	} {
		for _, older := range []bool{false, true} {
			cfg := tool.SetConfig{Guard: c.guard, Sample: c.model}
			if c.answer != nil {
				cfg.Ask = func(context.Context, tool.Decision) tool.Answer { return *c.answer }
			}
			got := sampled(t, older, cfg, asks("How much is it?"))
			if !strings.Contains(got, c.want) || strings.Contains(got, "secret") || strings.Contains(got, "rule of the test") {
				t.Errorf("%s, older %t: the server got %q, want %q", c.name, older, got, c.want)
			}
		}
	}
}

func TestPersonReadsAllThatServerAsksModel(t *testing.T) {
	var asked, decided []tool.Decision
	var sent llm.Request
	cfg := tool.SetConfig{
		Guard: rules{},
		Ask: func(_ context.Context, d tool.Decision) tool.Answer {
			asked = append(asked, d)
			return tool.Answer{Allow: true, By: "terminal"}
		},
		OnDecision: func(d tool.Decision) error { decided = append(decided, d); return nil },
		Sample: func(_ context.Context, _ string, r llm.Request) (llm.Response, error) {
			sent = r
			return llm.Response{}, nil
		},
	}
	sampled(t, true, cfg, asks("one\u202e", "two"))
	if want := "map[max_tokens:4096 messages:[user: one assistant: two] system:be short]"; len(asked) != 1 || asked[0].Tool != "mcp_sampling__s" || asked[0].CallID != "1?" || fmt.Sprint(asked[0].Args) != want {
		t.Errorf("the person was asked %+v, want %s", asked, want)
	}
	if len(sent.Messages) != 2 || sent.System != "be short" || sent.Messages[0].Text != "one" || sent.Messages[1].Role != llm.Assistant ||
		sent.MaxTokens != 4096 || sent.Tools != nil {
		t.Errorf("the model was sent %+v", sent)
	}
	if len(decided) != 2 || !decided[1].Approved || fmt.Sprint(decided[1].Args) != "map[max_tokens:4096 messages:2]" {
		t.Errorf("recorded is %+v, want nothing of the text", decided)
	}
}

func TestRequestsToModelAreBounded(t *testing.T) {
	picture := asks("a")
	picture.Messages[0].Content = &sdk.ImageContent{MIMEType: "image/png", Data: []byte("x")}
	role := asks("a")
	role.Messages[0].Role = "system"
	none := asks("a")
	none.MaxTokens = 0
	system := asks("a")
	system.SystemPrompt = strings.Repeat("x", maxSampleText)
	for name, p := range map[string]*sdk.CreateMessageParams{
		"no message": asks(), "many messages": asks(make([]string, maxSampleMessages+1)...), "long text": asks(strings.Repeat("x", maxSampleText)), "long system prompt": system,
		"picture": picture, "other role": role, "no tokens": none,
	} {
		if ask, shown, err := sampleRequest(p); err == nil || shown != nil {
			t.Errorf("%s: got %+v, want an error", name, ask)
		}
	}
}

func TestServerOfSeveralAgentsDoesNotAskModel(t *testing.T) {
	s := newServer(New(Config{}), Server{Name: "s", Command: "x", Type: Stdio})
	sample := func() (got string) {
		r, err := s.sample(t.Context(), &sdk.CreateMessageRequest{Params: asks("x")})
		if err != nil {
			return err.Error()
		}
		return r.Content.(*sdk.TextContent).Text
	}
	// call runs then during a call of the server by an agent.
	call := func(agent string, then func()) {
		one := tool.New(tool.Spec{Name: "mcp__s__a"}, func(ctx context.Context, _ struct{}) tool.Result {
			_, over, err := s.calls.add(ctx, s.entry.Name, ignore)
			if err != nil {
				t.Error(err)
				return tool.Result{}
			}
			defer over()
			then()
			return tool.Result{}
		})
		cfg := tool.SetConfig{Guard: rules{allow: []string{"mcp_sampling__s"}}, Agent: agent,
			Sample: func(context.Context, string, llm.Request) (llm.Response, error) {
				return llm.Response{Message: llm.Message{Text: "of " + agent}}, nil
			}}
		tool.NewSet(cfg, one).Run(t.Context(), []llm.ToolCall{{ID: "1", Name: "mcp__s__a", Args: json.RawMessage(`{}`)}})
	}
	if got := sample(); !strings.Contains(got, "not exactly one agent") {
		t.Errorf("without a call: got %q", got)
	}
	call("ann", func() {
		if got := sample(); got != "of ann" {
			t.Errorf("of one agent: got %q", got)
		}
		call("bob", func() {
			if got := sample(); !strings.Contains(got, "not exactly one agent") {
				t.Errorf("of two agents: got %q", got)
			}
		})
	})
}
