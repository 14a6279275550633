package conversation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"testing"
	"time"

	"symbio/agent/conversation"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/security/permission"
)

// instant is a model that answers at once: with a call in each turn but the last of each exchange.
type instant struct {
	turns int
	n     int
	ids   []string
}

func (*instant) Name() string { return "instant" }

func (m *instant) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if m.n++; m.n%m.turns != 0 {
			call := &llm.ToolCall{ID: m.ids[m.n%len(m.ids)], Name: "add", Args: json.RawMessage(`{"a":1,"b":2}`)}
			yield(llm.Chunk{Call: call, Stop: llm.StopTools}, nil)
			return
		}
		yield(llm.Chunk{Text: "3", Stop: llm.StopEnd}, nil)
	}
}

type addArgs struct {
	A int `json:"a"`
	B int `json:"b"`
}

// guarded are tools as an agent has them: two links of rules, every call told, decided, recorded and answered.
func guarded(b *testing.B, heard *int) *tool.Set {
	rule, err := permission.ParseRule("add")
	if err != nil {
		b.Fatal(err)
	}
	policy := permission.Policy{Allow: []permission.Rule{rule}}
	add := tool.New(tool.Spec{Name: "add"}, func(_ context.Context, a addArgs) tool.Result { return tool.Result{Text: fmt.Sprint(a.A + a.B)} })
	return tool.NewSet(tool.SetConfig{
		Guard:      permission.Chain{{Name: "parent", Policy: policy}, {Name: "own", Policy: policy}},
		OnCall:     func(llm.ToolCall) { *heard++ },
		OnDecision: func(tool.Decision) error { *heard++; return nil },
		OnResult:   func(llm.ToolResult, tool.FileDiff) { *heard++ },
	}, add)
}

func median(of []time.Duration) time.Duration { slices.Sort(of); return of[len(of)/2] }

// BenchmarkExchange is an exchange with one call of a tool, and one with ten, as a ratio to the loop written by hand.
func BenchmarkExchange(b *testing.B) {
	for _, turns := range []int{2, 11} {
		b.Run(fmt.Sprintf("calls=%d", turns-1), func(b *testing.B) {
			ids := make([]string, 64)
			for i := range ids {
				ids[i] = fmt.Sprint("c", i)
			}
			heard := 0
			set := guarded(b, &heard)
			byHand := map[string]func(json.RawMessage) (string, error){"add": func(raw json.RawMessage) (string, error) {
				var a addArgs
				err := json.Unmarshal(raw, &a)
				return fmt.Sprint(a.A + a.B), err
			}}
			floor := func() {
				if _, err := askByHand(b.Context(), &instant{turns: turns, ids: ids}, byHand, "add"); err != nil {
					b.Fatal(err)
				}
			}
			ours := func() {
				c := conversation.New(conversation.Config{Model: &instant{turns: turns, ids: ids}, Tools: set, Watch: func(context.Context, event.Event) { heard++ }})
				if _, err := c.Send(context.Background(), "add"); err != nil {
					b.Fatal(err)
				}
			}
			const rounds = 9
			each := max(1, b.N/rounds)
			var floors, candidates []time.Duration
			measure := func(f func()) time.Duration {
				began := time.Now()
				for range each {
					f()
				}
				return time.Since(began)
			}
			for b.Loop() {
				ours()
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			measure(ours)
			runtime.ReadMemStats(&after)
			for range rounds {
				floors, candidates = append(floors, measure(floor)), append(candidates, measure(ours))
			}
			b.ReportMetric(float64(median(candidates))/float64(median(floors)), "x-floor")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(each)/float64(turns-1), "allocs/call")
		})
	}
}
