package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// counters are the instruments of a node.
type counters struct {
	tokens                            metric.Int64Histogram
	requests, tasks, tools, approvals metric.Float64Histogram // durations
	toolCalls, refusals               metric.Int64Counter
	cost                              metric.Float64Counter
	working                           metric.Int64UpDownCounter
}

// The boundaries come from the conventions.
var (
	tokenBounds  = metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
	secondBounds = metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
	// waitBounds are for what takes longer: a task, or a person.
	waitBounds = metric.WithExplicitBucketBoundaries(0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600)
)

// newCounters makes the instruments. state is called when metrics are read.
func newCounters(m metric.Meter, state func() State) (c counters, err error) {
	var problems []error
	seconds := func(name, what string, bounds metric.HistogramOption) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), bounds)
		problems = append(problems, err)
		return h
	}
	count := func(name, unit, what string) metric.Int64Counter {
		n, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		problems = append(problems, err)
		return n
	}
	gauge := func(name, unit, what string, of func(State) int) {
		_, err := m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what),
			metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
				o.Observe(int64(of(state())))
				return nil
			}))
		problems = append(problems, err)
	}
	c.requests = seconds(operationDuration, "Duration of requests to models.", secondBounds)
	c.tools = seconds(toolDuration, "Duration of calls of tools.", secondBounds)
	c.tasks = seconds(agentDuration, "Duration of tasks of agents.", waitBounds)
	c.approvals = seconds("symbio.approval.duration", "How long calls waited for a person.", waitBounds)
	c.toolCalls = count("symbio.tool.calls", "{call}", "Calls of tools that ran.")
	c.refusals = count("symbio.refusals", "{call}", "Calls of tools and capabilities that were not allowed.")
	gauge("symbio.members", "{member}", "Members of the community that this node sees.", func(s State) int { return s.Members })
	gauge("symbio.nodes", "{node}", "Connected nodes, with this one.", func(s State) int { return s.Nodes })
	gauge("symbio.approvals.waiting", "{call}", "Calls of this node that wait for a person.", func(s State) int { return s.Approvals })
	c.tokens, err = m.Int64Histogram(tokenUsage, metric.WithUnit("{token}"), metric.WithDescription("Tokens of requests to models."), tokenBounds)
	problems = append(problems, err)
	c.cost, err = m.Float64Counter("symbio.cost", metric.WithUnit("{currency}"), metric.WithDescription("Cost of requests to models, by the configured prices."))
	problems = append(problems, err)
	c.working, err = m.Int64UpDownCounter("symbio.agents.working", metric.WithUnit("{agent}"), metric.WithDescription("Agents that work on a task."))
	return c, errors.Join(append(problems, err)...)
}
