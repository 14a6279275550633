package agent_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/event"
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
		var systems, notices []string
		waits, attended := 0, false
		model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			var more []string
			for _, s := range r.Tools {
				if strings.HasPrefix(s.Name, "mcp__") {
					more = append(more, s.Name)
				}
			}
			seen, systems = append(seen, more), append(systems, r.System)
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
			Report: func(e event.Event) {
				if e.Type == event.TypeNotice {
					notices = append(notices, e.Text)
				}
			},
			DynamicTools: func(_ context.Context, wait bool) ([]tool.Tool, map[string]string) {
				if !wait {
					turn++
				} else if waits++; turn != 1 {
					t.Error("waits although no server is starting")
				}
				if turn == 1 {
					return []tool.Tool{named("mcp__a__b"), named("mcp__x__y"), named("replicate_agent")}, map[string]string{"mcp__c__": "still starting", "mcp__z__": "does not start"}
				}
				return []tool.Tool{named("mcp__c__d")}, nil
			},
		})
		ask := func(def definition.Definition) string {
			seen, turn = nil, 0
			m, err := factory.Spawn(t.Context(), agent.Order{Definition: def, Attended: attended, Policy: allowed(t, "mcp__a__*", "mcp__c__*")})
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
		if !strings.Contains(systems[0], "not ready: mcp__c__* (still starting), mcp__z__* (does not start). You get") || strings.Contains(systems[1], "not ready") {
			t.Errorf("of missing tools the model is told %q", systems)
		}
		goesOn := "goes on without mcp__c__* (still starting), mcp__z__* (does not start); symbio mcp list --start says more"
		if want := []string{"waits for MCP servers that are still starting, for mcp__c__*", goesOn}; waits != 1 || !slices.Equal(notices, want) {
			t.Errorf("without a person it waits %d times, told %q; want %q", waits, notices, want)
		}
		attended, waits, notices = true, 0, nil
		if ask(all); waits != 0 || !slices.Equal(notices, []string{goesOn}) {
			t.Errorf("with a person it waits %d times, told %q", waits, notices)
		}
		all.Tools, systems = []string{"mcp__a__*"}, nil
		ask(all)
		if strings.Contains(systems[0], "not ready") {
			t.Error("the model is told of tools that it may not have")
		}
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
