//go:build system && linux

package work_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"
	symbiov1 "symbio/proto/symbio/v1"

	"golang.org/x/sync/errgroup"
)

// The work of TestWorkOfManyItemsOutlivesOneNode: items that a model takes a fixed time for, on four nodes with as many
// places each.
const (
	mapItems, mapPlaces = 200, 5
	mapLatency          = 500 * time.Millisecond // a figure needs more, so that what the test itself takes does not count
)

const mapConfig = `
agents: %[1]s/agents
model: scripted:%[1]s/model.yaml
placement: {local: %[2]d, queue: %[3]d}
capabilities: [{name: agents.spawn, agents: [worker, steady], concurrency: %[2]d, per_node: %[2]d}]
authorize: [{from: "*", invoke: ["*", agents.spawn]}]
permissions: {preset: none, default: deny, allow: [replicate_agent, "invoke_capability(agents.spawn)"]}
budget: {agents: 500, spawns_per_minute: 5000, model_calls: 5000}
`

const mapModel = `
turns:
- match: {user: '^item'}
  stall: %v
  text: 'did {{user}}'
- match: {user: '^part'}
  stall: %[1]v
  text: did it
- match: {user: '^all', after: [wait_agents]}
  text: '{{result}}'
- match: {user: '^all', after: [replicate_agent]}
  calls:
  - {tool: wait_agents, args: {}}
- match: {user: '^all (?P<agent>.*)'}
  calls:
`

// replicateCalls are calls of replicate_agent for so many tasks.
func replicateCalls(tasks int) string {
	var b strings.Builder
	for i := 0; tasks > 0; i++ {
		n := min(tasks, 16)
		fmt.Fprintf(&b, "  - {tool: replicate_agent, args: {reason: many parts, agent: '{{agent}}', name: p%d, count: %d, task: 'part %[1]d', budget: {agents: 1, model_calls: 4, tokens: 100000}}}\n", i, n)
		tasks -= n
	}
	return b.String()
}

// mapLab is a lab of four nodes that lend agents, and at which so many tasks may wait; the first one has the work.
func mapLab(t *testing.T, queue int) *symbiotest.Lab {
	l := symbiotest.NewLab(t, symbiotest.PlugIn(t, 1), symbiotest.PlugIn(t, 2), symbiotest.PlugIn(t, 3), symbiotest.PlugIn(t, 4))
	dir := l.Hosts[0].State
	if err := os.Mkdir(filepath.Join(dir, "agents"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"lab.yaml": fmt.Sprintf(mapConfig, dir, mapPlaces, queue), "model.yaml": fmt.Sprintf(mapModel, mapLatency) + replicateCalls(mapItems/2), "agents/worker.md": workerDefinition,
		"agents/steady.md": steadyDefinition,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range l.Hosts {
		l.Up(h, h.Name())
	}
	for _, n := range l.Nodes {
		n.Ready()
	}
	symbiotest.Await(t, "host1 sees three lenders", func() bool {
		out := l.Hosts[0].Symbio("members", "--node", "host1", "--provides", "agents.spawn", "--json")
		return strings.Count(out, `"local":false`) == 3
	})
	return l
}

// watchQueues looks how many tasks wait at each node until the returned function is called, which checks that no queue was
// longer than it may be. How long they were is logged: a busy machine may start tasks more slowly than places are free.
func watchQueues(l *symbiotest.Lab, queue uint32) (check func()) {
	client, most := l.Nodes["host1"].Client, map[string]uint32{}
	ctx, stop := context.WithCancel(l.T.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		for ; ctx.Err() == nil; symbiotest.Pause(l.T, 50*time.Millisecond) {
			reply, err := client.Nodes(ctx, &symbiov1.NodesRequest{Load: true})
			if err != nil && ctx.Err() == nil {
				l.T.Errorf("the lengths of the queues: %v", err)
				return
			}
			for _, n := range reply.GetNodes() {
				most[n.GetName()] = max(most[n.GetName()], n.GetWaiting())
			}
		}
	})
	return func() {
		stop()
		watching.Wait()
		l.T.Logf("of %d tasks that may wait, so many did: %v", queue, most)
		for name, n := range most {
			if n > queue {
				l.T.Errorf("at %s %d tasks waited, at most %d may", name, n, queue)
			}
		}
	}
}

// makespan logs how long the work took in relation to the best that the places could do. killed is when one node's places
// were lost.
func makespan(t *testing.T, what string, items int, took, killed time.Duration) {
	work := time.Duration(items) * mapLatency
	ideal := work / (4 * mapPlaces)
	if ideal > killed {
		ideal = killed + (work-killed*4*mapPlaces)/(3*mapPlaces)
	}
	t.Logf("%s: %d items of %v took %v, one node killed after %v; ideal %v: %.2f of it", what, items, mapLatency, took.Round(time.Millisecond), killed.Round(time.Millisecond), ideal.Round(time.Millisecond), float64(took)/float64(ideal))
}

// mapped is what the results of symbio map say.
type mapped struct {
	Index    int
	Item     int
	Result   string
	Error    string
	Lost     bool
	Node     string
	Attempts int
	State    string // only in the journal
}

// Two hundred items on four nodes, one of which dies in the middle: each has one result or is lost, and is not lost if it is repeatable.
func TestWorkOfManyItemsOutlivesOneNode(t *testing.T) {
	t.Parallel()
	if symbiotest.Slow > 1 {
		t.Skip("it takes too long under the race detector")
	}
	symbiotest.OnASwitch(t, func(t *testing.T) {
		const queue = 60 // fewer than come: of each of two commands 64 items are under way, for 20 places
		l := mapLab(t, queue)
		dir := l.Hosts[0].State
		var lines bytes.Buffer
		for i := range mapItems / 2 {
			fmt.Fprintln(&lines, i)
		}
		if err := os.WriteFile(filepath.Join(dir, "lines"), lines.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		checkQueues := watchQueues(l, queue)
		begun := time.Now()
		var runs errgroup.Group
		for _, agent := range []string{"worker", "steady"} {
			runs.Go(func() error {
				cmd := l.Hosts[0].Inside("symbio", "map", "--node", "host1", "--agent", agent, "--lines", filepath.Join(dir, "lines"), "--task", "item {item}", "--out", filepath.Join(dir, agent))
				said, err := cmd.CombinedOutput()
				t.Logf("%s: %v\n%s", agent, err, said)
				return nil // what is lost is an error
			})
		}
		var killed time.Duration
		symbiotest.Await(t, "half of the items are done", func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, "steady.part"))
			return bytes.Count(text, []byte(`"result"`)) >= mapItems/4
		})
		killed = time.Since(begun)
		if err := l.Nodes["host4"].Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = runs.Wait()
		makespan(t, "symbio map", mapItems, time.Since(begun), killed)
		checkQueues()
		for _, agent := range []string{"worker", "steady"} {
			checkMapped(t, filepath.Join(dir, agent), agent == "steady")
		}
	})
}

// The same for sub-agents that a model spawns all at once.
func TestTasksOfReplicateAgentOutliveOneNode(t *testing.T) {
	t.Parallel()
	if symbiotest.Slow > 1 {
		t.Skip("it takes too long under the race detector")
	}
	symbiotest.OnASwitch(t, func(t *testing.T) {
		l := mapLab(t, mapItems)
		checkQueues := watchQueues(l, mapItems)
		begun := time.Now()
		said := map[string][]byte{}
		var mu sync.Mutex
		var runs errgroup.Group
		for _, agent := range []string{"worker", "steady"} {
			runs.Go(func() error {
				out, err := l.Hosts[0].Inside("symbio", "run", "--node", "host1", "--output-format", "json", "all "+agent).Output()
				mu.Lock()
				defer mu.Unlock()
				said[agent] = out
				return err
			})
		}
		symbiotest.Pause(t, 5*mapLatency)
		killed := time.Since(begun)
		if err := l.Nodes["host4"].Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := runs.Wait(); err != nil {
			t.Error(err)
		}
		makespan(t, "replicate_agent", mapItems, time.Since(begun), killed)
		checkQueues()
		for _, agent := range []string{"worker", "steady"} {
			var run struct{ Text string }
			var waited struct {
				Agents []struct{ Name, Status, Result, Error string }
			}
			if err := errors.Join(json.Unmarshal(said[agent], &run), json.Unmarshal([]byte(run.Text), &waited)); err != nil {
				t.Fatalf("%s: %v: %s", agent, err, said[agent])
			}
			lost := 0
			for _, one := range waited.Agents {
				switch {
				case one.Result == "did it":
				case agent == "worker" && strings.Contains(one.Error, "it is lost"):
					lost++
				default:
					t.Errorf("%s: %+v", agent, one)
				}
			}
			t.Logf("%s: %d lost", agent, lost)
			if n := len(waited.Agents); n != mapItems/2 {
				t.Errorf("%s: %d tasks", agent, n)
			}
		}
	})
}

// checkMapped checks that each item of a file of results has one result or is lost.
func checkMapped(t *testing.T, file string, repeatable bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lost, n := 0, 0
	for line := range bytes.Lines(text) {
		var m mapped
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		switch want := fmt.Sprintf("did item %d", n); {
		case m.Index != n || m.Item != n:
			t.Errorf("line %d of %s is of item %d", n, file, m.Index)
		case m.Lost && !repeatable && m.Result == "" && m.Attempts == 1:
			lost++
		case m.Result != want || m.Error != "":
			t.Errorf("item %d: %s", n, line)
		}
		n++
	}
	if n != mapItems/2 {
		t.Errorf("%s has %d lines", file, n)
	}
	t.Logf("%s: %d lost", filepath.Base(file), lost)
}
