package topcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/tui"
	"symbio/internal/agent/node/fleet"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// noon is the time of the tests.
var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// message is an event as the node sends it.
func message(e event.Event) *symbiov1.Event {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return &symbiov1.Event{Json: line}
}

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(-d)) }

// fakeNode answers as a node does. Calls that it does not know panic.
type fakeNode struct {
	symbiov1.ControlClient
	approvals []*symbiov1.Approval
	problems  []*symbiov1.ApprovalsProblem
	reply     *symbiov1.ConversationReply
	// got are the requests that change something.
	got []any
	err error
}

func (f *fakeNode) Approvals(context.Context, *symbiov1.ApprovalsRequest, ...grpc.CallOption) (*symbiov1.ApprovalsReply, error) {
	return &symbiov1.ApprovalsReply{Approvals: f.approvals, Problems: f.problems}, nil
}

func (f *fakeNode) Answer(_ context.Context, r *symbiov1.AnswerRequest, _ ...grpc.CallOption) (*symbiov1.AnswerReply, error) {
	f.got, f.approvals = append(f.got, r), nil
	return &symbiov1.AnswerReply{}, f.err
}

func (f *fakeNode) Steer(_ context.Context, r *symbiov1.SteerRequest, _ ...grpc.CallOption) (*symbiov1.SteerReply, error) {
	f.got = append(f.got, r)
	return &symbiov1.SteerReply{Outcome: "delivered"}, f.err
}

func (f *fakeNode) Interrupt(_ context.Context, r *symbiov1.InterruptRequest, _ ...grpc.CallOption) (*symbiov1.InterruptReply, error) {
	f.got = append(f.got, r)
	return &symbiov1.InterruptReply{Interrupted: true}, f.err
}

func (f *fakeNode) Terminate(_ context.Context, r *symbiov1.TerminateRequest, _ ...grpc.CallOption) (*symbiov1.LocatedMember, error) {
	f.got = append(f.got, r)
	return &symbiov1.LocatedMember{}, f.err
}

func (f *fakeNode) Conversation(context.Context, *symbiov1.ConversationRequest, ...grpc.CallOption) (*symbiov1.ConversationReply, error) {
	return f.reply, f.err
}

// Recv never returns: a test gives changes to the model itself.
func (f *fakeNode) Recv() (*symbiov1.FleetChange, error) {
	runtime.Goexit()
	return nil, nil
}

// screen is a model, and the node that it talks to.
type screen struct {
	*model
	node *fakeNode
}

// open returns the screen of a community of two nodes: on desk general waits for a person and has a helper on kitchen;
// hall shows nothing.
func open(t testing.TB, columns, rows int) *screen {
	t.Helper()
	f := &fakeNode{
		approvals: []*symbiov1.Approval{{Id: "7-aaaa", Agent: "g", Name: "general", Tool: "Write", Args: []byte(`{"file_path":"notes.txt","content":"two\nlines\n"}`), Why: "No rule matches this call. A person must approve it.",
			Deadline: timestamppb.New(noon.Add(5 * time.Minute)), Node: "d", NodeName: "desk", Digest: "digest", Rules: []string{"exactly this call of Write"}, Diff: "--- /dev/null\n+++ notes.txt\n@@ -0,0 +1,2 @@\n+two\n+lines\n"}},
		reply: &symbiov1.ConversationReply{Transcript: []byte(`[{"role":"user","text":"write it"},{"role":"assistant","text":"I'll **look** first.","calls":[{"id":"1","name":"Read","args":{"file_path":"poem.txt"}}]},
			{"role":"tool","results":[{"call_id":"1","name":"Read","text":"roses\nviolets"}]}]`)},
	}
	all := &list{Overview: fleet.NewOverview()}
	all.Apply(community())
	m := newModel(t.Context(), f, f, all, tui.NewStyles(false))
	m.look.now = noon
	s := &screen{m, f}
	s.show(tea.WindowSizeMsg{Width: columns, Height: rows})
	s.run(m.askDecisions())
	return s
}

// community is the first change.
func community() *symbiov1.FleetChange {
	return &symbiov1.FleetChange{
		Nodes: []*symbiov1.FleetNode{
			{Id: "k", Name: "kitchen", State: "connected", Addr: "127.0.0.1:4711", RttMs: 1.25, Agents: 2, Working: 1, Version: "1.0", Spent: &symbiov1.Spending{Input: 900, Output: 100, Cost: 0.1}},
			{Id: "d", Name: "desk", State: "self", Agents: 2, Working: 1, Waiting: 1, Self: true, Version: "1.0", Spent: &symbiov1.Spending{Input: 11000, Output: 2000, Cost: 0.32}},
			{Id: "h", Name: "hall", State: "connected", RttMs: 12.5, Withheld: new("hall does not let this node invoke fleet.view: add {from: desk, invoke: [fleet.view]} under authorize in its configuration")},
		},
		Agents: []*symbiov1.FleetAgent{
			{Id: "c", Name: "counter", Node: "k", NodeName: "kitchen", Definition: "worker", Parent: "g", State: "working", Task: "count the files", Since: ago(3 * time.Second), Model: "scripted:b", Turn: 1, Context: 500, Window: 128000, Spent: &symbiov1.Spending{ModelCalls: 1, Input: 450, Output: 50}},
			{Id: "g", Name: "general", Node: "d", NodeName: "desk", Definition: "general", State: "waiting", Task: "write it", Since: ago(9 * time.Second), Model: "scripted:a", Turn: 2, Context: 12800, Window: 128000, Session: "s1",
				Spent: &symbiov1.Spending{ModelCalls: 2, Input: 11000, Output: 2000, Cost: 0.32}, Limits: &symbiov1.Budget{Agents: 16, Depth: 3, SpawnsPerMinute: 30, ModelCalls: 1000, Tokens: 10_000_000, Wall: durationpb.New(30 * time.Minute)},
				Calls: []*symbiov1.FleetCall{{Call: "1", Tool: "Write", Args: `{"file_path":"notes.txt","content":"tw`, Since: ago(9 * time.Second), Waiting: true}}, PlanDone: 1, PlanSteps: 3},
			{Id: "i", Name: "cook", Node: "k", NodeName: "kitchen", Definition: "general", State: "idle", Task: "boil water"},
			{Id: "w", Name: "writer", Node: "d", NodeName: "desk", Definition: "writer", Parent: "g", State: "working", Task: "the first chapter", Since: ago(time.Minute), Turn: 4},
		},
		Events: []*symbiov1.Event{
			message(event.Event{Time: ago(time.Minute).AsTime(), Type: event.TypeTask, Node: "desk", Agent: "g", Seq: 1, Name: "general", Text: "write it"}),
			message(event.Event{Time: ago(9 * time.Second).AsTime(), Type: event.TypeApproval, Node: "desk", Agent: "g", Seq: 2, Name: "general", Why: "No rule matches.", Part: event.Approval{Tool: "Write"}}),
		},
	}
}

// show gives messages to the model, runs what it wants to be run, and returns the rows of the screen.
func (s *screen) show(all ...tea.Msg) string {
	for _, msg := range all {
		_, cmd := s.Update(msg)
		if _, tick := msg.(tickMsg); !tick {
			s.run(cmd)
		}
	}
	return s.View().Content
}

// run runs commands and gives the model what they return.
func (s *screen) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	got := make(chan tea.Msg, 1)
	go func() {
		defer close(got)
		got <- cmd()
	}()
	switch msg := (<-got).(type) {
	case tea.BatchMsg:
		for _, one := range msg {
			s.run(one)
		}
	case tea.QuitMsg, nil:
	default:
		s.show(msg)
	}
}

// changed is a change that comes from the node.
func (s *screen) changed(c *symbiov1.FleetChange) tea.Msg {
	return after(func() tea.Cmd { return s.change(c, nil) })
}

// keys presses keys: names, or texts that are typed letter by letter behind a quote. It returns the screen.
func (s *screen) keys(all ...string) string {
	for _, name := range all {
		if text, ok := strings.CutPrefix(name, "'"); ok {
			for _, r := range text {
				s.show(press(string(r)))
			}
			continue
		}
		s.show(press(name))
	}
	return s.View().Content
}

// press returns the message of a key.
func press(name string) tea.KeyPressMsg {
	codes := map[string]tea.Key{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift},
		"up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "pgdown": {Code: tea.KeyPgDown}, "end": {Code: tea.KeyEnd}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+u": {Code: 'u', Mod: tea.ModCtrl},
	}
	if k, ok := codes[name]; ok {
		return tea.KeyPressMsg(k)
	}
	r := []rune(name)[0]
	return tea.KeyPressMsg{Code: r, Text: name}
}

// see checks that each text is on the screen.
func see(t *testing.T, view string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(view, want) {
			t.Errorf("%q is missing in\n%s", want, view)
		}
	}
}

// unseen checks that no text is on the screen.
func unseen(t *testing.T, view string, all ...string) {
	t.Helper()
	for _, text := range all {
		if strings.Contains(view, text) {
			t.Errorf("%q is in\n%s", text, view)
		}
	}
}

func TestScreenShowsTreesOverNodes(t *testing.T) {
	see(t, open(t, 80, 24).keys(),
		"desk · 3 nodes · 4 agents: 2 working, 1 waiting · $0.42 · 14k tokens",
		"\n  general              desk      Write notes.txt 5m0s\n",
		"\n  desk                 self             2    1    1   $0.32",
		"\n  hall                 connected   hall does not let this node invoke fleet.vi…",
		"\n  kitchen              connected        2    1    0   $0.10 1.2 ms",
		"\n> general              desk      waiting    2  10%  $0.32 Write notes.txt 9s",
		"\n  └ writer             desk      working    4       $0.00 the first chapt… 1m0s\n",
		"\n  └ counter            kitchen   working    1   0%  $0.00 count the files 3s\n",
		"\n  cook                 kitchen   idle       0       $0.00 boil water\n",
	)
	wide := open(t, 160, 50).keys()
	see(t, wide, "scripted:a", "1/3", "127.0.0.1:4711", "1.0", "desk approval general tool=Write")
	if rows := strings.Split(wide, "\n"); len(rows) != 50 || !strings.Contains(rows[48], "approval") {
		t.Errorf("%d rows; want the events at the bottom of 50:\n%s", len(rows), wide)
	}
}

func TestChangesMoveRowsAndKeepSelection(t *testing.T) {
	s := open(t, 80, 24)
	s.keys("down", "down")
	see(t, s.keys(), "> └ counter")
	s.show(s.changed(&symbiov1.FleetChange{
		Agents:        []*symbiov1.FleetAgent{{Id: "n", Name: "aaa", Node: "d", NodeName: "desk", State: "idle"}, {Id: "w", Name: "writer", Node: "d", NodeName: "desk", Parent: "g", State: "idle"}},
		RemovedAgents: []string{"i"},
	}))
	view := s.keys()
	see(t, view, "> └ counter", "  aaa", "writer             desk      idle")
	unseen(t, view, "cook")
	s.show(s.changed(&symbiov1.FleetChange{RemovedNodes: []string{"k"}}))
	view = s.keys()
	unseen(t, view, "kitchen", "counter")
	see(t, view, "> └ writer") // the row that is there now
}

func TestFilterAndOrder(t *testing.T) {
	s := open(t, 80, 24)
	view := s.keys("/", "'KITCHEN wor", "enter")
	see(t, view, "> counter", "by tree /KITCHEN wor")
	unseen(t, view, "cook", "writer")
	see(t, s.keys("esc"), "cook", "writer")
	for _, want := range []string{"[cook general writer counter]", "[general counter writer cook]", "[general writer counter cook]", "[general writer counter cook]"} {
		s.Agents["i"].Spent = &symbiov1.Spending{Cost: 1}
		s.keys("s")
		var got []string
		for _, r := range s.panels[agentsPanel].ids {
			got = append(got, s.Agents[r].GetName())
		}
		if fmt.Sprint(got) != want {
			t.Errorf("by %s: %v, want %s", orders()[s.order].name, got, want)
		}
	}
	see(t, s.keys("s"), "└ writer")
}

func TestAnswerShowsWholeCallAndDifference(t *testing.T) {
	for keys, want := range map[string]*symbiov1.AnswerRequest{
		"a enter":                {Allow: true},
		"a y":                    {Allow: true},
		"a a":                    {Allow: true},
		"a l":                    {Allow: true, Lasting: true},
		"a s":                    {Allow: true, Always: true},
		"a n":                    {},
		"a down down down enter": {},
		"d enter":                {},
		"d 'late enter":          {Reason: "late"},
		"a d 'late enter":        {Reason: "late"},
		"d esc y":                {Allow: true},
		"enter a enter":          {Allow: true}, // from the page of the agent
		"tab enter enter":        {Allow: true}, // by the list of the decisions
		"down a enter":           {Allow: true}, // of another agent, that does not wait: the first one
	} {
		s := open(t, 80, 24)
		all := strings.Fields(keys)
		for _, key := range all[:len(all)-1] {
			s.keys(key)
		}
		if s.prompt == nil {
			see(t, s.keys(), "general wants to use Write on desk", "    +two", "No rule matches this call.", "no answer in 5m0s", "l  always: keep exactly")
		}
		view := s.keys(all[len(all)-1])
		want.Id, want.Digest, want.By = "7-aaaa", "digest", "symbio top"
		if len(s.node.got) != 1 || s.node.got[0].(*symbiov1.AnswerRequest).String() != want.String() {
			t.Errorf("%s: %v, want %v", keys, s.node.got, want)
		}
		if want.GetAllow() {
			see(t, view, "allowed: Write of general")
		} else {
			see(t, view, "denied: Write of general")
		}
	}
}

func TestQuestionClosesWhenAnsweredElsewhere(t *testing.T) {
	s := open(t, 80, 24)
	s.keys("a")
	s.node.approvals = nil
	s.run(s.askDecisions())
	view := s.keys()
	see(t, view, "answered elsewhere")
	unseen(t, view, "wants to use")
	s.node.problems = []*symbiov1.ApprovalsProblem{{NodeName: "hall", Why: "it does not let this node see them"}}
	s.run(s.askDecisions())
	see(t, s.keys("a"), "no decision waits; those of hall are not shown: it does not let this node see")
}

func TestActionsOnAgents(t *testing.T) {
	for _, c := range []struct {
		keys, see string
		want      string
	}{
		{"m 'be_quick enter", "general: delivered", `member:"g" text:"be quick" timeout:{seconds:54}`},
		{"m 'oops esc", "> general", ""},
		{"i", "general on desk was interrupted", `member:"g"`},
		{"x", "Stop general on desk and its sub-agents?", ""},
		{"x y enter", "general on desk was stopped", `member:"g"`},
		{"x n enter", "> general", ""},
		{"x enter", "> general", ""},
		{"down down i", "counter on kitchen was interrupted", `member:"c"`},
		{"down down x", "can be stopped on its node only, there with: symbio agents\nterminate c\n", ""},
		{"tab tab i", "choose an agent first", ""}, // a node is chosen
		{"enter m 'hi enter", "general: delivered", `member:"g" text:"hi" timeout:{seconds:54}`},
	} {
		s := open(t, 80, 24)
		for _, key := range strings.Fields(c.keys) {
			s.keys(strings.ReplaceAll(key, "_", " "))
		}
		see(t, s.keys(), c.see)
		got := ""
		if len(s.node.got) > 0 {
			got = strings.ReplaceAll(fmt.Sprint(s.node.got[0]), "  ", " ")
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.keys, got, c.want)
		}
	}
}

func TestRefusalSaysWhatToDo(t *testing.T) {
	s := open(t, 80, 24)
	s.node.err = status.Error(codes.PermissionDenied, "interrupt counter on kitchen: permission denied: add {from: desk, invoke: [agents.interrupt]} under authorize in kitchen's configuration")
	view := s.keys("down", "down", "i")
	see(t, view, "add {from: desk, invoke:", "configuration")
	if n := strings.Count(view, "\n") + 1; n != 24 {
		t.Errorf("%d rows, want 24", n)
	}
	unseen(t, s.keys("up"), "authorize")
}

func TestAgentPageFollowsAgent(t *testing.T) {
	s := open(t, 80, 24)
	view := s.keys("enter")
	see(t, view, "general on desk · waiting · turn 2 · scripted:a · 10% of 128k", "> write it", "I'll look first.", "✓ Read poem.txt  2 lines", "● Write notes.txt waits for a person: a shows it 9s")
	see(t, view, "held to: 2 of 1000 model calls · 13k of 10M tokens · $0.3200 of no limit", "agents at once, 3 deep, 30 a minute · 30m0s a task", "session s1")
	s.node.reply = &symbiov1.ConversationReply{Transcript: []byte(`[{"role":"user","text":"write it"},{"role":"assistant","text":"It is written."}]`), Omitted: 3}
	view = s.show(s.changed(&symbiov1.FleetChange{Agents: []*symbiov1.FleetAgent{{Id: "g", Name: "general", Node: "d", NodeName: "desk", State: "idle"}}}))
	see(t, view, "general on desk · idle", "It is written.", "3 messages before these, not shown")
	unseen(t, view, "waits for a person")
	view = s.show(s.changed(&symbiov1.FleetChange{RemovedAgents: []string{"g"}}))
	see(t, view, "· gone", "It is written.")
	s.node.err = status.Error(codes.PermissionDenied, "kitchen does not let this node invoke agents.conversation")
	see(t, s.keys("esc", "down", "enter"), "kitchen does not let this node invoke agents.conversation")
}

func TestNodeThatIsGoneComesBack(t *testing.T) {
	s := open(t, 80, 24)
	cmd := s.change(nil, status.Error(codes.Unavailable, "connection refused"))
	view := s.keys()
	see(t, view, "node desk is gone; waiting for it to come back (q leaves)", "> general")
	if cmd == nil {
		t.Error("nothing looks for the node")
	}
	first := community()
	first.Agents = first.Agents[1:2]
	s.link.dial = func(string) (symbiov1.ControlClient, *grpc.ClientConn, error) {
		return &watchedNode{asked: 1, first: first}, nil, nil
	}
	s.run(cmd)
	view = s.keys()
	see(t, view, "node desk is back", "2 working, 1 waiting", "> general")
	unseen(t, view, "counter")
	if cmd = s.change(nil, status.Error(codes.Internal, "broken")); cmd == nil || s.err == nil {
		t.Error("an error of the node does not end the program")
	}
}

func TestRedialGoesOnUntilNodeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, 80, 24)
		tries := 0
		node := &watchedNode{first: community()}
		s.link.dial = func(name string) (symbiov1.ControlClient, *grpc.ClientConn, error) {
			if tries++; tries < 4 || name != "desk" {
				return nil, nil, errors.New("no node")
			}
			conn, err := grpc.NewClient("passthrough:///none", grpc.WithTransportCredentials(insecure.NewCredentials()))
			return node, conn, err
		}
		s.link.gone = true
		s.run(s.redial("desk"))
		if s.link.gone || tries != 5 {
			t.Errorf("gone: %v, after %d tries; want 5, one of them without an answer", s.link.gone, tries)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if s.link.ctx = ctx; s.redial("desk")() != nil {
			t.Error("there is something after the end")
		}
		s.link.conn.Close()
	})
}

// watchedNode answers WatchFleet from the second time on.
type watchedNode struct {
	fakeNode
	asked int
	first *symbiov1.FleetChange
}

type oneChange struct {
	grpc.ServerStreamingClient[symbiov1.FleetChange]
	first *symbiov1.FleetChange
	err   error
}

// Recv returns the first change, and then never.
func (o *oneChange) Recv() (*symbiov1.FleetChange, error) {
	if o.first == nil && o.err == nil {
		runtime.Goexit()
	}
	first := o.first
	o.first = nil
	return first, o.err
}

func (w *watchedNode) WatchFleet(context.Context, *symbiov1.FleetRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[symbiov1.FleetChange], error) {
	if w.asked++; w.asked == 1 {
		return &oneChange{err: io.ErrUnexpectedEOF}, nil
	}
	return &oneChange{first: w.first}, nil
}

func TestDecisionsAreAskedForOnceAtATime(t *testing.T) {
	s := open(t, 80, 24)
	cmd := s.askDecisions()
	if cmd == nil || s.askDecisions() != nil {
		t.Error("they are asked for twice at once")
	}
	s.run(cmd)
	if s.decisions.asking {
		t.Error("they are never asked for again")
	}
	s.Update(s.changed(&symbiov1.FleetChange{Agents: []*symbiov1.FleetAgent{s.Agents["i"]}}))
	if s.decisions.asking {
		t.Error("they are asked for though no other call waits")
	}
	s.Update(s.changed(&symbiov1.FleetChange{Agents: []*symbiov1.FleetAgent{{Id: "i", Calls: []*symbiov1.FleetCall{{Call: "1", Waiting: true}}}}}))
	if !s.decisions.asking {
		t.Error("they are not asked for when another call waits")
	}
	s.Update(s.changed(&symbiov1.FleetChange{RemovedAgents: []string{"i"}}))
	if !s.decisions.stale {
		t.Error("a change while they are asked for is forgotten")
	}
}

// A node may report any parents: each agent has one row all the same.
func TestTreesHaveEachAgentOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &list{Overview: fleet.NewOverview()}
		n := rapid.IntRange(0, 12).Draw(t, "agents")
		for i := range n {
			parent := rapid.IntRange(-1, n).Draw(t, "parent")
			f.Apply(&symbiov1.FleetChange{Agents: []*symbiov1.FleetAgent{{Id: fmt.Sprint(i), Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), Parent: fmt.Sprint(parent)}}})
		}
		f.filter = rapid.SampledFrom([]string{"", "a"}).Draw(t, "filter")
		seen := map[string]bool{}
		for _, r := range f.rows() {
			if seen[r.GetId()] {
				t.Fatalf("agent %s is shown twice", r.GetId())
			}
			seen[r.GetId()] = true
		}
		for id, a := range f.Agents {
			if seen[id] != strings.Contains(a.GetName(), f.filter) {
				t.Fatalf("agent %s is shown: %v, its name is %s and the filter %q", id, seen[id], a.GetName(), f.filter)
			}
		}
	})
}

// hostile are texts that try to move the cursor, to change colors, or to hide something.
var hostile = []string{
	"\x1b[2J\x1b[31mred\x1b]0;title\x07", "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "a\rb\bc\vd\fe\x7f\x00\nf\tg", "\u202etxt.exe\u202c \u2066x\u2069", "zero\u200b\u200d\ufeffwidth",
	"日本語日本語日本語 👨‍👩‍👧‍👦 e\u0301\u0301", strings.Repeat("x", 5000), "\xff\xfe\xc3", "| a | b |\n|---|---|\n| \x1b[1m |",
}

func TestForeignTextCannotMoveCursorOrHide(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {160, 50}, {8, 3}} {
		for _, text := range hostile {
			s := open(t, size[0], size[1])
			valid := strings.ToValidUTF8(text, "?")
			quoted, err := json.Marshal(valid)
			if err != nil {
				t.Fatal(err)
			}
			s.node.approvals = []*symbiov1.Approval{{Id: "1", Agent: "g", Name: text, Tool: text, Args: []byte(text), Why: text, NodeName: text, For: []string{text}, Rules: []string{text}, Diff: text}}
			s.node.reply = &symbiov1.ConversationReply{Transcript: fmt.Appendf(nil, `[{"role":"user","text":%s},{"role":"assistant","text":%[1]s,"calls":[{"id":"1","name":%[1]s,"args":{"a":%[1]s}},{"id":"2","name":"x"}]},{"role":"tool","results":[{"call_id":"1","text":%[1]s},{"call_id":"2","is_error":true,"text":%[1]s}]}]`, quoted)}
			s.run(s.askDecisions())
			views := []string{s.show(s.changed(&symbiov1.FleetChange{
				Nodes:  []*symbiov1.FleetNode{{Id: "d", Self: true, Name: text, State: text, Addr: text, Version: text, Protocol: text, Why: &text, Problems: []string{text, text}, Agents: 1}},
				Agents: []*symbiov1.FleetAgent{{Id: "g", Node: "d", Name: text, NodeName: text, Definition: text, State: text, Task: text, Model: text, Session: text, Window: 1, Calls: []*symbiov1.FleetCall{{Tool: text, Args: text}}}, {Id: "z", Parent: "g", Name: text, Task: text}},
				Events: []*symbiov1.Event{message(event.Event{Type: text, Node: text, Agent: text, Text: text})},
			}))}
			for _, keys := range []string{"m", "esc a", "esc i", "x", "n enter", "tab", "tab", "esc tab", "tab enter", "esc shift+tab enter", "esc tab enter", "esc / 'x enter", "?"} {
				views = append(views, s.keys(strings.Fields(keys)...))
			}
			s.note.say(text)
			views = append(views, s.View().Content)
			for row := range strings.SplitSeq(strings.Join(views, "\n"), "\n") {
				for _, r := range row {
					if !visible.Rune(r) || unicode.IsControl(r) {
						t.Fatalf("%.40q at %v: %U is in the row %q", text, size, r, row)
					}
				}
				if w := ansi.StringWidth(row); w > size[0] && size[0] > 20 {
					t.Fatalf("%.40q at %v: %d cells: %q", text, size, w, row)
				}
			}
			for _, view := range views {
				if n := strings.Count(view, "\n") + 1; n > size[1] && size[1] > 10 {
					t.Fatalf("%.40q at %v: %d rows\n%s", text, size, n, view)
				}
			}
		}
	}
}

func TestThousandAgentsFitScreen(t *testing.T) {
	s := open(t, 80, 24)
	c := &symbiov1.FleetChange{}
	for i := range 1000 {
		c.Agents = append(c.Agents, &symbiov1.FleetAgent{Id: fmt.Sprint("x", i), Name: fmt.Sprintf("agent%03d", i), Node: "k", NodeName: "kitchen", State: "working", Task: "part"})
	}
	for i := range 40 {
		c.Nodes = append(c.Nodes, &symbiov1.FleetNode{Id: fmt.Sprint("n", i), Name: fmt.Sprintf("node%02d", i), State: "connected"})
	}
	view := s.show(s.changed(c))
	see(t, view, "1-3 of 43", "1-15 of 1004", "general")
	view = s.keys("end")
	see(t, view, "990-1004 of 1004", "> cook")
	see(t, s.keys("tab", "tab"), "▸ NODE", "1-11 of 43")
	if n := strings.Count(view, "\n") + 1; n != 24 {
		t.Errorf("%d rows, want 24", n)
	}
}

func BenchmarkViewOfThousandAgents(b *testing.B) {
	s := open(b, 160, 50)
	c := &symbiov1.FleetChange{}
	for i := range 1000 {
		c.Agents = append(c.Agents, &symbiov1.FleetAgent{Id: fmt.Sprint("x", i), Name: fmt.Sprintf("agent%03d", i), Node: "k", NodeName: "kitchen", State: "working", Task: "part", Parent: fmt.Sprint("x", i/4)})
	}
	s.show(s.changed(c))
	for b.Loop() {
		s.show(s.changed(&symbiov1.FleetChange{}))
	}
}
