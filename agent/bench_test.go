package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/audit"
	"symbio/security/permission"
)

// lookupArgs are those of the tool that the loops call.
type lookupArgs struct {
	City string `json:"city"`
}

func lookup(a lookupArgs) string { return "sunny in " + a.City }

// caller is a model that answers at once: it asks for a lookup until as many results are there as it says, then it is
// done.
type caller int

func (caller) Name() string { return "caller" }

func (c caller) Stream(_ context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		answered := 0
		for i := len(r.Messages) - 1; r.Messages[i].Role != llm.User; i-- {
			if r.Messages[i].Role == llm.Tool {
				answered++
			}
		}
		if answered < int(c) {
			if yield(llm.Chunk{Call: &lookups[answered]}, nil) {
				yield(llm.Chunk{Stop: llm.StopTools}, nil)
			}
			return
		}
		if yield(llm.Chunk{Text: "It is sunny."}, nil) {
			yield(llm.Chunk{Stop: llm.StopEnd}, nil)
		}
	}
}

// lookups are the calls of a caller.
var lookups = func() (all [10]llm.ToolCall) {
	for i := range all {
		all[i] = llm.ToolCall{ID: fmt.Sprintf("call-%d", i), Name: "lookup", Args: json.RawMessage(`{"city":"Kyoto"}`)}
	}
	return all
}()

// minimal is the loop that anybody writes by hand: ask the model, run what it asks for, ask again. It checks nothing,
// tells nobody and remembers nothing.
func minimal(ctx context.Context, model llm.Model, tools map[string]func(json.RawMessage) (string, error), task string) (string, error) {
	messages := []llm.Message{{Role: llm.User, Text: task}}
	for {
		answer := llm.Message{Role: llm.Assistant}
		for c, err := range model.Stream(ctx, llm.Request{Messages: messages}) {
			if err != nil {
				return "", err
			}
			answer.Text += c.Text
			if c.Call != nil {
				answer.Calls = append(answer.Calls, *c.Call)
			}
		}
		messages = append(messages, answer)
		if len(answer.Calls) == 0 {
			return answer.Text, nil
		}
		var results []llm.ToolResult
		for _, c := range answer.Calls {
			text, err := tools[c.Name](c.Args)
			if err != nil {
				text = err.Error()
			}
			results = append(results, llm.ToolResult{CallID: c.ID, Name: c.Name, Text: text, IsError: err != nil})
		}
		messages = append(messages, llm.Message{Role: llm.Tool, Results: results})
	}
}

func BenchmarkLoop(b *testing.B) {
	byHand := map[string]func(json.RawMessage) (string, error){"lookup": func(raw json.RawMessage) (string, error) {
		var a lookupArgs
		if err := json.Unmarshal(raw, &a); err != nil {
			return "", err
		}
		return lookup(a), nil
	}}
	for _, turns := range []int{1, 10} {
		b.Run(fmt.Sprintf("calls=%d", turns), func(b *testing.B) {
			var model llm.Model = caller(turns)
			run := running(b, model)
			b.ReportAllocs()
			var floor, ours []time.Duration
			for b.Loop() {
				start := time.Now()
				for range 20 {
					if _, err := minimal(b.Context(), model, byHand, "What is the weather?"); err != nil {
						b.Fatal(err)
					}
				}
				floor = append(floor, time.Since(start))
				start = time.Now()
				for range 20 {
					run()
				}
				ours = append(ours, time.Since(start))
			}
			b.ReportMetric(float64(median(ours))/float64(median(floor)), "x-floor")
			b.ReportMetric(float64(median(ours))/20, "ns/run")
			b.ReportMetric(float64(median(floor))/20, "floor-ns/run")
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// running is a community with one agent, its permissions checked, its events told and its decisions recorded; what it
// returns gives it a task.
func running(b *testing.B, model llm.Model) func() {
	system := actor.NewSystem(actor.Config{})
	home := community.New(community.Config{System: system, Drain: time.Second})
	events, entries := 0, 0
	factory := agent.NewFactory(agent.Config{
		Community: home, Dir: "/work",
		Tools: []tool.Tool{tool.New(tool.Spec{Name: "lookup", Description: "tells the weather"}, func(_ context.Context, a lookupArgs) tool.Result {
			return tool.Result{Text: lookup(a)}
		})},
		Report: func(agent.Event) { events++ },
		Record: func(audit.Entry) error { entries++; return nil },
	})
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- home.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
		if err := system.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
	})
	policy := permission.Standard()
	rule, err := permission.ParseRule("lookup")
	if err != nil {
		b.Fatal(err)
	}
	policy.Allow = append(policy.Allow, rule)
	member, err := factory.Spawn(b.Context(), agent.Order{Definition: agent.General(), Model: model, Policy: policy})
	if err != nil {
		b.Fatal(err)
	}
	task := community.Signal{Perception: "task", Data: []byte("What is the weather?")}
	return func() {
		if _, err := home.Send(ctx, member.ID, task); err != nil {
			b.Fatal(err)
		}
	}
}
