package fleet

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	symbiov1 "symbio/proto/symbio/v1"
)

func opened() *table {
	t := newTable()
	t.open(func(*table) {})
	return t
}

// readAll applies what changed after a cursor to the picture, in parts of at most limit bytes.
func readAll(p *picture, t *table, at cursor, limit int) cursor {
	for {
		part, next := t.since(at, limit)
		if part.GetWhole() {
			clear(p.nodes)
			clear(p.agents)
		}
		_ = p.apply(part.GetChange())
		if at = next; !part.GetMore() {
			return at
		}
	}
}

func TestMergedChangesEqualTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := opened()
		type reader struct {
			*picture
			at cursor
		}
		var readers [3]reader
		for i := range readers {
			readers[i].picture = newPicture()
		}
		wanted := newPicture()
		putAgent := func(tab *table, n int, turn int) {
			a := &symbiov1.FleetAgent{Id: fmt.Sprint(n), Node: fmt.Sprint(n % 7), Turn: uint32(turn)}
			wanted.agents[a.GetId()] = a
			tab.putAgent(a)
		}
		removeAgent := func(tab *table, n int) {
			delete(wanted.agents, fmt.Sprint(n))
			tab.removeAgent(fmt.Sprint(n))
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			tab.update(func(tab *table) {
				n, turn := rapid.IntRange(0, 8).Draw(t, "id"), rapid.IntRange(0, 3).Draw(t, "turn")
				node := fmt.Sprint(n % 7)
				switch rapid.IntRange(0, 9).Draw(t, "change") {
				case 0, 1, 2:
					putAgent(tab, n, turn)
				case 3, 4:
					removeAgent(tab, n)
				case 5, 6:
					wanted.nodes[node] = &symbiov1.FleetNode{Id: node, Agents: uint32(turn)}
					tab.putNode(wanted.nodes[node])
				case 7:
					delete(wanted.nodes, node)
					tab.removeNode(node)
				case 8: // more removals than are remembered
					for n := range maxRemoved + 100 {
						putAgent(tab, n, turn)
						removeAgent(tab, n)
					}
				case 9:
					tab.removeAgents(node, map[string]bool{fmt.Sprint(n): true})
					maps.DeleteFunc(wanted.agents, func(id string, a *symbiov1.FleetAgent) bool { return a.GetNode() == node && id != fmt.Sprint(n) })
				}
			})
			for i := range readers {
				if r := &readers[i]; rapid.IntRange(0, 3).Draw(t, "read") < 2 {
					r.at = readAll(r.picture, tab, r.at, rapid.SampledFrom([]int{2000, 1 << 20}).Draw(t, "limit"))
				}
			}
			count := map[string]int{}
			for _, a := range wanted.agents {
				count[a.GetNode()]++
			}
			for node, n := range tab.agents {
				if n != count[node] {
					t.Fatalf("node %s: %d agents are counted, want %d", node, n, count[node])
				}
			}
			if tab.removed > maxRemoved || len(tab.entries) > len(wanted.agents)+len(wanted.nodes)+maxRemoved {
				t.Fatalf("%d removals, %d entries", tab.removed, len(tab.entries))
			}
		}
		for i := range readers {
			r := &readers[i]
			r.at = readAll(r.picture, tab, r.at, 1<<20)
			if diff := cmp.Diff(wanted.agents, r.agents, protocmp.Transform()) + cmp.Diff(wanted.nodes, r.nodes, protocmp.Transform()); diff != "" {
				t.Fatalf("reader %d differs (-table +reader):\n%s", i, diff)
			}
			if part, _ := tab.since(r.at, 1<<20); part.GetMore() || part.GetWhole() || len(part.GetChange().GetAgents()) > 0 {
				t.Fatalf("nothing changed, and the reader gets %v", part)
			}
		}
	})
}

func TestReaderOfOtherIncarnationGetsEverything(t *testing.T) {
	tab := opened()
	put := func() {
		tab.update(func(t *table) { t.putAgent(&symbiov1.FleetAgent{Id: "a"}) })
	}
	put()
	_, at := tab.since(cursor{}, 1<<20)
	tab.close()
	if p, _ := tab.since(at, 1<<20); len(p.GetChange().GetAgents()) > 0 {
		t.Errorf("a closed table has %v", p)
	}
	tab.open(func(*table) {})
	put()
	if p, _ := tab.since(at, 1<<20); !p.GetWhole() || len(p.GetChange().GetAgents()) != 1 {
		t.Errorf("after it was opened anew: %v", p)
	}
}

func TestEventsOfTableAreBounded(t *testing.T) {
	tab := opened()
	for i := range 3 * maxEvents {
		tab.update(func(t *table) { t.addEvent(&symbiov1.Event{Json: fmt.Append(nil, i+1)}) })
	}
	p, _ := tab.since(cursor{}, 1<<20)
	all := p.GetChange().GetEvents()
	if len(all) > maxEvents || len(all) < maxEvents/2 || string(all[len(all)-1].GetJson()) != fmt.Sprint(3*maxEvents) {
		t.Errorf("%d events up to %s", len(all), all[len(all)-1].GetJson())
	}
}

func TestWorkRunsWhileItIsWantedOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDemand(time.Minute)
		running, begun := false, 0
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			d.run(ctx, func(ctx context.Context) {
				running, begun = true, begun+1
				<-ctx.Done()
				running = false
			})
			close(ended)
		}()
		expect := func(when string, want bool, times int) {
			t.Helper()
			synctest.Wait()
			if running != want || begun != times {
				t.Fatalf("%s: running %v, begun %d times, want %v, %d", when, running, begun, want, times)
			}
		}
		expect("unwanted", false, 0)
		first := d.acquire()
		second := d.acquire()
		expect("wanted", true, 1)
		first()
		time.Sleep(time.Hour)
		expect("wanted by another one", true, 1)
		second()
		time.Sleep(59 * time.Second)
		expect("released", true, 1)
		third := d.acquire()
		time.Sleep(time.Hour)
		expect("wanted again", true, 1)
		third()
		time.Sleep(time.Hour)
		expect("released for long", false, 1)
		d.acquire()
		expect("wanted after the end", true, 2)
		stop()
		<-ended
		expect("ended", false, 2)
	})
}
