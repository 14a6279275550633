package community_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"
	"symbio/internal/actor/awake"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestReconnectingReconciles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := run(t, community.Config{})
		all := func(names ...string) (cat community.Catalog) {
			for _, n := range names {
				cat.Members = append(cat.Members, remote(peer, id[community.MemberID](fmt.Sprintf("%x", n)), n))
			}
			return cat
		}
		sub := c.Subscribe()
		l := c.Attach(community.Peer{ID: peer, Name: "bb"})
		l.Snapshot(all("stays", "goes", "changes"))
		l.Lost(errors.New("silence"))
		told(sub)
		again := c.Attach(community.Peer{ID: peer, Name: "bb"})
		if n := len(c.WhoCanReceive("work")); n != 0 {
			t.Errorf("%d members are available before the peer confirmed them", n)
		}
		now := all("stays", "changes", "comes")
		now.Members[1].Accepts = []string{"play", "work"}
		again.Snapshot(now)
		want := []string{"became available stays", "updated changes", "became available changes", "joined comes", "left goes"}
		if diff := cmp.Diff(want, told(sub)); diff != "" {
			t.Errorf("a subscriber was told (-want +got):\n%s", diff)
		}
		if n := len(c.WhoCanReceive("work")); n != 3 {
			t.Errorf("%d members are available, want 3", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string(nil), told(sub)); diff != "" {
			t.Errorf("a minute later (-want +got):\n%s", diff)
		}
	})
}

// The node does not run from the 20th second on, as one that is stopped or starved. Its timer was to wake it at 22.5 s.
func TestTimeInWhichTheNodeDidNotRunForgetsNoOther(t *testing.T) {
	const s = time.Second
	for asleep, want := range map[time.Duration]time.Duration{0: 30 * s, 2 * s: 30 * s, 5 * s: 32500 * time.Millisecond,
		29 * s: 56500 * time.Millisecond, time.Hour: 20*s + time.Hour + 30*s} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			clock := awake.Clock{After: func(d time.Duration) <-chan time.Time {
				if at := time.Since(begun) + d; at > 20*s {
					d = max(d, 20*s+asleep-time.Since(begun))
				}
				return time.After(d)
			}}
			c, l := withPeer(t, &wire{}, func(cfg *community.Config) { cfg.Clock = clock })
			sub := c.Subscribe()
			told(sub)
			l.Lost(errors.New("three heartbeats were missed"))
			time.Sleep(want - time.Millisecond)
			synctest.Wait()
			if diff := cmp.Diff([]string{"became unavailable ben", "became unavailable bb"}, told(sub)); diff != "" {
				t.Errorf("%v asleep, before %v (-want +got):\n%s", asleep, want, diff)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if diff := cmp.Diff([]string{"left ben", "left bb"}, told(sub)); diff != "" {
				t.Errorf("%v asleep, after %v (-want +got):\n%s", asleep, want, diff)
			}
		})
	}
}

func TestLostNodeIsForgottenAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := withPeer(t, &wire{})
		other := c.Attach(community.Peer{ID: id[community.NodeID]("cc"), Name: "cc"})
		other.Snapshot(community.Catalog{Members: []community.Member{remote(id[community.NodeID]("cc"),
			id[community.MemberID]("c1"), "carl")}})
		sub := c.Subscribe()
		told(sub)
		l.Lost(errors.New("three heartbeats were missed"))
		time.Sleep(10 * time.Second)
		other.Lost(nil)
		synctest.Wait()
		want := []string{"became unavailable ben", "became unavailable bb", "became unavailable carl"}
		if diff := cmp.Diff(want, told(sub)); diff != "" {
			t.Errorf("at once (-want +got):\n%s", diff)
		}
		time.Sleep(20*time.Second - time.Millisecond)
		synctest.Wait()
		if got := told(sub); got != nil {
			t.Errorf("before 30s a subscriber was told %q", got)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if diff := cmp.Diff([]string{"left ben", "left bb"}, told(sub)); diff != "" {
			t.Errorf("after 30s (-want +got):\n%s", diff)
		}
		if _, ok := c.Capability(peer, "text.upper"); ok {
			t.Error("its capability is still known")
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"left carl"}, told(sub)); diff != "" {
			t.Errorf("after 40s (-want +got):\n%s", diff)
		}
	})
}

// A node is forgotten each time that it is lost, also when somebody looked in vain for whom to forget
// meanwhile.
func TestNodeThatCameBackIsForgottenWhenItIsLostAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := withPeer(t, &wire{})
		for range 3 {
			l.Lost(errors.New("three heartbeats were missed"))
			time.Sleep(29 * time.Second)
			l = c.Attach(community.Peer{ID: peer, Name: "bb"})
			l.Snapshot(community.Catalog{Members: []community.Member{remote(peer, id[community.MemberID]("b1"), "ben")}})
			time.Sleep(time.Minute)
			if _, ok := c.Member(id[community.MemberID]("b1")); !ok {
				t.Fatal("it was forgotten although it came back")
			}
		}
		l.Lost(errors.New("three heartbeats were missed"))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if m, ok := c.Member(id[community.MemberID]("b1")); ok {
			t.Errorf("%s is still known 30s after its node was lost", m.Name)
		}
	})
}

func TestPeerThatConnectsButSaysNothingLosesItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := withPeer(t, &wire{})
		l.Lost(nil)
		again := c.Attach(community.Peer{ID: peer, Name: "bb"})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if n := len(c.Members()); n != 0 {
			t.Errorf("%d members are left", n)
		}
		again.Snapshot(community.Catalog{Members: []community.Member{remote(peer, id[community.MemberID]("b1"), "ben")}})
		if n := len(c.WhoCanReceive("work")); n != 1 {
			t.Error("its lease does not count any more")
		}
	})
}

func TestRetiredLeaseIgnoresLateResults(t *testing.T) {
	m := remote(peer, id[community.MemberID]("b1"), "ben")
	ghost := remote(peer, id[community.MemberID]("b2"), "ghost")
	for retired, retire := range map[string]func(*community.Community, *community.Lease){
		"lost":    func(_ *community.Community, l *community.Lease) { l.Lost(nil) },
		"goodbye": func(_ *community.Community, l *community.Lease) { l.Goodbye("done") },
		"newer": func(c *community.Community, _ *community.Lease) {
			c.Attach(community.Peer{ID: peer}).Snapshot(community.Catalog{Members: []community.Member{m}})
		},
	} {
		for late, say := range map[string]func(*community.Lease){
			"snapshot": func(l *community.Lease) { l.Snapshot(community.Catalog{Members: []community.Member{m, ghost}}) },
			"joined":   func(l *community.Lease) { l.Joined(ghost) },
			"updated":  func(l *community.Lease) { up := m; up.Name = "other"; l.Updated(up) },
			"left":     func(l *community.Lease) { l.Left(m.ID) },
			"lost":     func(l *community.Lease) { l.Lost(nil) },
			"goodbye":  func(l *community.Lease) { l.Goodbye("again") },
		} {
			t.Run(late+" after "+retired, func(t *testing.T) {
				c, _ := run(t, community.Config{})
				l := c.Attach(community.Peer{ID: peer})
				l.Snapshot(community.Catalog{Members: []community.Member{m}})
				retire(c, l)
				if l.Valid().Err() == nil {
					t.Error("the lease is still valid")
				}
				before, sub := c.Members(), c.Subscribe()
				told(sub)
				say(l)
				if diff := cmp.Diff(before, c.Members()); diff != "" {
					t.Errorf("it changed the members (-before +after):\n%s", diff)
				}
				if got := told(sub); got != nil {
					t.Errorf("a subscriber was told %q", got)
				}
			})
		}
	}
}

func TestLeaseThatIsRefusedIsRetiredFromTheStart(t *testing.T) {
	self := id[community.NodeID]("aa")
	c, stop := run(t, community.Config{Node: self})
	for name, p := range map[string]community.Peer{
		"our own id":  {ID: self},
		"not an id":   {ID: "bb"},
		"upper case":  {ID: community.NodeID(strings.ToUpper(string(peer)))},
		"not hex":     {ID: id[community.NodeID]("xx")},
		"no id":       {},
		"a long name": {ID: community.NodeID(strings.Repeat("a", 64))},
	} {
		l := c.Attach(p)
		l.Snapshot(community.Catalog{Members: []community.Member{remote(p.ID, id[community.MemberID]("b1"), "ben")}})
		if l.Valid().Err() == nil || len(c.Members()) != 0 {
			t.Errorf("%s: the lease is valid", name)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if c.Attach(community.Peer{ID: peer}).Valid().Err() == nil {
		t.Error("a community that has ended gives leases")
	}
}

func TestPeerSpeaksForItselfOnly(t *testing.T) {
	long := strings.Repeat("x", 65)
	many := make([]string, 257)
	for i := range many {
		many[i] = fmt.Sprint("p", i)
	}
	b1 := id[community.MemberID]("b1")
	for name, change := range map[string]func(m *community.Member, ours, theirs community.MemberID){
		"another node":           func(m *community.Member, _, _ community.MemberID) { m.Node = id[community.NodeID]("cc") },
		"our node":               func(m *community.Member, _, _ community.MemberID) { m.Node = id[community.NodeID]("aa") },
		"no node":                func(m *community.Member, _, _ community.MemberID) { m.Node = "" },
		"our agent's id":         func(m *community.Member, ours, _ community.MemberID) { m.ID = ours },
		"our node's id":          func(m *community.Member, _, _ community.MemberID) { m.ID = id[community.MemberID]("aa") },
		"a third one's agent":    func(m *community.Member, _, theirs community.MemberID) { m.ID = theirs },
		"no id":                  func(m *community.Member, _, _ community.MemberID) { m.ID = "" },
		"a short id":             func(m *community.Member, _, _ community.MemberID) { m.ID = "b2" },
		"an upper-case id":       func(m *community.Member, _, _ community.MemberID) { m.ID = id[community.MemberID]("B2") },
		"not a hex id":           func(m *community.Member, _, _ community.MemberID) { m.ID = id[community.MemberID]("g2") },
		"no name":                func(m *community.Member, _, _ community.MemberID) { m.Name = "" },
		"an escape in the name":  func(m *community.Member, _, _ community.MemberID) { m.Name = "\x1b[2J" },
		"a broken name":          func(m *community.Member, _, _ community.MemberID) { m.Name = "\xff" },
		"a long name":            func(m *community.Member, _, _ community.MemberID) { m.Name = strings.Repeat("n", 129) },
		"a long perception":      func(m *community.Member, _, _ community.MemberID) { m.Accepts = []string{long} },
		"a perception twice":     func(m *community.Member, _, _ community.MemberID) { m.Accepts = []string{"a", "a"} },
		"many perceptions":       func(m *community.Member, _, _ community.MemberID) { m.Accepts = many },
		"an odd capability":      func(m *community.Member, _, _ community.MemberID) { m.Provides = []string{"a b"} },
		"a signal as capability": func(m *community.Member, _, _ community.MemberID) { m.Provides = []string{"agent.perception.work"} },
		"long metadata": func(m *community.Member, _, _ community.MemberID) {
			m.Metadata = map[string]string{"k": strings.Repeat("v", 1025)}
		},
		"a long metadata key": func(m *community.Member, _, _ community.MemberID) {
			m.Metadata = map[string]string{strings.Repeat("k", 129): ""}
		},
		"an escape in metadata": func(m *community.Member, _, _ community.MemberID) { m.Metadata = map[string]string{"k": "\x1b"} },
		"much metadata": func(m *community.Member, _, _ community.MemberID) {
			m.Metadata = map[string]string{}
			for i := range 65 {
				m.Metadata[fmt.Sprint(i)] = ""
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := run(t, community.Config{Node: id[community.NodeID]("aa")})
			ours := spawn(t, c, "ann", &worker{}).ID
			cc := id[community.NodeID]("cc")
			third := c.Attach(community.Peer{ID: cc})
			third.Joined(remote(cc, id[community.MemberID]("c1"), "carl"))
			before := c.Members()

			l := c.Attach(community.Peer{ID: peer})
			bad := remote(peer, id[community.MemberID]("b2"), "bad")
			change(&bad, ours, id[community.MemberID]("c1"))
			l.Snapshot(community.Catalog{Members: []community.Member{bad, remote(peer, b1, "ben")}})
			if _, ok := c.Member(b1); !ok {
				t.Error("the good one beside it was not taken in")
			}
			l.Updated(bad)
			l.Joined(bad)
			if n := c.Refused(); n != 3 {
				t.Errorf("%d members were refused, want 3", n)
			}
			l.Left(bad.ID)
			l.Left(b1)
			if diff := cmp.Diff(before, c.Members()); diff != "" {
				t.Errorf("the others are not what they were (-before +after):\n%s", diff)
			}
		})
	}
}

func TestNodesOwnIDCannotBeTaken(t *testing.T) {
	c, _ := run(t, community.Config{})
	thief, owner := c.Attach(community.Peer{ID: peer}), community.NodeID("cc000000000000000000000000000000")
	thief.Joined(remote(peer, community.MemberID(owner), "thief"))
	l := c.Attach(community.Peer{ID: owner})
	l.Snapshot(community.Catalog{Members: []community.Member{remote(owner, community.MemberID(owner), "owner")}})
	thief.Updated(remote(peer, community.MemberID(owner), "thief"))
	if m, _ := c.Member(community.MemberID(owner)); m.Name != "owner" || m.Node != owner {
		t.Errorf("the owner's id is %+v", m)
	}
}

func TestPeerCanHaveSoManyMembersAndCapabilities(t *testing.T) {
	c, _ := run(t, community.Config{})
	l := c.Attach(community.Peer{ID: peer})
	var all community.Catalog
	for i := range 1100 {
		all.Members = append(all.Members, remote(peer, community.MemberID(fmt.Sprintf("%032x", i)), fmt.Sprint(i)))
	}
	for i := range 300 {
		all.Capabilities = append(all.Capabilities, community.Capability{Name: fmt.Sprintf("c%03d", i)})
	}
	l.Snapshot(all)
	l.Joined(remote(peer, id[community.MemberID]("ff"), "one more"))
	if n, r := len(c.Members()), c.Refused(); n != 1024 || r != 76+44+1 {
		t.Errorf("%d members were taken in and %d things refused, want 1024 and 121", n, r)
	}
	if _, ok := c.Capability(peer, "c255"); !ok {
		t.Error("capability c255 is missing")
	}
	if _, ok := c.Capability(peer, "c256"); ok {
		t.Error("capability c256 is one too many")
	}
	slices.Reverse(all.Members) // known ones come last now: they must keep their places
	l.Snapshot(all)
	if n := len(c.Members()); n != 1024 {
		t.Errorf("after another snapshot there are %d members", n)
	}
}

// Whatever two peers say, and whenever their connections come and go, the members are those of a
// simple model, and what a subscriber was told adds up to the same.
func TestLeasesKeepMembersRight(t *testing.T) {
	nodes := []community.NodeID{id[community.NodeID]("b0"), id[community.NodeID]("c0")}
	rapid.Check(t, func(r *rapid.T) {
		c := community.New(community.Config{Node: id[community.NodeID]("aa")})
		sub := c.Subscribe()
		view, model := map[community.MemberID]community.Member{}, map[community.MemberID]community.Member{}
		leases := [][]*community.Lease{nil, nil} // the last one counts
		live := []bool{false, false}
		member := func(n int) community.Member {
			m := remote(nodes[n], id[community.MemberID](rapid.SampledFrom([]string{"b1", "b2", "b0", "c1", "c0", "b"}).Draw(r, "id")), "x")
			m.Name = rapid.SampledFrom([]string{"x", "y"}).Draw(r, "name")
			m.Available = rapid.Bool().Draw(r, "available")
			return m
		}
		take := func(n int, m community.Member) {
			old, known := model[m.ID]
			if len(strings.TrimRight(string(m.ID), "0")) < 1 || known && old.Node != nodes[n] && m.ID != community.MemberID(nodes[n]) {
				return
			}
			model[m.ID] = m
		}
		drop := func(n int, keep map[community.MemberID]bool) {
			maps.DeleteFunc(model, func(i community.MemberID, m community.Member) bool { return m.Node == nodes[n] && !keep[i] })
		}
		suspend := func(n int) {
			for i, m := range model {
				if m.Node == nodes[n] {
					m.Available = false
					model[i] = m
				}
			}
		}
		some := func(f func(n int, l *community.Lease, counts bool)) func(*rapid.T) {
			return func(r *rapid.T) {
				n := rapid.IntRange(0, 1).Draw(r, "node")
				if len(leases[n]) == 0 {
					return
				}
				i := rapid.IntRange(max(0, len(leases[n])-2), len(leases[n])-1).Draw(r, "lease")
				f(n, leases[n][i], live[n] && i == len(leases[n])-1)
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"attach": func(r *rapid.T) {
				n := rapid.IntRange(0, 1).Draw(r, "node")
				leases[n], live[n] = append(leases[n], c.Attach(community.Peer{ID: nodes[n]})), true
				suspend(n)
			},
			"snapshot": some(func(n int, l *community.Lease, counts bool) {
				var all community.Catalog
				for range rapid.IntRange(0, 3).Draw(r, "members") {
					all.Members = append(all.Members, member(n))
				}
				l.Snapshot(all)
				if counts {
					keep := map[community.MemberID]bool{}
					for _, m := range all.Members {
						take(n, m)
						keep[m.ID] = true
					}
					drop(n, keep)
				}
			}),
			"joined": some(func(n int, l *community.Lease, counts bool) {
				m := member(n)
				if l.Joined(m); counts {
					take(n, m)
				}
			}),
			"left": some(func(n int, l *community.Lease, counts bool) {
				m := member(n)
				if l.Left(m.ID); counts && model[m.ID].Node == nodes[n] {
					delete(model, m.ID)
				}
			}),
			"lost": some(func(n int, l *community.Lease, counts bool) {
				if l.Lost(nil); counts {
					suspend(n)
					live[n] = false
				}
			}),
			"goodbye": some(func(n int, l *community.Lease, counts bool) {
				if l.Goodbye(""); counts {
					drop(n, nil)
					live[n] = false
				}
			}),
			"": func(r *rapid.T) {
				got := map[community.MemberID]community.Member{}
				for _, m := range c.Members() {
					got[m.ID] = m
				}
				if diff := cmp.Diff(model, got); diff != "" {
					r.Fatalf("the members are not those of the model (-want +got):\n%s", diff)
				}
				for _, ch := range pending(sub) {
					apply(view, ch)
				}
				if diff := cmp.Diff(model, view); diff != "" {
					r.Fatalf("a subscriber was told something else (-want +got):\n%s", diff)
				}
			},
		})
	})
}

// What is over the limits is left out, counted and told once.
func TestPeerOverLimitIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		c, _ := run(t, community.Config{OnLeftOut: func(p community.Peer, what string) { told = append(told, p.Name+": "+what) }})
		l := c.Attach(community.Peer{ID: peer, Name: "bb"})
		node := community.Member{ID: community.MemberID(peer), Name: "bb", Node: peer, Available: true}
		all := community.Catalog{}
		for i := range 300 {
			name := fmt.Sprintf("c%03d", 299-i)
			node.Provides = append(node.Provides, name)
			all.Capabilities = append(all.Capabilities, community.Capability{Name: name})
		}
		all.Members = append(all.Members, node)
		for i := range 1100 {
			all.Members = append(all.Members,
				community.Member{ID: community.MemberID(fmt.Sprintf("%032x", i+1)), Name: "m", Node: peer, Available: true})
		}
		l.Snapshot(all)
		l.Joined(community.Member{ID: community.MemberID(fmt.Sprintf("%032x", 5000)), Name: "m", Node: peer, Available: true})
		l.Left(all.Members[1100].ID)
		const want = "77 of its members (at most 1024 are taken of one node) and 44 of its capabilities (at most 256 are taken of one node)"
		if got := c.LeftOut(peer); got != want {
			t.Errorf("left out are %s, want %s", got, want)
		}
		if n := len(c.Capabilities()); n != 256 {
			t.Errorf("%d capabilities can be invoked, want 256", n)
		}
		if len(told) != 1 || !strings.HasPrefix(told[0], "bb: 77 of its members") {
			t.Errorf("it was told %q, want that 77 members are left out, once", told)
		}
	})
}
