package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"symbio/agent"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/community"
	"symbio/internal/agent/team"
	"symbio/internal/agent/workspace"
	"symbio/internal/agent/workspace/transfer"
	"symbio/internal/community/waittest"
	"symbio/security/permission"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// traveller is a LAN of two nodes with a directory each, whose sub-agents can have workspaces.
type traveller struct {
	*lan
	dirs  map[string]string // work and state of ann and bob
	mu    sync.Mutex
	asked []agent.ApprovalRequest // guarded by mu
	no    bool                    // the person refuses
}

// work starts a LAN whose models follow the script of parent and child.
func newTraveller(t *testing.T, files map[string]string, model llm.Model) *traveller {
	t.Helper()
	l := &traveller{dirs: map[string]string{}}
	root := t.TempDir()
	for _, name := range []string{"ann", "bob"} {
		l.dirs[name] = filepath.Join(root, name)
		writeFiles(t, filepath.Join(l.dirs[name], "work"), map[string]string{"place": name + "'s own file"})
	}
	writeFiles(t, filepath.Join(l.dirs["ann"], "work"), files)
	l.lan = &lan{t: t, network: grpcpeertest.NewLAN(t, grpcpeertest.Config{})}
	for _, p := range []struct {
		to   **place
		name string
	}{{&l.a, "ann"}, {&l.b, "bob"}} {
		*p.to = &place{id: grpcpeertest.ID(p.name), name: p.name, network: l.network, model: model, frames: &frames{}}
		l.open(t, *p.to)
		(*p.to).start(t)
	}
	l.b.lend(t, general())
	c := community.Capability{Name: transfer.Capability}
	if err := l.b.community.Offer(c, l.b.workspaces.Server.Provider(l.b.lender.Checkout)); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "nodes that know each other", func() (any, bool) { return l.a.community.Members(), l.met() })
	t.Cleanup(func() {
		for _, p := range []*place{l.a, l.b} {
			if err := p.end(); err != nil {
				t.Errorf("node %s ended with %v", p.name, err)
			}
		}
	})
	return l
}

// open gives a node its directory and its store of workspaces.
func (l *traveller) open(t *testing.T, p *place) {
	t.Helper()
	dir := l.dirs[p.name]
	p.dir = filepath.Join(dir, "work")
	server, err := transfer.New(transfer.Config{Dir: filepath.Join(dir, "stores"), Leases: filepath.Join(dir, "leases")})
	if err != nil {
		t.Fatal(err)
	}
	own, err := builtin.New(builtin.Config{Dir: p.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { own.Close() })
	p.tools = own.Tools()
	p.workspaces = &team.Workspaces{Server: server, Open: func(c *transfer.Checkout) ([]tool.Tool, func() error, error) {
		w, err := builtin.New(builtin.Config{Dir: c.Dir})
		if err != nil {
			return nil, nil, err
		}
		return w.Tools(), w.Close, nil
	}}
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rules of a parent that may do all that the tests do, but not read secret.txt; it is asked about writes.
func (l *traveller) order(t *testing.T, deny ...string) agent.Order {
	t.Helper()
	p := allowed(t, "replicate_agent", "invoke_capability", "send_signal", "wait_agents", "Read", "Glob")
	for _, text := range append(deny, "Read(./denied/**)") {
		r, err := permission.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Deny = append(p.Deny, r)
	}
	p.Default = permission.Ask
	return agent.Order{Policy: p, Ask: func(_ context.Context, r agent.ApprovalRequest) tool.Answer {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asked = append(l.asked, r)
		return tool.Answer{Allow: !l.no, By: "test", Reason: "not now"}
	}}
}

// step is one call of a model, or with say its last words.
type step struct {
	tool string
	args map[string]any
}

// scripts is a model that plays the parent's steps for the task "parent", and for others those of the
// child. $ID in an argument is the sub-agent's id. All results are kept.
type scripts struct {
	mu            sync.Mutex
	parent, child []step
	before        map[string]func() // called before the parent's first call of a tool
	results       []string          // of the parent; guarded by mu
	childResults  []string          // guarded by mu
}

func (s *scripts) model() llm.Model {
	return script(func(_ context.Context, r llm.Request) (llm.Message, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		steps, results := s.child, &s.childResults
		if firstTask(r) == "parent" {
			steps, results = s.parent, &s.results
		}
		n, id := 0, ""
		for _, m := range r.Messages {
			for _, result := range m.Results {
				n++
				if found := agentID(result.Text); id == "" && found != "" {
					id = found
				}
			}
		}
		if n > 0 {
			*results = append(*results, last(r).Results[0].Text)
		}
		if n >= len(steps) {
			return say("done")
		}
		if f := s.before[steps[n].tool]; f != nil && firstTask(r) == "parent" {
			delete(s.before, steps[n].tool)
			f()
		}
		args := map[string]any{}
		for k, v := range steps[n].args {
			if v == "$ID" {
				v = id
			}
			args[k] = v
		}
		return call(use(string(rune('a'+n)), steps[n].tool, args))
	})
}

// run gives the parent its task and returns the results of its calls.
func (l *traveller) run(t *testing.T, s *scripts, o agent.Order) []string {
	t.Helper()
	m := l.a.spawn(t, o)
	if _, err := l.a.task(t.Context(), m, "parent"); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results
}

func spawnStep(node string) step {
	args := map[string]any{"reason": "help", "task": "child", "workspace": true}
	if node != "" {
		args["node"] = node
	}
	return step{"replicate_agent", args}
}

var (
	waits    = step{"wait_agents", map[string]any{}}
	collects = step{"collect_work", map[string]any{"agent": "$ID"}}
	applies  = step{"collect_work", map[string]any{"agent": "$ID", "apply": true}}
)

func writes(path, content string) step {
	return step{"Write", map[string]any{"file_path": path, "content": content}}
}

func TestWorkspaceTravelsAndComesBack(t *testing.T) {
	for _, node := range []string{"bob", ""} {
		t.Run("on "+node, func(t *testing.T) {
			s := &scripts{parent: []step{spawnStep(node), waits, collects, applies, collects}, child: []step{
				{"Read", map[string]any{"file_path": "src/a.txt"}}, writes("src/a.txt", "one\nTWO\n"), writes("src/new.txt", "new\n"), {"Read", map[string]any{"file_path": "place"}},
			}}
			l := newTraveller(t, map[string]string{"src/a.txt": "one\ntwo\n", ".env": "KEY=MARKER1", "denied/x": "MARKER2", "id_rsa": "MARKER3"}, s.model())
			o := l.order(t)
			if node != "" { // what a lent agent asks has nobody to answer here
				o.Policy.Allow = append(o.Policy.Allow, allowed(t, "Write").Allow...)
			}
			got := l.run(t, s, o)
			work := filepath.Join(l.dirs["ann"], "work")
			if a, n := readFile(t, filepath.Join(work, "src/a.txt")), readFile(t, filepath.Join(work, "src/new.txt")); a != "one\nTWO\n" || n != "new\n" {
				t.Errorf("applied: %q and %q; results:\n%s\nchild:\n%s", a, n, strings.Join(got, "\n"), strings.Join(s.childResults, "\n"))
			}
			if len(got) < 5 {
				t.Fatalf("results: %q", got)
			}
			for i, want := range []string{"files of yours did not go along: ", "done", `"applied":false`, `"applied":true`, "Your files have all of its changes."} {
				if !strings.Contains(got[i], want) {
					t.Errorf("result %d: %s; want %q", i, got[i], want)
				}
			}
			for _, name := range []string{".env", "denied/x", "id_rsa"} {
				if !strings.Contains(got[0], name) {
					t.Errorf("the result does not say that %s was left out: %s", name, got[0])
				}
			}
			if !strings.Contains(strings.Join(s.childResults, "\n"), "ann's own file") {
				t.Errorf("the sub-agent read %q", s.childResults)
			}
			if place := readFile(t, filepath.Join(l.dirs["bob"], "work/src/new.txt")); place != "none" {
				t.Errorf("the directory of the lender has %q", place)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			i := slices.IndexFunc(l.asked, func(r agent.ApprovalRequest) bool { return r.Tool == "Write" && r.Args["files"] != nil })
			if node != "" {
				return
			}
			if i < 0 || !strings.Contains(l.asked[i].Diff(), "+TWO") || !strings.Contains(l.asked[i].Diff(), "+new") {
				t.Errorf("asked: %+v", l.asked)
			}
		})
	}
}

// frames is what a node has sent to others: all that a transport would encrypt, with compressed payloads decompressed too.
type frames struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (f *frames) add(payload []byte, fields any) {
	if rest, packed := bytes.CutPrefix(payload, []byte("Z")); packed {
		if d, err := zstd.NewReader(nil); err == nil {
			payload, _ = d.DecodeAll(rest, bytes.Clone(payload)) // else it is no message of the workspaces
			d.Close()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(&f.text, "%+v\n%s\n", fields, payload)
}

func (f *frames) has(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Contains(f.text.Bytes(), []byte(text))
}

// recordedNetwork records the calls of a node, and recordedHost its answers to the calls of others.
type recordedNetwork struct {
	community.Network
	sent *frames
}

func (n recordedNetwork) Run(ctx context.Context, host community.Host) error {
	return n.Network.Run(ctx, recordedHost{host, n.sent})
}

func (n recordedNetwork) Invoke(ctx context.Context, node community.NodeID, c community.Call) (community.Reply, error) {
	n.sent.add(c.Payload, c)
	return n.Network.Invoke(ctx, node, c)
}

func (n recordedNetwork) Tell(node community.NodeID, c community.Call) error {
	n.sent.add(c.Payload, c)
	return n.Network.Tell(node, c)
}

type recordedHost struct {
	community.Host
	sent *frames
}

func (h recordedHost) Serve(ctx context.Context, from community.Peer, c community.Call) (community.Reply, error) {
	if listen := c.Listen; listen != nil {
		c.Listen = func(u community.Update) {
			h.sent.add(u.Output, u)
			listen(u)
		}
	}
	reply, err := h.Host.Serve(ctx, from, c)
	h.sent.add(reply.Data, err)
	return reply, err
}

func TestSecretsStayWhereTheyAre(t *testing.T) {
	s := &scripts{parent: []step{spawnStep("bob"), waits}, child: []step{{"Glob", map[string]any{"pattern": "**"}}}}
	l := newTraveller(t, map[string]string{"a": "PUBLIC" + strings.Repeat("a", 500), ".env": "KEY=MARKER1", "denied/x": "MARKER2", "id_rsa": "-----BEGIN OPENSSH PRIVATE KEY-----\nMARKER3"}, s.model())
	l.run(t, s, l.order(t))
	if !l.a.frames.has("PUBLIC") || l.a.frames.has("MARKER") {
		t.Error("what was sent has a secret, or not what is none")
	}
	err := filepath.WalkDir(l.dirs["bob"], func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(readFile(t, path), "MARKER") {
			t.Errorf("%s has a secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if leases, _ := os.ReadDir(filepath.Join(l.dirs["bob"], "leases")); len(leases) != 1 {
		t.Errorf("the lender has %d workspaces; want 1", len(leases))
	}
	for _, m := range l.a.here() {
		if err := l.a.community.Terminate(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
	}
	if leases, _ := os.ReadDir(filepath.Join(l.dirs["bob"], "leases")); len(leases) != 0 {
		t.Errorf("after the loan the lender still has %v", leases)
	}
}

func TestWorkIsAppliedAsWriteOfParent(t *testing.T) {
	changes := []step{writes("a.txt", "changed\n"), writes("b.txt", "changed\n")}
	for _, tt := range []struct {
		name  string
		deny  []string
		no    bool
		mine  string // what the parent's a.txt becomes meanwhile
		skip  bool
		want  string
		files []string
	}{
		{"denied file", []string{"Write"}, false, "", false, "b.txt: ", []string{"old\n", "old\n"}},
		{"denied edit of file", []string{"Edit"}, false, "", false, "b.txt: ", []string{"old\n", "old\n"}},
		{"person says no", nil, true, "", false, "not now", []string{"old\n", "old\n"}},
		{"conflict", nil, false, "mine\n", false, "Nothing was applied, because of the conflicts", []string{"mine\n", "old\n"}},
		{"conflict that is left out", nil, false, "mine\n", true, `"applied":true`, []string{"mine\n", "changed\n"}},
		{"same change", nil, false, "changed\n", false, `"applied":true`, []string{"changed\n", "changed\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			apply := step{"collect_work", map[string]any{"agent": "$ID", "apply": true, "skip_conflicts": tt.skip}}
			s := &scripts{parent: []step{spawnStep(""), waits, apply}, child: changes}
			l := newTraveller(t, map[string]string{"a.txt": "old\n", "b.txt": "old\n"}, s.model())
			work := filepath.Join(l.dirs["ann"], "work")
			s.before = map[string]func(){"collect_work": func() {
				l.mu.Lock()
				l.no = tt.no
				l.mu.Unlock()
				if tt.mine != "" {
					writeFiles(t, work, map[string]string{"a.txt": tt.mine})
				}
			}}
			var deny []string // with the whole path, because the sub-agent inherits the rules
			for _, tool := range tt.deny {
				deny = append(deny, tool+"("+filepath.Join(work, "b.txt")+")")
			}
			got := l.run(t, s, l.order(t, deny...))
			if !strings.Contains(got[len(got)-1], tt.want) {
				t.Errorf("result %s; want %q; child: %q", got[len(got)-1], tt.want, s.childResults)
			}
			for i, name := range []string{"a.txt", "b.txt"} {
				if text := readFile(t, filepath.Join(work, name)); text != tt.files[i] {
					t.Errorf("%s is %q; want %q", name, text, tt.files[i])
				}
			}
		})
	}
}

func TestTransferGoesOnWhereItBroke(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	large := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB, but each chunk is the same
	writeFiles(t, dir, map[string]string{"large": large[:len(large)-1] + "x", "b": "b", "c": "c"})
	server, err := transfer.New(transfer.Config{Dir: filepath.Join(state, "stores"), Leases: filepath.Join(state, "leases")})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := workspace.Take(t.Context(), dir, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sent, breakAt := 0, 100<<10
	broken := errors.New("the wire is broken")
	wire := func(ctx context.Context, data []byte) ([]byte, error) {
		if sent += len(data); sent > breakAt {
			return nil, broken
		}
		return server.Local(ctx, data)
	}
	var mu sync.Mutex
	call := func(ctx context.Context, data []byte) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		return wire(ctx, data)
	}
	breakAt = 1500
	if _, err := server.Client(call, func(community.Progress) {}).Push(t.Context(), snapshot); !errors.Is(err, broken) {
		t.Fatalf("first: %v", err)
	}
	sent, breakAt = 0, 1<<20
	hash, err := server.Client(call, func(community.Progress) {}).Push(t.Context(), snapshot)
	if err != nil {
		t.Fatal(err)
	}
	c, err := server.Checkout(t.Context(), "", hash)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if text := readFile(t, filepath.Join(c.Dir, "large")); text != large[:len(large)-1]+"x" {
		t.Errorf("the large file has %d bytes", len(text))
	}
	sent = 0
	if _, err := server.Client(call, func(community.Progress) {}).Push(t.Context(), snapshot); err != nil || sent > 1000 {
		t.Errorf("once more: %d bytes, %v", sent, err)
	}
}

func TestWorkOfLostLenderIsReported(t *testing.T) {
	s := &scripts{parent: []step{spawnStep("bob"), waits, applies}, child: []step{writes("a.txt", "changed\n")}}
	l := newTraveller(t, map[string]string{"a.txt": "old\n"}, s.model())
	s.before = map[string]func(){"collect_work": func() {
		if err := l.b.end(); err != nil {
			t.Error(err)
		}
	}}
	got := l.run(t, s, l.order(t))
	if last := got[len(got)-1]; !strings.Contains(last, "the work of general-1 was not fetched") && !strings.Contains(last, "is gone") {
		t.Errorf("result: %s", last)
	}
	if text := readFile(t, filepath.Join(l.dirs["ann"], "work", "a.txt")); text != "old\n" {
		t.Errorf("a.txt is %q", text)
	}
}
