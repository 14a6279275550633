package step_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"symbio/agent/conversation"
	"symbio/agent/step"
	"symbio/agent/tool"
	"symbio/agent/tool/guardrail"
	"symbio/security/sandbox"
)

// The examples of the spec that example_test.go does not have.

func ExampleSession() {
	session := step.Reader(step.Session{}) // GenerateText reads it, too
	myStep := step.Func(func(ctx context.Context, in string) (string, error) {
		c := conversation.New(conversation.Config{Model: session(ctx).Model})
		reply, err := c.Send(ctx, in)
		return reply.Text, err
	})
	fmt.Println(step.With(step.Session{Model: echo}, myStep).Run(context.Background(), "Hello"))
	// Output: about Hello <nil>
}

func ExampleGenerateText() {
	textPipeline := step.Pipeline(
		step.Transform(strings.TrimSpace),
		step.GenerateText(func(q string) string { return q }),
	)
	fmt.Println(step.With(step.Session{Model: echo}, textPipeline).Run(context.Background(), "  tides "))
	// Output: about tides <nil>
}

func ExampleRelay() {
	counter := step.NewMemory(0)
	relay := counter.Relay()
	relay.Set(10)
	fmt.Println(step.Add(relay, 1), step.Add(relay, -1), step.Add(relay, 5))

	var urls step.Memory[step.Set[string]]
	step.Insert(urls.Relay(), "a")
	step.Union(urls.Relay(), step.Set[string]{"a": {}, "b": {}})
	fmt.Println(step.Contains(urls.Relay(), "b"), len(urls.Get()))

	var items step.Memory[[]string]
	step.Append(items.Relay(), "item")
	doubled := step.MapRelay(relay, func(n int) int { return 2 * n }, func(n int) int { return n / 2 })
	readOnly := step.ReadOnly(relay, func(n int) string { return fmt.Sprint(n, " links") })
	fmt.Println(items.Get(), doubled.Get(), readOnly.Get(), step.Constant(42).Get())
	// Output:
	// 11 10 15
	// true 2
	// [item] 30 15 links 42
}

func ExampleGate() {
	agent := step.Transform(func(q string) string { return " about " + q + " " })
	s := step.Pipeline(
		step.Gate(func(in string) (string, error) {
			if in == "" {
				return "", step.Block("empty input")
			}
			return strings.ToLower(in), nil
		}),
		agent,
		step.Gate(func(out string) (string, error) { return strings.TrimSpace(out), nil }),
	)
	fmt.Println(s.Run(context.Background(), "TIDES"))
	fmt.Println(step.Pipeline(step.Passthrough[string](), step.Blocked[string, string]("blocked")).Run(context.Background(), ""))
	// Output:
	// about tides <nil>
	//  blocked: blocked
}

// A step of steps: what goes in and what comes out pass a gate.
func ExamplePipeline_gates() {
	secure := step.Pipeline(
		step.Gate(func(in string) (string, error) { return strings.ReplaceAll(in, "<", ""), nil }),
		step.GenerateText(func(q string) string { return q }),
		step.Gate(func(out string) (string, error) { return strings.ReplaceAll(out, "sk-123", "***"), nil }),
	)
	fmt.Println(step.With(step.Session{Model: echo}, secure).Run(context.Background(), "<sk-123"))
	// Output: about *** <nil>
}

const (
	sessionStarted step.EventName = "sessionStarted"
	sessionEnded   step.EventName = "sessionEnded"
)

func ExampleEmitBefore() {
	var bus step.EventBus
	defer bus.Close()
	bus.On(sessionStarted, func(step.Event) { fmt.Println("started") })
	bus.On(sessionEnded, func(e step.Event) { fmt.Println("ended:", e.Payload) })

	s := step.EmitBefore(sessionStarted, nil,
		step.EmitAfter(sessionEnded, func(out string) any { return out }, step.Transform(strings.ToUpper)))
	fmt.Println(step.With(&bus, s).Run(context.Background(), "tides"))
	// Output:
	// started
	// ended: TIDES
	// TIDES <nil>
}

// shelf is what one step has and others use. Shared is by pointer.
type shelf struct{ books []string }

func (*shelf) Default() *shelf { return &shelf{} }

func ExampleValue() {
	fetch := step.Empty[string]()
	analyze := step.Func(func(ctx context.Context, query string) (bool, error) {
		return slices.Contains(step.Value[*shelf](ctx).books, query), nil
	})
	reader := step.Chain2(fetch, step.With(&shelf{books: []string{"tides"}}, analyze))

	fmt.Println(reader.Run(context.Background(), "tides"))
	fmt.Println(analyze.Run(context.Background(), "tides")) // with the default
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleWith_several() {
	report := step.Func(func(ctx context.Context, _ string) (string, error) {
		return fmt.Sprint(step.Value[*shelf](ctx).books, step.Value[crawlerConfig](ctx).Depth), nil
	})
	fmt.Println(step.With(&shelf{books: []string{"tides"}}, step.With(crawlerConfig{Depth: 5}, report)).Run(context.Background(), ""))
	// Output: [tides] 5 <nil>
}

// A type of another package as a value of the context.
func ExampleReader() {
	policy := step.Reader(sandbox.Policy{Network: sandbox.NetworkNone})
	inside := step.Func(func(ctx context.Context, _ string) (sandbox.Network, error) { return policy(ctx).Network, nil })

	fmt.Println(inside.Run(context.Background(), ""))
	fmt.Println(step.With(sandbox.Policy{Network: sandbox.NetworkFull}, inside).Run(context.Background(), ""))
	// Output:
	// none <nil>
	// full <nil>
}

// The sandbox of a guardrail reaches the tools that run commands inside it.
func ExampleGuardrail_sandbox() {
	run := step.Func(func(ctx context.Context, _ string) (sandbox.Network, error) {
		return tool.Constrain(ctx, sandbox.Permissive()).Network, nil
	})
	fmt.Println(step.Guardrail(run, guardrail.Sandbox(sandbox.Restrictive())).Run(context.Background(), ""))
	// Output: none <nil>
}

func ExampleGuardrail_rules() {
	fetchUserData, pipeline, cleanup := step.Empty[string](), step.Empty[string](), step.Empty[string]()
	fetchUserData = step.Guardrail(fetchUserData,
		guardrail.Allow("Read"),
		guardrail.Deny("Bash(rm:*)"),
		guardrail.Sandbox(sandbox.Restrictive()))
	pipeline = step.Guardrail(pipeline,
		guardrail.DenyFinal("Bash(rm -rf:*)"), // no step inside lifts it
		guardrail.DenyFinal("Bash(sudo:*)"),
		guardrail.Deny("Bash(rm:*)")) // a step inside may lift it
	cleanup = step.Guardrail(cleanup,
		guardrail.Override("Bash(rm *.tmp)"), // lifts a plain Deny around it
		guardrail.Override("Bash(rm -rf *)")) // does not lift a DenyFinal
	fmt.Println(step.Pipeline(fetchUserData, pipeline, cleanup).Run(context.Background(), "done"))
	// Output: done <nil>
}

func ExampleGuardrail_presets() {
	isProduction := true
	analyze := step.Guardrail(step.Empty[string](), guardrail.Preset("read_only"))
	process := step.Guardrail(analyze, guardrail.Preset("standard"))
	handle := step.Guardrail(process,
		guardrail.Allow("Read"),
		guardrail.If(isProduction, guardrail.Deny("Bash"), guardrail.Preset("restrictive")))
	fmt.Println(handle.Run(context.Background(), "done"))
	// Output: done <nil>
}

func ExampleTimeout() {
	openAI := step.Func(func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() })
	local := step.Transform(func(q string) string { return "about " + q })
	fmt.Println(step.Timeout(30*time.Second, step.Race(openAI, local)).Run(context.Background(), "tides"))
	// Output: about tides <nil>
}

func ExampleNewRelay() {
	celsius := 20.0
	fahrenheit := step.NewRelay(func() float64 { return celsius*9/5 + 32 }, func(f float64) { celsius = (f - 32) * 5 / 9 })
	fmt.Println(fahrenheit.Get())
	fahrenheit.Update(func(f float64) float64 { return f + 18 })
	fmt.Println(celsius, fahrenheit.Get())
	// Output:
	// 68
	// 30 86
}
