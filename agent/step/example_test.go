package step_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"symbio/agent/llm"
	"symbio/agent/step"
	"symbio/agent/tool/guardrail"
)

// echo is a model that says what it was asked.
var echo = llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
	return llm.Response{Message: llm.Message{Text: "about " + r.Messages[0].Text}}, nil
})

// Steps of different types make a chain, and a chain is a step.
func Example() {
	question := step.Gate(func(q string) (string, error) {
		if q == "" {
			return "", step.Block("there is no question")
		}
		return strings.ToLower(q), nil
	})
	answer := step.GenerateText(func(q string) string { return q })
	words := step.Transform(func(text string) int { return len(strings.Fields(text)) })

	s := step.Chain3(question, step.Timeout(time.Minute, answer), words)
	s = step.With(step.Session{Model: echo}, s)

	fmt.Println(s.Run(context.Background(), "THE TIDES"))
	fmt.Println(s.Run(context.Background(), ""))
	// Output:
	// 3 <nil>
	// 0 blocked: there is no question
}

func ExampleFunc() {
	parse := step.Func(func(_ context.Context, text string) (int, error) { return strconv.Atoi(text) })
	fmt.Println(parse.Run(context.Background(), "42"))
	// Output: 42 <nil>
}

func ExamplePipeline() {
	tidy := step.Pipeline(
		step.Transform(strings.TrimSpace),
		step.Transform(strings.ToLower),
	)
	fmt.Println(tidy.Run(context.Background(), "  Tides "))
	// Output: tides <nil>
}

func ExampleRace() {
	slow := step.Func(func(ctx context.Context, q string) (string, error) { <-ctx.Done(); return "", ctx.Err() })
	down := step.Func(func(context.Context, string) (string, error) { return "", errors.New("down") })
	mirror := step.Transform(func(q string) string { return q + " from the mirror" })

	fmt.Println(step.Race(slow, down, mirror).Run(context.Background(), "tides"))
	// Output: tides from the mirror <nil>
}

func ExampleParallel() {
	github := step.Func(func(context.Context, string) (string, error) { return "", errors.New("down") })
	docs := step.Transform(func(q string) string { return q + " in the docs" })

	found, err := step.Parallel(0, github, docs).Run(context.Background(), "tides")
	fmt.Println(found.Values(), err)
	fmt.Println(found.Err())
	// Output:
	// [tides in the docs] <nil>
	// step 0: down
}

func ExampleMap() {
	length := step.Transform(func(s string) int { return len(s) })
	sum := step.Reduce(0, func(_ context.Context, sum, n int) (int, error) { return sum + n, nil })

	fmt.Println(step.Chain2(step.Map(8, length), sum).Run(context.Background(), []string{"moon", "sun"}))
	// Output: 7 <nil>
}

func ExampleLoop() {
	halve := step.Transform(func(n int) int { return n / 2 })
	fmt.Println(step.Loop(10, func(n int) bool { return n < 10 }, halve).Run(context.Background(), 100))
	// Output: 6 <nil>
}

func ExampleRetry() {
	tries := 0
	flaky := step.Func(func(context.Context, string) (string, error) {
		if tries++; tries < 3 {
			return "", errors.New("not yet")
		}
		return "at last", nil
	})
	fmt.Println(step.Retry(step.Again{Tries: 5, Wait: time.Millisecond}, flaky).Run(context.Background(), ""))
	// Output: at last <nil>
}

func ExampleCatch() {
	risky := step.Func(func(context.Context, string) (string, error) { return "", errors.New("no answer") })
	safe := step.Catch(func(_ context.Context, q string, err error) (string, error) {
		return fmt.Sprintf("nothing about %s (%v)", q, err), nil
	}, risky)
	fmt.Println(safe.Run(context.Background(), "tides"))
	// Output: nothing about tides (no answer) <nil>
}

// Structured output: the model is asked for JSON in the form of the type, and held to it.
func ExampleGenerate() {
	type plan struct {
		Title string `json:"title" jsonschema:"what it is about"`
		Parts int    `json:"parts"`
	}
	model := llm.Func(func(context.Context, llm.Request) (llm.Response, error) {
		return llm.Response{Message: llm.Message{Text: `{"title": "Tides", "parts": 3}`}}, nil
	})
	s := step.Generate[string, plan](func(topic string) string { return "Plan an essay about " + topic })

	p, err := step.With(step.Session{Model: model}, s).Run(context.Background(), "tides")
	fmt.Println(p.Title, p.Parts, err)
	// Output: Tides 3 <nil>
}

// What an orchestrator remembers its steps share: each is handed a relay.
func ExampleMemory() {
	var visited step.Memory[step.Set[string]]

	crawl := func(visited step.Relay[step.Set[string]]) step.Step[string, string] {
		return step.Transform(func(url string) string {
			if !step.Insert(visited, url) {
				return "seen"
			}
			return "read"
		})
	}
	out, err := step.Map(1, crawl(visited.Relay())).Run(context.Background(), []string{"a", "b", "a"})
	fmt.Println(out, err, len(visited.Get()))
	// Output: [read read seen] <nil> 2
}

func ExampleMapRelay() {
	celsius := step.NewMemory(100)
	fahrenheit := step.MapRelay(celsius.Relay(),
		func(c int) int { return c*9/5 + 32 },
		func(f int) int { return (f - 32) * 5 / 9 })
	fahrenheit.Set(32)
	fmt.Println(celsius.Get(), fahrenheit.Get())
	// Output: 0 32
}

// crawlerConfig is a value of a program's own; Default is what holds where nobody set one.
type crawlerConfig struct{ Depth int }

func (crawlerConfig) Default() crawlerConfig { return crawlerConfig{Depth: 3} }

func ExampleWith() {
	depth := step.Func(func(ctx context.Context, _ string) (int, error) {
		return step.Value[crawlerConfig](ctx).Depth, nil
	})
	fmt.Println(depth.Run(context.Background(), ""))
	fmt.Println(step.With(crawlerConfig{Depth: 5}, depth).Run(context.Background(), ""))
	// Output:
	// 3 <nil>
	// 5 <nil>
}

func ExampleEventBus() {
	const drafted step.EventName = "drafted"
	var bus step.EventBus
	bus.On(drafted, func(e step.Event) { fmt.Println(e.Name, e.Payload) })

	draft := step.Transform(func(topic string) string { return "About " + topic })
	s := step.EmitAfter(drafted, func(text string) any { return len(text) }, draft)
	_, err := step.With(&bus, s).Run(context.Background(), "tides")
	bus.Close() // waits for the listeners
	fmt.Println(err)
	// Output:
	// drafted 11
	// <nil>
}

func ExampleGuardrail() {
	tidyUp := step.Empty[string]() // does something with tools
	s := step.Guardrail(
		step.Guardrail(tidyUp, guardrail.Override("Bash(rm *.tmp)")), // lifts the plain Deny around it, for this
		guardrail.Deny("Bash(rm:*)"),
		guardrail.DenyFinal("Bash(sudo:*)"), // nothing lifts this
	)
	fmt.Println(s.Run(context.Background(), "done"))
	// Output: done <nil>
}

func ExampleTrace() {
	var names []string
	s := step.Trace("review", step.Chain2(step.Trace("draft", step.Empty[int]()), step.Trace("check", step.Blocked[int, int]("too short"))))
	_, err := step.With(step.Tracer(func(s step.Span) { names = append(names, s.Name) }), s).Run(context.Background(), 1)
	fmt.Println(slices.Clip(names), err)
	// Output: [draft check review] review: check: blocked: too short
}

// A capability of whichever machine of the cluster has least to do; see cmd/examples/machines for a whole program.
func ExampleCapability() {
	count := step.Capability[string, int]("text.count")
	everywhere := step.Map(8, count)

	_, err := everywhere.Run(context.Background(), []string{"the tide rises"}) // step.With(step.NewCluster(community), …)
	fmt.Println(err)
	// Output: item 0: capability text.count: there is no cluster in the context: put the step in step.With(step.NewCluster(community), …)
}

func ExampleAgent() {
	review := step.Chain2(
		step.GenerateText(func(topic string) string { return "Write about " + topic }),
		step.Agent[string, string]("reviewer"),
	)
	_, err := step.With(step.Session{Model: echo}, review).Run(context.Background(), "tides")
	fmt.Println(err)
	// Output: agent reviewer: there is no cluster in the context: put the step in step.With(step.NewCluster(community), …)
}

// agents stands for a *node.Node, whose agents run on this machine and on others.
type agents struct{}

func (agents) RunTask(_ context.Context, definition, task string, _ ...string) (string, error) {
	return definition + " did " + task, nil
}

// A new agent for each task, on the machine that has a place for it.
func ExampleTask() {
	all := step.With[step.Tasks](agents{}, step.Map(16, step.Task("reviewer", "arch=arm64")))
	fmt.Println(all.Run(context.Background(), []string{"one", "two"}))

	_, err := step.Task("reviewer").Run(context.Background(), "one")
	fmt.Println(err)
	// Output:
	// [reviewer did one reviewer did two] <nil>
	// task of agent reviewer: there are no Tasks in the context: put the step in step.With[step.Tasks](node, …)
}
