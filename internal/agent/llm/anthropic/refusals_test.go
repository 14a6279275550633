package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/anthropic"
)

// asked is the part of a request that says how the model thinks.
type asked struct {
	MaxTokens int `json:"max_tokens"`
	Thinking  *struct {
		Type    string
		Display string
		Budget  int `json:"budget_tokens"`
	}
	Config *struct {
		Effort string
		Format *struct{ Type string }
	} `json:"output_config"`
	Choice   *struct{ Type string } `json:"tool_choice"`
	Messages []struct{ Content []struct{ Type, Text string } }
}

// String names the form of a request in a few words.
func (a asked) String() string {
	var words []string
	if a.Thinking != nil {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s %s", a.Thinking.Type, strings.TrimPrefix(fmt.Sprint(a.Thinking.Budget), "0"))))
	}
	if a.Config != nil && a.Config.Effort != "" {
		words = append(words, "effort "+a.Config.Effort)
	}
	if a.Config != nil && a.Config.Format != nil {
		words = append(words, "format "+a.Config.Format.Type)
	}
	if a.Choice != nil {
		words = append(words, "forced "+a.Choice.Type)
	}
	return strings.Join(words, ", ")
}

// refusing returns the model of that name at a server that refuses requests with what refuse returns, and
// the requests that it got.
func refusing(t *testing.T, name string, refuse func(asked) string) (*anthropic.Model, *[]string) {
	var list []string
	m := served(t, func(r *http.Request) (*http.Response, error) {
		var a asked
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			t.Error(err)
		}
		list = append(list, a.String())
		if message := refuse(a); message != "" {
			b, err := json.Marshal(map[string]any{"type": "error", "error": map[string]string{"type": "invalid_request_error", "message": message}})
			return reply(400, "application/json", strings.NewReader(string(b))), err
		}
		return reply(200, "", strings.NewReader(`{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}`)), nil
	}, func(c *anthropic.Config) { c.Model, c.Config.Name = name, "" })
	return m, &list
}

// The servers' own words, as people report them.
const (
	onlyAdaptive = `"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`
	onlyBudget   = "adaptive thinking is not supported on this model"
	noEffort     = "This model does not support the effort parameter."
	noThinking   = "'m' does not support thinking."
)

// refuseBudget and refuseAdaptive are the service with a model of today and with one of yesterday.
func refuseBudget(a asked) string {
	if a.Thinking != nil && a.Thinking.Type == "enabled" {
		return onlyAdaptive
	}
	return ""
}

func refuseAdaptive(a asked) string {
	switch {
	case a.Thinking != nil && a.Thinking.Type == "adaptive":
		return onlyBudget
	case a.Config != nil && a.Config.Effort != "":
		return noEffort
	}
	return ""
}

func TestRefusedFormOfThinkingIsNotAskedForAgain(t *testing.T) {
	think, effort := llm.Request{Thinking: 8000}, llm.Request{Effort: "medium"}
	form := llm.Request{Effort: "low", Output: &llm.Output{Name: "x", Schema: json.RawMessage(`{"type":"object"}`)}}
	for _, c := range []struct {
		name, model string
		r           llm.Request
		refuse      func(asked) string
		want        []string // the requests of three turns
	}{
		{"budget refused", "new", think, refuseBudget, []string{"enabled 8000", "adaptive, effort medium", "adaptive, effort medium", "adaptive, effort medium"}},
		{"budget refused to an effort", "new", effort, refuseBudget, []string{"enabled 8192", "adaptive, effort medium", "adaptive, effort medium", "adaptive, effort medium"}},
		{"adaptive refused", "claude-opus-5", effort, refuseAdaptive, []string{"adaptive, effort medium", "enabled 8192", "enabled 8192", "enabled 8192"}},
		{"known as adaptive", "claude-sonnet-4-6", think, refuseBudget, slices.Repeat([]string{"adaptive, effort medium"}, 3)},
		{"known as one with a budget", "claude-haiku-4-5-20251001", effort, refuseAdaptive, slices.Repeat([]string{"enabled 8192"}, 3)},
		{"no thoughts at all", "m", think, func(a asked) string {
			if a.Thinking != nil {
				return noThinking
			}
			return ""
		}, []string{"enabled 8000", "adaptive, effort medium", "", "", ""}},
		{"effort refused", "claude-opus-5", effort, func(a asked) string {
			if a.Config != nil {
				return "output_config: Extra inputs are not permitted"
			}
			return ""
		}, []string{"adaptive, effort medium", "adaptive", "adaptive", "adaptive"}},
		{"structured answer", "claude-opus-5", form, refuseBudget, slices.Repeat([]string{"adaptive, effort low, format json_schema"}, 3)},
		{"structured answer by a tool", "m", form, refuseAdaptive, slices.Repeat([]string{"forced tool"}, 3)},
		{"schema refused", "claude-opus-5", form, func(a asked) string {
			switch {
			case a.Choice != nil:
				return "Thinking may not be enabled when tool_choice forces tool use."
			case a.Config != nil && a.Config.Format != nil:
				return "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
			case !strings.Contains(a.Messages[0].Content[1].Text, "JSON schema"):
				return "it is not asked for in words"
			}
			return ""
		}, []string{"adaptive, effort low, format json_schema", "adaptive, effort low", "adaptive, effort low", "adaptive, effort low"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, got := refusing(t, c.model, c.refuse)
			c.r.Messages = []llm.Message{{Role: llm.User, Text: "hi"}}
			for range 3 {
				if _, err := llm.Collect(m.Stream(t.Context(), c.r), nil); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(c.want, *got); d != "" {
				t.Errorf("requests (-want +got):\n%s", d)
			}
		})
	}
}

func TestServerThatRefusesEachFormEndsTheRequest(t *testing.T) {
	m, got := refusing(t, "claude-opus-5", func(asked) string { return "thinking, effort, output_config.format: no" })
	_, err := llm.Collect(m.Stream(t.Context(), llm.Request{Effort: "high", Output: &llm.Output{Name: "x"}}), nil)
	if !errors.Is(err, llm.ErrInvalid) || len(*got) > 6 {
		t.Errorf("%v after %q, want the refusal after at most 6 requests", err, *got)
	}
}

func TestThoughtsThatTheServerDoesNotKnowAreLeftOut(t *testing.T) {
	for _, model := range []string{"m", "claude-opus-5"} {
		var bodies []string
		m := served(t, func(r *http.Request) (*http.Response, error) {
			b, err := io.ReadAll(r.Body)
			if bodies = append(bodies, string(b)); strings.Contains(string(b), `"signature"`) {
				return reply(400, "", strings.NewReader("{\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages.1.content.0: Invalid `signature` in `thinking` block\"}}")), err
			}
			return reply(200, "", strings.NewReader(`{"type":"message","content":[],"stop_reason":"end_turn"}`)), err
		}, func(c *anthropic.Config) { c.Model = model })
		r := llm.Request{Thinking: 2000, Messages: []llm.Message{{Role: llm.User, Text: "hi"},
			{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "1", Name: "A"}}, Thinking: []llm.Thinking{{Model: "anthropic:" + model, Text: "a", Signature: "s"}}},
			{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1"}}}}}
		if _, err := llm.Collect(m.Stream(t.Context(), r), nil); err != nil || len(bodies) != 2 || r.Messages[1].Thinking == nil {
			t.Errorf("%s: %v after %d requests", model, err, len(bodies))
		}
	}
}

func TestThoughtsBetweenCallsAreAskedForWithBudget(t *testing.T) {
	tools := []llm.ToolSpec{{Name: "A"}}
	for _, c := range []struct {
		model string
		r     llm.Request
		want  string
	}{
		{"m", llm.Request{Thinking: 2000, Tools: tools}, "interleaved-thinking-2025-05-14"},
		{"m", llm.Request{Thinking: 2000}, ""}, {"m", llm.Request{Tools: tools}, ""}, {"claude-opus-5", llm.Request{Thinking: 2000, Tools: tools}, ""},
	} {
		var got string
		m := served(t, func(r *http.Request) (*http.Response, error) {
			got = r.Header.Get("Anthropic-Beta")
			return reply(401, "", strings.NewReader("")), nil
		}, func(cfg *anthropic.Config) { cfg.Model = c.model })
		_, _ = llm.Collect(m.Stream(t.Context(), c.r), nil)
		if got != c.want {
			t.Errorf("%s, %+v: beta %q, want %q", c.model, c.r, got, c.want)
		}
	}
}

func TestServerErrorsAreReadByType(t *testing.T) {
	for _, c := range []struct {
		kind   string
		status int
		want   error
	}{
		{"invalid_request_error", 400, llm.ErrInvalid}, {"authentication_error", 401, llm.ErrAuth}, {"billing_error", 402, llm.ErrQuota},
		{"permission_error", 403, llm.ErrAuth}, {"not_found_error", 404, llm.ErrNoModel}, {"request_too_large", 413, llm.ErrContextLength},
		{"rate_limit_error", 429, llm.ErrRateLimited}, {"api_error", 500, llm.ErrUnavailable}, {"timeout_error", 504, llm.ErrUnavailable},
		{"overloaded_error", 529, llm.ErrUnavailable},
	} {
		body := `{"type":"error","error":{"type":"` + c.kind + `","message":"no"},"request_id":"req_1"}`
		for way, answer := range map[string]*http.Response{
			"status": reply(c.status, "application/json", strings.NewReader(body)), "gateway": reply(502, "application/json", strings.NewReader(body)),
			"document": reply(200, "application/json", strings.NewReader(body)), "stream": reply(200, "text/event-stream", strings.NewReader("event: error\ndata: "+body+"\n\n")),
			"in the middle": reply(200, "text/event-stream", strings.NewReader("data: {\"type\":\"ping\"}\n\nevent: error\ndata: "+body+"\n\n")),
		} {
			m := served(t, func(*http.Request) (*http.Response, error) { return answer, nil })
			if _, err := llm.Collect(m.Stream(t.Context(), earlier), nil); !errors.Is(err, c.want) || !strings.Contains(err.Error(), "no") {
				t.Errorf("%s as %s: %v, want %v", c.kind, way, err, c.want)
			}
		}
	}
}
