package artifacts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/node/artifacts"
	"symbio/internal/agent/session/sqlite"
	"symbio/security/permission"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// place is one node.
type place struct {
	id        community.NodeID
	community *community.Community
	store     *content.Store
	server    *artifacts.Server
	factory   *agent.Factory
	journal   *session.Journal
	rule      bool // that lets others fetch all
}

// model answers what a test says.
type model func(r llm.Request) llm.Message

func newPlace(t *testing.T, network *grpcpeertest.LAN, name string, m model, tools ...tool.Tool) *place {
	t.Helper()
	p := &place{id: grpcpeertest.ID(name)}
	system := actor.NewSystem(actor.Config{})
	p.community = community.New(community.Config{
		Node: p.id, Name: name, System: system, Network: network.Join(name).Network, Drain: time.Second, MaxCall: 5 * time.Minute,
		Authorize: func(from community.Peer, c community.Call) error {
			if c.Capability == artifacts.Capability && !p.rule && !p.server.HasGiven(from.ID) {
				return errors.New("no rule")
			}
			return nil
		},
	})
	var err error
	kept, err := sqlite.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	p.journal = session.NewJournal(kept, name)
	if p.server, err = artifacts.Open(artifacts.Config{
		Dir: t.TempDir(), MaxSize: 4 << 20, Community: p.community, Allowed: func(community.NodeID) bool { return p.rule }, MaxMessage: 128 << 10,
		Keep: 24 * time.Hour, Sessions: kept,
	}); err != nil {
		t.Fatal(err)
	}
	p.store = p.server.Store()
	workspace, err := builtin.New(builtin.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // a model sees one request at a time, so that it may keep what it saw
	p.factory = agent.NewFactory(agent.Config{
		Community: p.community, Tools: append(workspace.Tools(), tools...), Dir: workspace.Dir(), Journal: p.journal,
		Artifacts: agent.Artifacts{Store: p.store, Give: p.server.Give, Fetch: p.server.Fetch},
		Model: func(context.Context, string) (llm.Model, error) {
			return llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				return llm.Response{Message: m(r)}, nil
			}), nil
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.community.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, system.Shutdown(context.Background()), p.journal.Close(), workspace.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// lan is two nodes, of which b lends its agents to a.
type lan struct{ a, b *place }

func newLAN(t *testing.T, a, b model, tools ...tool.Tool) lan {
	t.Helper()
	network := grpcpeertest.NewLAN(t, grpcpeertest.Config{Delay: time.Millisecond})
	l := lan{newPlace(t, network, "ann", a, tools...), newPlace(t, network, "bob", b, tools...)}
	d := definition.General()
	d.Name = "worker"
	lender := lending.NewLender(lending.LenderConfig{Community: l.b.community, Definitions: []definition.Definition{d}, Spawn: l.b.factory.Lend(agent.Order{Policy: allow(t, "Read", "big")})})
	c, err := lender.Capability()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.b.community.Offer(c, lender.Provide, community.WithMaxCallDuration(lender.MaxCallTime())), l.a.server.Offer(), l.b.server.Offer()); err != nil {
		t.Fatal(err)
	}
	l.meet(t)
	return l
}

// meet waits until both nodes see what the other one offers.
func (l lan) meet(t *testing.T) {
	t.Helper()
	for range 100 {
		if len(l.a.community.WhoProvides(artifacts.Capability)) == 1 && len(l.b.community.WhoProvides(artifacts.Capability)) == 1 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the nodes did not meet")
}

func allow(t *testing.T, rules ...string) (p permission.Policy) {
	t.Helper()
	for _, text := range rules {
		r, err := permission.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Allow = append(p.Allow, r)
	}
	return p
}

// task gives a task to a new agent of the node, which may use these tools.
func (p *place) task(t *testing.T, text string, rules ...string) string {
	t.Helper()
	m, err := p.factory.Spawn(t.Context(), agent.Order{Definition: definition.General(), Policy: allow(t, rules...)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.community.Terminate(t.Context(), m.ID)
	return p.ask(t, m, text)
}

func (p *place) ask(t *testing.T, m community.Member, text string) string {
	t.Helper()
	r, err := p.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return string(r.Data)
}

func use(name string, args any) llm.Message {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return llm.Message{Calls: []llm.ToolCall{{ID: name, Name: name, Args: raw}}}
}

// result is the text of the latest result; "" if the latest message has none.
func result(r llm.Request) string {
	if m := r.Messages[len(r.Messages)-1]; len(m.Results) > 0 {
		return m.Results[0].Text
	}
	return ""
}

// big is a tool whose result is the text.
func big(text string) tool.Tool {
	return tool.New(tool.Spec{Name: "big", Description: "big"}, func(context.Context, struct{}) tool.Result { return tool.Result{Text: text} })
}

func numbered(lines int) string {
	var b strings.Builder
	for n := range lines {
		fmt.Fprintf(&b, "line %06d %s\n", n+1, strings.Repeat("x", 20))
	}
	return b.String()
}

// named returns the artifact that a text names.
func named(t *testing.T, text string) content.Hash {
	t.Helper()
	_, rest, ok := strings.Cut(text, tool.ArtifactPrefix)
	h, err := content.ParseHash(rest[:min(64, len(rest))])
	if !ok || err != nil {
		t.Fatalf("no artifact in %.300q … %q: %v", text, text[max(0, len(text)-300):], err)
	}
	return h
}

func TestAnswerOfLentAgentIsReadInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := numbered(40_000)
		if len(whole) < 1<<20 {
			t.Fatal("it is too short")
		}
		var parts []string
		parent := func(r llm.Request) llm.Message {
			m := r.Messages[len(r.Messages)-1]
			switch text := result(r); {
			case m.Role == llm.User:
				return use("replicate_agent", map[string]any{"reason": "it is to help", "node": "bob", "agent": "worker", "task": "make it"})
			case m.Results[0].Name == "replicate_agent":
				return use("wait_agents", map[string]any{})
			case m.Results[0].Name == "wait_agents":
				parts = append(parts, text)
				return use("Read", map[string]any{"file_path": tool.ArtifactPrefix + named(t, text).String(), "offset": 39_990})
			default:
				parts = append(parts, text)
				if len(parts) < 3 {
					return use("Read", map[string]any{"file_path": tool.ArtifactPrefix + named(t, parts[0]).String(), "offset": 15_000, "limit": 2})
				}
				return llm.Message{Text: "done"}
			}
		}
		l := newLAN(t, parent, func(llm.Request) llm.Message { return llm.Message{Text: whole} })
		l.a.task(t, "go", "replicate_agent", "wait_agents", "invoke_capability") // no rule allows Read
		if len(parts) != 3 || len(parts[0]) > 64<<10 || !strings.Contains(parts[0], "line 000001") || !strings.Contains(parts[0], fmt.Sprintf("%d bytes, text/plain", len(whole))) {
			t.Fatalf("the model got %d parts, first %.400q", len(parts), parts)
		}
		if !strings.Contains(parts[1], "line 040000") || strings.Contains(parts[1], "line 039989") || !strings.Contains(parts[2], "line 015001") || strings.Contains(parts[2], "line 015002") {
			t.Errorf("the model read %.500q", parts[1:])
		}
		if h := content.Sum([]byte(whole)); !l.a.store.Has(h) || !l.b.store.Has(h) {
			t.Error("not both nodes have it")
		}
	})
}

// reader is a model that reads the path that its task names, and answers with what it got.
func reader(r llm.Request) llm.Message {
	if m := r.Messages[len(r.Messages)-1]; m.Role == llm.User {
		return use("Read", map[string]any{"file_path": m.Text[strings.LastIndexByte(m.Text, ' ')+1:]})
	}
	return llm.Message{Text: result(r)}
}

func TestArtifactOfAnotherSessionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := numbered(3000)
		calls := func(r llm.Request) llm.Message {
			if m := r.Messages[len(r.Messages)-1]; m.Role == llm.User && m.Text == "make" {
				return use("big", struct{}{})
			} else if m.Role == llm.User {
				return reader(r)
			}
			return llm.Message{Text: result(r)}
		}
		l := newLAN(t, calls, reader, big(secret))
		h := named(t, l.a.task(t, "make", "big"))
		for name, text := range map[string]string{
			"another session here":   l.a.task(t, "read "+tool.ArtifactPrefix+h.String(), "Read"),
			"no hash":                l.a.task(t, "read "+tool.ArtifactPrefix+"../../etc/passwd", "Read"),
			"a session over there":   l.b.task(t, "read "+tool.ArtifactPrefix+h.String(), "Read"),
			"one that is not at all": l.a.task(t, "read "+tool.ArtifactPrefix+content.Sum(nil).String(), "Read"),
		} {
			if strings.Contains(text, "line 0") || !strings.Contains(text, "was not given to you") && !strings.Contains(text, "no") {
				t.Errorf("%s: read %.300q", name, text)
			}
		}
		// The other node cannot fetch it either, as long as no rule says so.
		fetch := func() error { return l.b.server.Fetch(t.Context(), l.a.id, h) }
		if err := fetch(); !errors.Is(err, community.ErrDenied) || l.b.store.Has(h) {
			t.Errorf("fetched what was not given: %v", err)
		}
		l.a.server.Give(l.b.id, content.Sum([]byte("another")))
		if err := fetch(); !errors.Is(err, community.ErrNotFound) || l.b.store.Has(h) {
			t.Errorf("fetched what was not given, after something else was: %v", err)
		}
		l.a.rule = true
		if err := fetch(); err != nil || !l.b.store.Has(h) {
			t.Errorf("a rule lets it fetch: %v", err)
		}
	})
}

// liar offers artifacts.get at b as a test says, and returns what a reads of it, whose content was told to be honest.
func TestLenderCannotSendAnotherContent(t *testing.T) {
	const honest = "what another session has"
	h := content.Sum([]byte(honest))
	for name, c := range map[string]struct {
		lie  func(r artifacts.Request) ([]byte, error)
		want string
	}{
		"another content": {func(r artifacts.Request) ([]byte, error) { return []byte("evil")[min(r.Offset, 4):], nil }, "another content than was asked for"},
		"endless content": {func(artifacts.Request) ([]byte, error) { return make([]byte, 600<<10), nil }, "too large: over 4194304 bytes"},
		"nothing":         {func(artifacts.Request) ([]byte, error) { return nil, nil }, "another content than was asked for"},
		"an error":        {func(artifacts.Request) ([]byte, error) { return nil, community.ErrBusy }, "busy"},
		"silence":         {func(artifacts.Request) ([]byte, error) { time.Sleep(time.Hour); return nil, nil }, "deadline"},
		"the truth": {func(r artifacts.Request) ([]byte, error) {
			return []byte(honest)[min(r.Offset, int64(len(honest))):], nil
		}, honest},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent := func(r llm.Request) llm.Message {
					m := r.Messages[len(r.Messages)-1]
					switch {
					case m.Role == llm.User:
						return use("replicate_agent", map[string]any{"reason": "it is to help", "node": "bob", "agent": "worker", "task": "make it"})
					case m.Results[0].Name == "replicate_agent":
						return use("wait_agents", map[string]any{})
					case m.Results[0].Name == "wait_agents":
						return use("Read", map[string]any{"file_path": tool.ArtifactPrefix + named(t, result(r)).String()})
					}
					return llm.Message{Text: result(r)}
				}
				l := newLAN(t, parent, func(llm.Request) llm.Message { return llm.Message{Text: "it is in artifact:" + h.String()} })
				if err := l.b.community.Withdraw(artifacts.Capability); err != nil {
					t.Fatal(err)
				}
				err := l.b.community.Offer(community.Capability{Name: artifacts.Capability}, func(ctx context.Context, s community.Signal) (community.Reply, error) {
					var r artifacts.Request
					if err := json.Unmarshal(s.Data, &r); err != nil {
						return community.Reply{}, err
					}
					data, err := c.lie(r)
					return community.Reply{Data: data, ContentType: "application/octet-stream"}, err
				})
				if err != nil {
					t.Fatal(err)
				}
				l.b.rule = true // the node decides itself
				time.Sleep(time.Second)
				if _, _, err := l.a.store.Put(strings.NewReader(honest), 1<<10); err != nil { // as another session would
					t.Fatal(err)
				}
				got := l.a.task(t, "go", "replicate_agent", "wait_agents", "invoke_capability")
				if !strings.Contains(got, c.want) || name != "the truth" && strings.Contains(got, honest) {
					t.Errorf("the model read %.500q, want %q", got, c.want)
				}
				if all := l.a.store.All(); len(all) != 1 {
					t.Errorf("kept are %v", all)
				}
			})
		})
	}
}

func TestArtifactsAreCollectedWhenNoSessionNamesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := numbered(3000)
		calls := func(r llm.Request) llm.Message {
			if m := r.Messages[len(r.Messages)-1]; m.Role == llm.User && m.Text == "make" {
				return use("big", struct{}{})
			} else if m.Role == llm.User {
				return reader(r)
			}
			return llm.Message{Text: result(r)}
		}
		p := newPlace(t, grpcpeertest.NewLAN(t, grpcpeertest.Config{}), "ann", calls, big(text))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.server.Run(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		other, _, err := p.store.Put(strings.NewReader("what no session names"), 100)
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.factory.Spawn(t.Context(), agent.Order{Definition: definition.General(), Policy: allow(t, "big")})
		if err != nil {
			t.Fatal(err)
		}
		h := named(t, p.ask(t, m, "make"))
		list, err := p.server.List(t.Context())
		if err != nil || len(list) != 2 {
			t.Fatalf("listed are %v, %v", list, err)
		}
		for _, a := range list {
			if a.Hash == h.String() && (a.Name != "the whole result of big" || len(a.Sessions) != 1 || a.ContentType != "text/plain; charset=utf-8" || a.Size != uint64(len(text)) || !a.Created.AsTime().Equal(time.Now())) {
				t.Errorf("listed is %v", a)
			}
		}
		sessions := func() []session.Info {
			all, err := p.journal.Store().Sessions(t.Context(), session.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		time.Sleep(26 * time.Hour)
		if p.store.Has(other) || !p.store.Has(h) {
			t.Error("after a day only what a session names is kept")
		}
		if err := p.store.Remove(h); !errors.Is(err, content.ErrPinned) {
			t.Errorf("removed what a living agent was given: %v", err)
		}
		if _, err := p.server.Find(h.String()[:8]); err != nil {
			t.Error(err)
		}
		if _, err := p.server.Find("zz"); !errors.Is(err, community.ErrNotFound) {
			t.Error(err)
		}
		if err := p.community.Terminate(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(26 * time.Hour)
		if !p.store.Has(h) {
			t.Fatal("what a session names was collected")
		}
		// A later life of the agent may read it.
		s := sessions()[0]
		m, err = p.factory.Spawn(t.Context(), agent.Order{Definition: definition.General(), Session: s, Policy: allow(t, "big")})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.ask(t, m, "read "+tool.ArtifactPrefix+h.String()); !strings.Contains(got, "line 000001") {
			t.Errorf("after it was resumed the agent read %.300q", got)
		}
		if err := p.community.Terminate(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
		if err := p.journal.Store().Delete(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(26 * time.Hour)
		if p.store.Has(h) {
			t.Error("what no session names any more is kept")
		}
	})
}

// A capability of another node reads what the calling agent names and may read, and nothing else of its node.
func TestCapabilityTakesWhatCallerGave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, secret := numbered(3000), numbered(3001)
		hidden := tool.ArtifactPrefix + content.Sum([]byte(secret)).String()
		calls := func(r llm.Request) llm.Message {
			m := r.Messages[len(r.Messages)-1]
			look := func(name string) llm.Message {
				return use("invoke_capability", map[string]any{"capability": "look", "data": `{"at":"` + name + `"}`})
			}
			switch {
			case m.Role == llm.User && m.Text == "guess":
				return look(hidden)
			case m.Role == llm.User:
				return use("big", struct{}{})
			case m.Results[0].Name == "big":
				return look(tool.ArtifactPrefix + named(t, result(r)).String())
			}
			return llm.Message{Text: result(r)}
		}
		l := newLAN(t, calls, reader, big(mine))
		err := l.b.community.Offer(community.Capability{Name: "look"}, func(ctx context.Context, s community.Signal) (community.Reply, error) {
			f, err := l.b.server.Open(ctx, community.NodeID(s.Requester[0]), named(t, string(s.Data)))
			if err != nil {
				return community.Reply{}, community.Explain(community.ErrInvalid, err.Error())
			}
			defer f.Close()
			size, err := f.Seek(0, io.SeekEnd)
			return community.Reply{Data: fmt.Append(nil, size), ContentType: "application/json"}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*place{l.a, l.b} { // as other sessions would
			if _, _, err := p.store.Put(strings.NewReader(secret), 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if got, want := l.a.task(t, "make", "big", "invoke_capability"), fmt.Sprint(len(mine)); !strings.Contains(got, want) {
			t.Errorf("the capability saw %.300q, want %s bytes", got, want)
		}
		if got := l.a.task(t, "guess", "invoke_capability"); !strings.Contains(got, "not found") || strings.Contains(got, fmt.Sprint(len(secret))) {
			t.Errorf("of an artifact that was not given the capability saw %.300q", got)
		}
	})
}
