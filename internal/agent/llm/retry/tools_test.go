package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/retry"
)

// picky is a server that refuses tools by their schemas, as real ones do. Its answer is the names of the tools that it was sent.
type picky struct {
	refuses func(llm.ToolSpec) bool
	says    string // with the place and the name of the tool
	status  int
	kind    error
	asked   int
	system  string
}

func (p *picky) model() llm.Model {
	return llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		p.asked++
		p.system = r.System
		var names []string
		for i, t := range r.Tools {
			if p.refuses(t) {
				says := strings.NewReplacer("INDEX", fmt.Sprint(i), "NAME", t.Name).Replace(p.says)
				return llm.Response{}, &llm.Error{Model: "func", Status: p.status, Detail: says, Err: p.kind}
			}
			names = append(names, t.Name)
		}
		return llm.Response{Message: llm.Message{Text: strings.Join(names, " ")}}, nil
	})
}

func TestToolThatAServerRefusesIsMadePlainOrLeftOut(t *testing.T) {
	tool := func(name, schema string) llm.ToolSpec {
		return llm.ToolSpec{Name: name, Schema: json.RawMessage(schema)}
	}
	odd := `{"type":"object","properties":{"a":{"type":"string","format":"odd"}},"anyOf":[{"required":["a"]}]}`
	tools := []llm.ToolSpec{tool("Read", `{"type":"object"}`), tool("mcp__sequential-thinking__think", odd), tool("mcp__s__image", odd), tool("Write", `{"type":"object"}`)}
	has := func(words ...string) func(llm.ToolSpec) bool {
		return func(t llm.ToolSpec) bool {
			return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(string(t.Schema)+t.Name, w) })
		}
	}
	for _, c := range []struct {
		name    string
		server  picky
		answers string
		asked   int
		told    int
	}{
		{"Anthropic's, mended", picky{refuses: has(`"anyOf":`), says: "tools.INDEX.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", status: 400, kind: llm.ErrInvalid},
			"Read mcp__sequential-thinking__think mcp__s__image Write", 3, 0},
		{"OpenAI's, mended", picky{refuses: has(`"anyOf":`), says: "Invalid schema for function 'NAME': schema must have type 'object' and not have 'oneOf'/'anyOf' at the top level.", status: 400, kind: llm.ErrInvalid},
			"Read mcp__sequential-thinking__think mcp__s__image Write", 3, 0},
		{"Google's, mended", picky{refuses: has(`"format":`), says: "* GenerateContentRequest.tools[0].function_declarations[INDEX].parameters.properties[a].format: only 'enum' and 'date-time' are supported", status: 400, kind: llm.ErrInvalid},
			"Read mcp__sequential-thinking__think mcp__s__image Write", 3, 0},
		{"a pydantic list, left out", picky{refuses: has("image"), says: `[{"loc":["body","tools",INDEX,"function"],"msg":"no such parameters"}]`, status: 422, kind: llm.ErrInvalid},
			"Read mcp__sequential-thinking__think Write", 3, 1},
		{"by its name, left out", picky{refuses: has("image", "thinking"), says: "the tool NAME is not wanted", status: 400, kind: llm.ErrInvalid},
			"Read Write", 4, 2},
		{"one of the agent's own", picky{refuses: has("Write"), says: "function `NAME` is not wanted", status: 400, kind: llm.ErrInvalid},
			"Read mcp__sequential-thinking__think mcp__s__image", 3, 1},
		{"llama.cpp's, which names none", picky{refuses: has(`"anyOf":`), says: "JSON schema conversion failed: Unrecognized schema", status: 400, kind: llm.ErrInvalid},
			"Read mcp__sequential-thinking__think mcp__s__image Write", 2, 0},
		{"one that mending does not help and that names none", picky{refuses: has("image"), says: "failed to parse the grammar", status: 400, kind: llm.ErrInvalid}, "", 2, 0},
		{"nothing about tools", picky{refuses: has("image"), says: "max_tokens is too large; Read the manual", status: 400, kind: llm.ErrInvalid}, "", 1, 0},
		{"a wrong key", picky{refuses: has("image"), says: "tools.INDEX", status: 401, kind: llm.ErrAuth}, "", 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			book := new(retry.Book)
			ask := func(asked, told int) {
				t.Helper()
				c.server.asked = 0
				var notes []string
				got, err := llm.Collect(retry.New(retry.Config{Book: book, Patience: -1}, c.server.model()).Stream(t.Context(), llm.Request{System: "S.", Tools: tools}), func(chunk llm.Chunk) {
					if chunk.Retry != nil {
						notes = append(notes, chunk.Retry.Err.Error())
					}
				})
				if c.answers == "" && !errors.Is(err, c.server.kind) || c.answers != "" && err != nil || got.Message.Text != c.answers {
					t.Errorf("%q, %v; want %q", got.Message.Text, err, c.answers)
				}
				if c.server.asked != asked || len(notes) != told {
					t.Errorf("asked %d times, told %q; want %d, %d", c.server.asked, notes, asked, told)
				}
				for _, note := range notes {
					if !strings.Contains(note, "is left out, because the model's server does not take its description: model func: the request was rejected (status ") {
						t.Errorf("the person is told %q", note)
					}
				}
				if says := strings.Contains(c.server.system, "These tools exist, but cannot be used now"); says != (told > 0) || told > 0 && !strings.HasPrefix(c.server.system, "S.\n\n") {
					t.Errorf("the model is told %q", c.server.system)
				}
			}
			ask(c.asked, c.told)
			if c.answers != "" {
				ask(1, c.told) // another agent of the node
			}
		})
	}
	if _, is := llm.RefusedTool(&llm.Error{Err: llm.ErrInvalid, Detail: "tools.9.custom"}, tools); is {
		t.Error("a place that no tool has is one")
	}
}

// Many tools that a server refuses by their names are left out in few requests.
func TestToolsOfMCPServersAreLeftOutTogetherIfManyAreRefused(t *testing.T) {
	for _, c := range []struct {
		own     string // the name of a tool that is refused, too
		asked   int
		answers string
	}{{"", 10, "Read"}, {"Read", 1 + 10, ""}} {
		server := picky{refuses: func(t llm.ToolSpec) bool { return strings.Contains(t.Name, "__") || t.Name == c.own }, says: "tools.INDEX", status: 400, kind: llm.ErrInvalid}
		var tools []llm.ToolSpec
		for i := range 100 {
			tools = append(tools, llm.ToolSpec{Name: fmt.Sprint("mcp__s__", i), Schema: json.RawMessage(`"none"`)})
		}
		tools = append(tools, llm.ToolSpec{Name: "Read", Schema: json.RawMessage(`"none"`)})
		got, err := llm.Collect(retry.New(retry.Config{Patience: -1}, server.model()).Stream(t.Context(), llm.Request{Tools: tools}), nil)
		if got.Message.Text != c.answers || (err == nil) != (c.answers != "") || server.asked > c.asked {
			t.Errorf("%q, %v after %d requests, want %q after at most %d", got.Message.Text, err, server.asked, c.answers, c.asked)
		}
	}
}

// What earlier requests over a Book found does not count for a later one.
func TestToolIsLeftOutHoweverManyWereBefore(t *testing.T) {
	server := picky{refuses: func(t llm.ToolSpec) bool { return t.Name != "Read" }, says: "tools.INDEX", status: 400, kind: llm.ErrInvalid}
	book := new(retry.Book)
	tools := []llm.ToolSpec{{Name: "Read", Schema: json.RawMessage(`"none"`)}}
	for _, more := range []struct {
		name string
		n    int
	}{{"mcp__s__%d", 20}, {"mcp__new__%d", 1}, {"Own%d", 1}} {
		for n := range more.n {
			tools = append(tools, llm.ToolSpec{Name: fmt.Sprintf(more.name, n), Schema: json.RawMessage(`"none"`)})
		}
		got, err := llm.Collect(retry.New(retry.Config{Book: book, Patience: -1}, server.model()).Stream(t.Context(), llm.Request{Tools: tools}), nil)
		if got.Message.Text != "Read" || err != nil {
			t.Errorf("with %s: %q, %v", tools[len(tools)-1].Name, got.Message.Text, err)
		}
	}
}

// The forms of the tools of an agent stay known while others of the node use theirs.
func TestKnownToolsAreCountedOnce(t *testing.T) {
	server := picky{refuses: func(t llm.ToolSpec) bool { return strings.Contains(string(t.Schema), "anyOf") }, says: "JSON schema conversion failed", status: 400, kind: llm.ErrInvalid}
	book := new(retry.Book)
	for i, c := range []struct{ agent, tools, asked int }{{1, 500, 2}, {2, 300, 2}, {2, 300, 1}, {1, 500, 1}, {3, 300, 2}, {1, 500, 2}} {
		var tools []llm.ToolSpec
		for n := range c.tools {
			tools = append(tools, llm.ToolSpec{Name: fmt.Sprintf("mcp__%d__%d", c.agent, n), Schema: json.RawMessage(`{"type":"object","anyOf":[{"required":["a"]}]}`)})
		}
		server.asked = 0
		if _, err := llm.Collect(retry.New(retry.Config{Book: book, Patience: -1}, server.model()).Stream(t.Context(), llm.Request{Tools: tools}), nil); err != nil || server.asked != c.asked {
			t.Errorf("request %d, of agent %d: %d requests, want %d, %v", i, c.agent, server.asked, c.asked, err)
		}
	}
}

// Agents that share a Model, each with its own tools, are told once of each tool that is left out.
func TestToolThatIsLeftOutIsToldOnce(t *testing.T) {
	server := picky{refuses: func(t llm.ToolSpec) bool { return t.Name != "Read" }, says: "tools.INDEX", status: 400, kind: llm.ErrInvalid}
	model, told := retry.New(retry.Config{Patience: -1}, server.model()), 0
	for _, name := range []string{"mcp__a", "mcp__b", "mcp__a", "mcp__b"} {
		tools := []llm.ToolSpec{{Name: "Read", Schema: json.RawMessage(`"none"`)}, {Name: name, Schema: json.RawMessage(`"none"`)}}
		if _, err := llm.Collect(model.Stream(t.Context(), llm.Request{Tools: tools}), func(c llm.Chunk) {
			if c.Retry != nil {
				told++
			}
		}); err != nil {
			t.Error(err)
		}
	}
	if told != 2 {
		t.Errorf("told %d times, want 2", told)
	}
}
