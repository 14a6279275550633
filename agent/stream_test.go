package agent_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"

	"github.com/google/go-cmp/cmp"
)

// listen gives an agent a task as another node does that listens.
func (h *house) listen(m community.Member, text string) (output string, progress []string, r community.Reply, err error) {
	r, err = h.community.Serve(h.t.Context(), community.Peer{ID: "cc000000000000000000000000000000"}, community.Call{
		Member: m.ID, Capability: community.PerceptionPrefix + "task", Payload: []byte(text),
		Listen: func(u community.Update) {
			if u.Output == nil {
				progress = append(progress, u.Progress.Message)
			}
			output += string(u.Output)
		},
	})
	return output, progress, r, err
}

func TestTaskListenerReceivesTextAndCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deep := tool.New(tool.Spec{Name: "deep"}, func(ctx context.Context, _ struct{}) tool.Result {
			// What works for this call has a caller of its own, the agent.
			community.Report(ctx, community.Progress{Message: "not for the agent's caller"})
			if err := community.Emit(ctx, []byte("nor this"), ""); err != nil {
				t.Error(err)
			}
			tool.Report(ctx, community.Progress{Message: "half", Done: 1, Total: 2})
			return tool.Result{Text: "it is deep"}
		})
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			switch m := last(r); {
			case m.Role != llm.Tool:
				return llm.Message{Text: "I look.", Calls: []llm.ToolCall{use("1", "deep", struct{}{})}}, nil
			case m.Results[0].Text != "it is deep":
				return llm.Message{}, errors.New("the model reads more than the result: " + m.Results[0].Text)
			}
			return say("It is deep.")
		}), deep)
		output, progress, r, err := h.listen(h.spawn(agent.Order{Policy: allowed(t, "deep")}), "go")
		if err != nil || string(r.Data) != "It is deep." || output != "I look.\n\nIt is deep." {
			t.Errorf("the answer is %q, %v, after the output %q", r.Data, err, output)
		}
		if diff := cmp.Diff([]string{"asks for deep"}, progress); diff != "" {
			t.Errorf("other progress is told (-want +got):\n%s", diff)
		}
		events := h.seen(event.TypeProgress)
		if len(events) != 1 || events[0].Text != "half" || !reflect.DeepEqual(events[0].Part, event.Tool{Tool: "deep", Call: "1", Done: 1, Total: 2}) {
			t.Errorf("the progress of the tool is %+v", events)
		}
	})
}
