package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
)

// sampler is a tool whose server asks the model with a prompt, as an MCP server does.
func sampler(got *[]error) tool.Tool {
	return tool.New(tool.Spec{Name: "remote"}, func(ctx context.Context, _ struct{}) tool.Result {
		answer, err := tool.Sample(ctx, "files", map[string]any{"messages": []any{"user: the server's words"}}, map[string]any{"messages": 1},
			llm.Request{System: "of the server", Messages: []llm.Message{{Role: llm.User, Text: "the server's words"}}, MaxTokens: 1000})
		*got = append(*got, err)
		return tool.Result{Text: "answered: " + answer.Message.Text, IsError: err != nil}
	})
}

// samplingModel calls the tool turns times, and answers a server.
func samplingModel(turns int) llm.Model {
	n := 0
	return llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		switch {
		case r.System == "of the server":
			return llm.Response{Message: llm.Message{Text: "for the server"}, Usage: llm.Usage{Input: 100, Output: 50}, Stop: llm.StopEnd}, nil
		case told(r):
			return llm.Response{Message: llm.Message{Text: "so far"}, Usage: llm.Usage{Input: 10, Output: 10}}, nil
		case n == turns:
			return llm.Response{Message: llm.Message{Text: "done: " + last(r).Results[0].Text}, Usage: llm.Usage{Input: 10, Output: 10}}, nil
		}
		n++
		return llm.Response{Message: llm.Message{Calls: []llm.ToolCall{use("", "remote", nil)}}, Usage: llm.Usage{Input: 10, Output: 10}}, nil
	})
}

func TestServerAsksModelWithinBudgetOfTask(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits budget.Limits
		allow  []string
		want   string
		spent  int64
	}{
		{"allowed", budget.Limits{}, []string{"remote", "mcp_sampling__files"}, "done: answered: for the server", 190},
		{"not allowed", budget.Limits{}, []string{"remote"}, "done: answered: ", 40},
		{"the tools of the server are allowed", budget.Limits{}, []string{"remote", "mcp__files__*"}, "done: answered: ", 40},
		{"two calls of the model are left, for the task", budget.Limits{ModelCalls: 2}, []string{"remote", "mcp_sampling__files"}, "so far", 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs []error
				h := newHouse(t, samplingModel(1), sampler(&errs))
				var kept []agent.RecordedDecision
				h.record = func(e agent.RecordedDecision) error { kept = append(kept, e); return nil }
				m := h.spawn(agent.Order{Policy: allowed(t, c.allow...), Limits: c.limits})
				got, err := h.task(m, "go")
				var over *budget.ExceededError
				if errors.As(err, &over) {
					got = over.Summary
				}
				if spent, _ := h.factory.Spent(m.ID); !strings.HasPrefix(got, c.want) || len(errs) != 1 || spent.Tokens != c.spent {
					t.Errorf("got %q, %v, %d tokens, the server %v; want %q and %d", got, err, spent.Tokens, errs, c.want, c.spent)
				}
				if len(kept) != 2 || kept[1].Tool != "mcp_sampling__files" || kept[1].Approved != (len(c.allow) == 2 && c.allow[1] == "mcp_sampling__files") || strings.Contains(string(kept[1].ShownArgs), "words") {
					t.Errorf("recorded is %+v", kept)
				}
			})
		})
	}
}

func TestSessionCountsWhatServerAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs []error
		h := newHouse(t, samplingModel(2), sampler(&errs))
		f := agent.NewFactory(agent.Config{Community: h.community, Journal: session.NewJournal(inMemory(t), "n"), Tools: []tool.Tool{sampler(&errs)}, Model: func(context.Context, string) (llm.Model, error) { return samplingModel(2), nil }})
		m, err := f.Spawn(t.Context(), agent.Order{Definition: definition.General(), Policy: allowed(t, "remote", "mcp_sampling__files")})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := h.task(m, "go"); err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if spent := f.Session(m.ID).Spent; spent.Tokens != 3*20+2*150 || spent.ModelCalls != 5 {
			t.Errorf("the session has %+v, want 5 calls and 360 tokens", spent)
		}
	})
}
