package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/llm/scripted"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/permission"
)

// lookupArgs are those of the tool that the loops call.
type lookupArgs struct {
	City string `json:"city"`
}

func lookup(a lookupArgs) string { return "sunny in " + a.City }

// caller is a model that answers at once: it asks for a lookup until as many results are there as it says, then it is
// done. Its answers are made anew each time, as those are that come over a wire.
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
			call := llm.ToolCall{ID: "call-" + strconv.Itoa(answered), Name: "lookup", Args: llm.Args(`{"city": "Kyoto"}`)}
			if yield(llm.Chunk{Call: &call}, nil) {
				yield(llm.Chunk{Stop: llm.StopTools, Usage: &llm.Usage{Input: 50, Output: 10}}, nil)
			}
			return
		}
		if yield(llm.Chunk{Text: strings.Clone("It is sunny.")}, nil) {
			yield(llm.Chunk{Stop: llm.StopEnd, Usage: &llm.Usage{Input: 80, Output: 5}}, nil)
		}
	}
}

// BenchmarkTask is a task that an agent of a community is given: the loop of model and tools (agent/conversation measures it
// alone, with rules and events, as BenchmarkExchange), and around it the agent's mailbox, its account, the record of
// decisions, and who it works for.
func BenchmarkTask(b *testing.B) {
	byHand := map[string]func(json.RawMessage) (string, error){"lookup": func(raw json.RawMessage) (string, error) {
		var a lookupArgs
		if err := json.Unmarshal(raw, &a); err != nil {
			return "", err
		}
		return lookup(a), nil
	}}
	for _, turns := range []int{0, 1, 10} {
		b.Run(fmt.Sprintf("calls=%d", turns), func(b *testing.B) {
			var model llm.Model = caller(turns)
			r := weather(b)
			b.ReportAllocs()
			var floor, ours []time.Duration
			for b.Loop() {
				id := r.spawn(model, "lookup") // with nothing behind it yet, as the floor
				start := time.Now()
				for range 20 {
					if _, err := askByHand(b.Context(), model, byHand, "What is the weather?"); err != nil {
						b.Fatal(err)
					}
				}
				floor = append(floor, time.Since(start))
				start = time.Now()
				for range 20 {
					r.task(id, "What is the weather?")
				}
				ours = append(ours, time.Since(start))
				if err := r.community.Terminate(b.Context(), id); err != nil {
					b.Fatal(err)
				}
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

// weather is a room whose agents have the tool lookup.
func weather(b testing.TB) *room { return newRoom(b, lookupTool()) }

func lookupTool() tool.Tool {
	return tool.New(tool.Spec{Name: "lookup", Description: "tells the weather"}, func(_ context.Context, a lookupArgs) tool.Result {
		return tool.Result{Text: lookup(a)}
	})
}

// room is a community for agents whose permissions are checked, whose events are told and whose decisions are recorded.
type room struct {
	b               testing.TB
	community       *community.Community
	factory         *agent.Factory
	events, entries atomic.Int64
}

func newRoom(b testing.TB, tools ...tool.Tool) *room { return newJournalRoom(b, nil, tools...) }

// newJournalRoom returns a room whose agents record their conversations; with a nil journal they do not.
func newJournalRoom(b testing.TB, journal *session.Journal, tools ...tool.Tool) *room {
	b.Helper()
	var r *room
	r = startRoom(b, agent.Config{
		Journal: journal,
		Report:  func(event.Event) { r.events.Add(1) },
		Record:  func(agent.RecordedDecision) error { r.entries.Add(1); return nil },
	}, tools...)
	return r
}

// startRoom returns a room whose agents are made with a configuration.
func startRoom(b testing.TB, cfg agent.Config, tools ...tool.Tool) *room {
	b.Helper()
	system := actor.NewSystem(actor.Config{})
	r := &room{b: b, community: community.New(community.Config{System: system, Drain: time.Second})}
	cfg.Community, cfg.Dir, cfg.Tools = r.community, "/work", tools
	r.factory = agent.NewFactory(cfg)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- r.community.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
		if err := system.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return r
}

func (r *room) spawn(model llm.Model, rules ...string) community.MemberID {
	policy := permission.Standard()
	for _, text := range rules {
		rule, err := permission.ParseRule(text)
		if err != nil {
			r.b.Fatal(err)
		}
		policy.Allow = append(policy.Allow, rule)
	}
	member, err := r.factory.Spawn(r.b.Context(), agent.Order{Definition: definition.General(), Model: model, Policy: policy})
	if err != nil {
		r.b.Fatal(err)
	}
	return member.ID
}

func (r *room) task(id community.MemberID, text string) {
	if _, err := r.community.Send(r.b.Context(), id, community.Signal{Perception: "task", Data: []byte(text)}); err != nil {
		r.b.Error(err)
	}
}

// BenchmarkAThousandAgents measures what a thousand agents hold, all of them in the midst of a task: each has read a
// page by a tool, and waits in another for the last of them to come.
func BenchmarkAThousandAgents(b *testing.B) {
	const agents = 1000
	model, err := scripted.Parse("meeting", []byte(`
turns:
- match: {turn: 0}
  calls: [{tool: lookup, args: {city: Kyoto}}]
- match: {after: [lookup]}
  calls: [{tool: meet, args: {}}]
- match: {after: [meet]}
  text: We have met.
`))
	if err != nil {
		b.Fatal(err)
	}
	page := strings.Repeat("It is sunny in Kyoto. ", 200)
	var all, met chan struct{}
	var come *sync.WaitGroup
	r := newRoom(b,
		tool.New(tool.Spec{Name: "lookup", Description: "tells the weather"}, func(context.Context, lookupArgs) tool.Result {
			return tool.Result{Text: strings.Clone(page)}
		}),
		tool.New(tool.Spec{Name: "meet", Description: "waits for the others"}, func(context.Context, struct{}) tool.Result {
			come.Done()
			<-met
			return tool.Result{Text: "met"}
		}))
	for b.Loop() {
		debug.FreeOSMemory()
		come, all, met = new(sync.WaitGroup), make(chan struct{}), make(chan struct{})
		come.Add(agents)
		go func() { come.Wait(); close(all) }()
		var tasks sync.WaitGroup
		for range agents {
			id := r.spawn(model, "lookup", "meet")
			tasks.Go(func() {
				r.task(id, "Meet the others.")
				if err := r.community.Terminate(b.Context(), id); err != nil {
					b.Error(err)
				}
			})
		}
		<-all
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.Sys-m.HeapReleased)/1e6, "MB")
		close(met)
		tasks.Wait()
	}
}
