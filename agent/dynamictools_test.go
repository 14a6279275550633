package agent_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
)

func named(name string) tool.Tool {
	return tool.New(tool.Spec{Name: name}, func(context.Context, struct{}) tool.Result { return tool.Result{Text: name + " ran"} })
}

func TestToolsThatComeAndGoAreThereFromTheNextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen [][]string
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			var more []string
			for _, s := range r.Tools {
				if strings.HasPrefix(s.Name, "mcp__") {
					more = append(more, s.Name)
				}
			}
			seen = append(seen, more)
			if last(r).Role != llm.Tool {
				return llm.Message{Calls: []llm.ToolCall{use("1", "mcp__a__b", struct{}{}), use("2", "mcp__c__d", struct{}{})}}, nil
			}
			return say(last(r).Results[0].Text + " " + last(r).Results[1].Text)
		})
		h := newHouse(t, model)
		turn := 0
		factory := agent.NewFactory(agent.Config{
			Community: h.community, Dir: "/work",
			Model: func(context.Context, string) (llm.Model, error) { return model, nil },
			DynamicTools: func(context.Context) []tool.Tool {
				turn++
				if turn == 1 {
					return []tool.Tool{named("mcp__a__b"), named("mcp__x__y"), named("replicate_agent")}
				}
				return []tool.Tool{named("mcp__c__d")}
			},
		})
		ask := func(def definition.Definition) string {
			seen, turn = nil, 0
			m, err := factory.Spawn(t.Context(), agent.Order{Definition: def, Policy: allowed(t, "mcp__a__*", "mcp__c__*")})
			if err != nil {
				t.Fatal(err)
			}
			r, err := h.community.Send(t.Context(), m.ID, community.Signal{Perception: m.Accepts[0], Data: []byte("go")})
			if err != nil {
				t.Fatal(err)
			}
			return string(r.Data)
		}
		all := definition.General()
		if got := ask(all); !strings.HasPrefix(got, `mcp__a__b ran There is no tool "mcp__c__d"`) {
			t.Errorf("got %q", got)
		}
		if want := [][]string{{"mcp__a__b", "mcp__x__y"}, {"mcp__c__d"}}; !slices.EqualFunc(seen, want, slices.Equal) {
			t.Errorf("the model saw %v, want %v", seen, want)
		}
		all.Tools = []string{"mcp__a__*"}
		ask(all)
		if want := [][]string{{"mcp__a__b"}, nil}; !slices.EqualFunc(seen, want, slices.Equal) {
			t.Errorf("with a list of tools the model saw %v, want %v", seen, want)
		}
		all.Tools = []string{"Read", "*"}
		ask(all)
		if turn != 0 || len(seen[0]) != 0 {
			t.Errorf("without any of them on its list: asked for %d times, and saw %v", turn, seen)
		}
	})
}
