package placement_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"symbio/community"
	"symbio/internal/agent/placement"
)

// lan is the nodes that lend agents, as a Chooser sees them.
type lan struct {
	mu    sync.Mutex
	nodes []community.Member
	loads map[string]placement.Load // by name
	errs  map[string]error
	slow  map[string]time.Duration
	asked int
}

func member(name string, labels map[string]string) community.Member {
	return community.Member{ID: community.MemberID("id-" + name), Name: name, Available: true, Metadata: labels}
}

// newLAN has the nodes bob and eve, with a free place of two each.
func newLAN() *lan {
	return &lan{
		nodes: []community.Member{member("bob", map[string]string{"arch": "arm64", "gpu": "1", "model": "ollama:qwen3:8b,openai:gpt"}),
			member("eve", map[string]string{"arch": "amd64"})},
		loads: map[string]placement.Load{"bob": {Lent: 1, Free: 1}, "eve": {Free: 2}},
		errs:  map[string]error{}, slow: map[string]time.Duration{},
	}
}

func (l *lan) chooser(cfg placement.Config) *placement.Chooser {
	cfg.Self = member("ann", map[string]string{"arch": "amd64", "room": "cellar"})
	cfg.Lenders = func(definition string) []community.Member {
		if definition == "unknown" {
			return nil
		}
		return l.nodes
	}
	cfg.Load = func(ctx context.Context, m community.Member) (placement.Load, error) {
		l.mu.Lock()
		l.asked++
		load, err, slow := l.loads[m.Name], l.errs[m.Name], l.slow[m.Name]
		l.mu.Unlock()
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return load, ctx.Err()
		}
		return load, err
	}
	return placement.New(cfg)
}

// lend changes the load of a node as a start or an end there does.
func (l *lan) lend(name string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	load := l.loads[name]
	l.loads[name] = placement.Load{Lent: load.Lent + n, Free: load.Free - n}
}

// start starts a task that does not wait, and returns where it is.
func (l *lan) start(t *testing.T, c *placement.Chooser, r placement.Request) (where string, release func()) {
	t.Helper()
	var at placement.Place
	release, err := c.Start(t.Context(), r, func(p placement.Place) error { at = p; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if at.Node.Name != "" {
		l.lend(at.Node.Name, 1)
	}
	return at.Node.Name + "|" + at.Reason, release
}

func TestStrategiesChoosePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for strategy, want := range map[placement.Strategy]string{
			"":                   "ann ann eve bob eve ann",
			placement.Local:      "ann ann ann ann ann ann",
			placement.LeastBusy:  "ann eve ann bob eve ann", // eve and ann alternate until both are as busy as bob
			placement.Spread:     "ann eve bob ann eve ann",
			placement.LocalFirst: "ann ann eve bob eve ann",
		} {
			l := newLAN()
			c := l.chooser(placement.Config{Local: 2})
			var got []string
			for range 6 {
				where, _ := l.start(t, c, placement.Request{Strategy: strategy})
				node, _, _ := strings.Cut(where, "|")
				if node == "" {
					node = "ann"
				}
				got = append(got, node)
			}
			if s := strings.Join(got, " "); s != want {
				t.Errorf("%q: %s, want %s", strategy, s, want)
			}
		}
	})
}

// A node that drains hands its tasks on, and keeps those that no other node fits.
func TestDrainingNodeHandsTasksOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN()
		c := l.chooser(placement.Config{Local: 2, Draining: func() bool { return true }})
		for _, tt := range []struct {
			r    placement.Request
			want string
		}{
			{placement.Request{}, "eve"},
			{placement.Request{Strategy: placement.LeastBusy}, "bob"},
			{placement.Request{Strategy: placement.Local}, ""},
			{placement.Request{Definition: "unknown"}, ""},
			{placement.Request{Where: labels(t, "room=cellar")}, ""},
		} {
			where, _ := l.start(t, c, tt.r)
			if node, _, _ := strings.Cut(where, "|"); node != tt.want {
				t.Errorf("%+v goes to %q, want %q", tt.r, where, tt.want)
			}
		}
	})
}

func TestReasonSaysWhyNodeWasChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN()
		c := l.chooser(placement.Config{Local: 1})
		denied := func(m community.Member) error {
			if m.Name == "eve" {
				return errors.New("a rule says no")
			}
			return nil
		}
		for _, tt := range []struct {
			r    placement.Request
			want string
		}{
			{placement.Request{}, "|this node has 0 of 1 places taken"},
			{placement.Request{Where: labels(t, "arch=amd64")}, "eve|this node has 1 of 1 places taken, and eve has 0 of 2 places taken, and no other that fits has one free"},
			{placement.Request{}, "bob|this node has 1 of 1 places taken, and bob has 1 of 2 places taken, the smallest part of 2 nodes"},
			{placement.Request{Where: labels(t, "node=eve")}, "eve|eve has 1 of 2 places taken, and no other that fits has one free"},
			{placement.Request{Allowed: denied}, "|this node has 1 of 1 places taken, but the task does not wait; passed by: eve: a rule says no"},
		} {
			if got, _ := l.start(t, c, tt.r); got != tt.want {
				t.Errorf("%v: %s; want %s", tt.r.Where, got, tt.want)
			}
		}
	})
}

// The loads are asked for at the same time, and a node that is silent is left out after a second.
func TestLoadsAreAskedForInBoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN()
		l.nodes = append(l.nodes, member("mute", nil), member("lost", nil))
		l.slow["mute"], l.slow["bob"], l.slow["eve"] = time.Hour, 500*time.Millisecond, 500*time.Millisecond
		l.errs["lost"] = community.ErrUnavailable
		l.loads["bob"] = placement.Load{Running: 3, Lent: 1, Free: -7}
		c := l.chooser(placement.Config{Local: 2})
		if _, err := c.Start(t.Context(), placement.Request{Strategy: placement.Local},
			func(placement.Place) error { return nil }); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		got := c.Loads(t.Context())
		want := map[community.MemberID]placement.Load{"id-ann": {Free: 1}, "id-bob": {Running: 3, Lent: 1}, "id-eve": {Free: 2}}
		if d := cmp.Diff(want, got); d != "" || time.Since(begun) != time.Second {
			t.Errorf("after %v (-want +got):\n%s", time.Since(begun), d)
		}
	})
}

// Labels come from models and from people.
func FuzzParseLabels(f *testing.F) {
	for _, seed := range []string{"gpu", "gpu=1", "arch=arm64", "model=ollama:qwen3:8b", "node=", "=x", "NODE", "a b", "x=\x1b[1m", "a=b=c",
		"\xff", strings.Repeat("a", 300) + "=" + strings.Repeat("b", 3000)} {
		f.Add(seed, "room=kitchen")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		all, err := community.ParseLabels([]string{one, two})
		if err != nil {
			return
		}
		var texts []string
		for _, l := range all {
			if s := l.String(); !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) || len(s) > 2000 {
				t.Errorf("%q became the label %q", []string{one, two}, s)
			} else {
				texts = append(texts, s)
			}
		}
		again, err := community.ParseLabels(texts)
		if err != nil || !slices.Equal(all, again) {
			t.Errorf("%q is %v, and read again %v, %v", []string{one, two}, all, again, err)
		}
	})
}

func labels(t *testing.T, texts ...string) []community.Label {
	t.Helper()
	all, err := community.ParseLabels(texts)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLabelsSelectNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for where, want := range map[string]string{
			"gpu": "bob", "gpu=1": "bob", "gpu=2": "", "arch=arm64": "bob", "model=qwen3": "bob", "model=ollama:qwen3": "bob", "model=gpt": "bob", "model=wen": "", "model": "bob",
			"node=eve": "eve", "node=id-bob": "bob", "node=": "!", "room": "ann", "room=cellar": "ann", "room=kitchen": "", "node=ann": "ann", "NODE": "!", "a b": "!", "x=\x1b[1m": "!",
		} {
			l := newLAN()
			all, err := community.ParseLabels([]string{where})
			if (err != nil) != (want == "!") {
				t.Errorf("%q: %v", where, err)
			}
			if err != nil {
				continue
			}
			got := ""
			_, err = l.chooser(placement.Config{}).Start(t.Context(), placement.Request{Definition: "worker", Where: all},
				func(p placement.Place) error {
					if got = p.Node.Name; got == "" {
						got = "ann"
					}
					return nil
				})
			if got != want {
				t.Errorf("%q: %q, %v; want %q", where, got, err, want)
			}
			if want == "" && (!errors.Is(err, placement.ErrNone) || !strings.Contains(err.Error(), "bob (arch=arm64 gpu=1 model=ollama:qwen3:8b,openai:gpt)")) {
				t.Errorf("%q: the error does not list what there is: %v", where, err)
			}
		}
		if _, err := community.ParseLabels(slices.Repeat([]string{"gpu"}, 17)); err == nil {
			t.Error("17 labels are accepted")
		}
		for key, ok := range map[string]bool{"room": true, "gpu": true, "draining": false, "arch": false, "node": false, "Room": false, "": false} {
			if err := placement.CheckLabels(map[string]string{key: "x"}); (err == nil) != ok {
				t.Errorf("own label %q: %v", key, err)
			}
		}
	})
}

func TestTaskWithoutNodeIsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN()
		c := l.chooser(placement.Config{})
		_, err := c.Start(t.Context(), placement.Request{Definition: "unknown", NotHere: "there is no agent unknown",
			Waiting: func(int) {}}, nil)
		if !errors.Is(err, placement.ErrNone) || !strings.Contains(err.Error(), "there is no agent unknown") {
			t.Error(err)
		}
		l.errs["bob"], l.errs["eve"] = community.ErrDenied, community.ErrInvalid
		_, err = c.Start(t.Context(), placement.Request{Where: labels(t, "gpu"), Waiting: func(int) {}}, nil)
		if !errors.Is(err, placement.ErrNone) || !strings.Contains(err.Error(), "passed by: bob: denied") {
			t.Error(err)
		}
	})
}

// queue starts a task in the background that waits, and then writes its name and where it is.
func (l *lan) queue(ctx context.Context, c *placement.Chooser, name string, r placement.Request, log func(string)) (release func() func()) {
	got := make(chan func(), 1)
	r.Waiting = func(before int) { log(fmt.Sprint(name, " waits ", before)) }
	go func() {
		release, err := c.Start(ctx, r, func(p placement.Place) error {
			if p.Node.Name != "" {
				l.lend(p.Node.Name, 1)
			}
			log(name + " at " + p.Node.Name)
			return nil
		})
		if err != nil {
			log(name + ": " + err.Error())
		}
		got <- release
	}()
	return func() func() { return <-got }
}

func TestQueueIsInOrderAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN()
		l.nodes = nil
		c := l.chooser(placement.Config{Local: 1, Queue: 2})
		var mu sync.Mutex
		var events []string
		log := func(s string) { mu.Lock(); events = append(events, s); mu.Unlock() }
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if strings.Join(events, ", ") != strings.Join(want, ", ") {
				t.Errorf("got %q, want %q", events, want)
			}
			events = nil
		}
		first := l.queue(t.Context(), c, "a", placement.Request{}, log)()
		expect("a at ")
		ctx, cancel := context.WithCancel(t.Context())
		second := l.queue(ctx, c, "b", placement.Request{}, log)
		expect("b waits 0")
		third := l.queue(t.Context(), c, "c", placement.Request{}, log)
		expect("c waits 1")
		fourth := l.queue(t.Context(), c, "d", placement.Request{}, log)
		expect("d: busy: all places are taken, and 2 tasks wait already")
		if release := fourth(); release != nil {
			t.Error("a task that was refused has a place")
		}
		cancel()
		expect("b: context canceled", "c waits 0")
		second()
		began := time.Now()
		first()
		first() // once more does nothing
		expect("c at ")
		if took := time.Since(began); took != 0 {
			t.Errorf("the next task waited for %v after the place was free", took)
		}
		fifth := l.queue(t.Context(), c, "e", placement.Request{}, log)
		expect("e waits 0")
		third()()
		expect("e at ")
		fifth()()
	})
}

// The place of a lender is free when another borrower gives it back, which nothing tells.
func TestQueueAsksLendersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN()
		l.loads["bob"], l.loads["eve"] = placement.Load{Lent: 2}, placement.Load{Lent: 2}
		c := l.chooser(placement.Config{})
		got := make(chan string, 10)
		gpu := l.queue(t.Context(), c, "gpu", placement.Request{Where: labels(t, "gpu")}, func(s string) { got <- s })
		synctest.Wait()
		// A task behind it that fits another node does not wait for it.
		l.queue(t.Context(), c, "any", placement.Request{}, func(s string) { got <- s })()
		time.Sleep(time.Minute)
		l.mu.Lock()
		if l.asked > 30 {
			t.Errorf("bob was asked %d times in a minute", l.asked)
		}
		l.mu.Unlock()
		l.lend("bob", -1)
		began := time.Now()
		gpu()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v until the place was seen", took)
		}
		for _, want := range []string{"gpu waits 0", "any at ", "gpu at bob"} {
			if s := <-got; s != want {
				t.Errorf("%s, want %s", s, want)
			}
		}
	})
}

func TestRefusalGoesToNextNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN()
		c := l.chooser(placement.Config{})
		var tried []string
		waited := 0
		fail := map[string]error{"eve": community.ErrBusy, "bob": community.ErrUnavailable}
		release, err := c.Start(t.Context(), placement.Request{NotHere: "no", Waiting: func(int) { waited++ }},
			func(p placement.Place) error {
				tried = append(tried, p.Node.Name)
				if len(tried) > 2 {
					return nil
				}
				return fail[p.Node.Name]
			})
		if err != nil || waited != 1 || len(tried) != 3 || tried[0] != "eve" || tried[1] != "bob" {
			t.Errorf("tried %v, waited %d times, %v", tried, waited, err)
		}
		release()
		wrong := errors.New("a budget is used up")
		if _, err := c.Start(t.Context(), placement.Request{NotHere: "no"},
			func(placement.Place) error { return wrong }); !errors.Is(err, wrong) {
			t.Error(err)
		}
	})
}

func TestSlowOrLyingNodeIsPassedBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN()
		l.slow["eve"] = time.Hour
		l.loads["bob"] = placement.Load{Running: -5, Lent: -1 << 60, Free: 1 << 60, Memory: -1}
		c := l.chooser(placement.Config{})
		began := time.Now()
		where, _ := l.start(t, c, placement.Request{NotHere: "no"})
		if took := time.Since(began); took != time.Second || !strings.HasPrefix(where, "bob|bob has 0 of 65536 places taken") {
			t.Errorf("%s after %v", where, took)
		}
	})
}

// Whatever comes and goes: no place is given twice, the queue is bounded, and each task has one end.
func TestNoPlaceIsGivenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN()
		l.loads["bob"] = placement.Load{Free: 2}
		c := l.chooser(placement.Config{Local: 3, Queue: 20})
		var mu sync.Mutex
		held, most, refused, done := map[string]int{}, map[string]int{}, 0, 0
		var tasks sync.WaitGroup
		task := func(draw *rand.Rand) {
			strategy := []placement.Strategy{"", placement.LeastBusy, placement.Spread}[draw.IntN(3)]
			life, patience := time.Duration(draw.IntN(1000))*time.Millisecond, time.Duration(1+draw.IntN(30))*time.Second
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			at := ""
			release, err := c.Start(ctx, placement.Request{Strategy: strategy, Waiting: func(before int) {
				if before >= 20 {
					t.Errorf("%d tasks wait before one", before)
				}
			}}, func(p placement.Place) error {
				mu.Lock()
				defer mu.Unlock()
				if at = p.Node.Name; at != "" && held[at] == 2 {
					return community.ErrBusy // as a lender whose load was asked too early
				}
				held[at]++
				most[at] = max(most[at], held[at])
				return nil
			})
			if err != nil {
				mu.Lock()
				refused++
				mu.Unlock()
				return
			}
			if at != "" {
				l.lend(at, 1)
			}
			time.Sleep(life)
			if at != "" {
				l.lend(at, -1)
			}
			mu.Lock()
			held[at]--
			done++
			mu.Unlock()
			release()
		}
		for n := range 300 {
			tasks.Go(func() { task(rand.New(rand.NewPCG(1, uint64(n)))) })
			time.Sleep(time.Duration(n%13) * 10 * time.Millisecond)
		}
		tasks.Wait()
		if most[""] != 3 || most["bob"] != 2 || most["eve"] != 2 || done+refused != 300 || done < 200 {
			t.Errorf("most at once %v, %d done, %d refused", most, done, refused)
		}
	})
}
