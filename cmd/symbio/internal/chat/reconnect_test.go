package chat

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/event/eventtest"
	symbiov1 "symbio/proto/symbio/v1"
)

func TestOutboxSplitNeverSendsTwice(t *testing.T) {
	for name, c := range map[string]struct {
		unanswered     []string
		began          int
		resumed        bool
		again, unknown []string
		ended          bool
	}{
		"none began":                    {unanswered: []string{"a", "b"}, again: []string{"a", "b"}},
		"the first goes on":             {unanswered: []string{"a", "b"}, began: 1, resumed: true, again: []string{"b"}},
		"the first ended":               {unanswered: []string{"a", "b"}, began: 1, again: []string{"b"}, ended: true},
		"the second goes on":            {unanswered: []string{"a", "b", "c"}, began: 2, resumed: true, again: []string{"c"}, ended: true},
		"the resumed one goes on":       {unanswered: []string{resumedTask, "b"}, resumed: true, again: []string{"b"}},
		"the resumed one ended":         {unanswered: []string{resumedTask, "b"}, again: []string{"b"}, ended: true},
		"a result came, and it goes on": {resumed: true},
		"another terminal asked":        {unanswered: []string{"a"}, began: 2, unknown: []string{"a"}, ended: true},
		"another store":                 {unanswered: []string{"a"}, began: -1, unknown: []string{"a"}, ended: true},
	} {
		o := outbox{unanswered: c.unanswered}
		again, unknown, ended := o.split(c.began, c.resumed)
		if !slices.Equal(again, c.again) || !slices.Equal(unknown, c.unknown) || ended != c.ended || o.busy() {
			t.Errorf("%s: again %q, unknown %q, ended %v; want %q, %q, %v", name, again, unknown, ended, c.again, c.unknown, c.ended)
		}
	}
}

// fakeNode is a node that begins conversations.
type fakeNode struct {
	symbiov1.ControlClient
	workspace string
	// before fail this often with err.
	before    int
	err       error
	opened    []*symbiov1.RunRequest
	sent      []string // what the conversations sent after that
	events    chan *symbiov1.Event
	failure   chan error
	prompts   []*symbiov1.MCPPrompt
	forgotten []string // the rules that were taken back
	// sessions are the events of conversations that go on with these sessions, not by events; it has no session whose
	// channel is closed.
	sessions map[string]chan *symbiov1.Event
}

func (n *fakeNode) Status(context.Context, *symbiov1.StatusRequest, ...grpc.CallOption) (*symbiov1.StatusReply, error) {
	return &symbiov1.StatusReply{Workspace: n.workspace}, nil
}

func (n *fakeNode) Converse(ctx context.Context, _ ...grpc.CallOption) (symbiov1.Control_ConverseClient, error) {
	if n.before--; n.before >= 0 {
		return nil, n.err
	}
	return &fakeStream{node: n, ctx: ctx, events: n.events}, nil
}

func (n *fakeNode) emit(kind, data string) {
	n.events <- &symbiov1.Event{Json: eventtest.Line(kind, "a", "1", data)}
}

type fakeStream struct {
	symbiov1.Control_ConverseClient
	node   *fakeNode
	ctx    context.Context
	events chan *symbiov1.Event
}

func (s *fakeStream) Send(r *symbiov1.ConverseRequest) error {
	switch {
	case r.GetOpen() != nil:
		s.node.opened = append(s.node.opened, r.GetOpen())
		s.events = cmp.Or(s.node.sessions[r.GetOpen().GetSession()], s.events)
	case r.GetNext() != nil:
		s.node.sent = append(s.node.sent, r.GetNext().GetText())
	case r.GetTranscript() != nil:
		s.node.sent = append(s.node.sent, "transcript")
	case r.GetInterrupt() != nil:
		s.node.sent = append(s.node.sent, "interrupt")
	}
	return nil
}

func (s *fakeStream) Recv() (*symbiov1.Event, error) {
	select {
	case e, ok := <-s.events:
		if !ok {
			return nil, status.Error(codes.NotFound, "no such session")
		}
		return e, nil
	case err := <-s.node.failure:
		return nil, err
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *fakeStream) CloseSend() error {
	s.node.failure <- io.EOF
	return nil
}

// chatOn begins a chat with fake terminals on a node, inside of a synctest bubble. The result arrives on over.
func chatOn(t *testing.T, n *fakeNode, o Options, r *symbiov1.RunRequest) (in *io.PipeWriter, shown *bytes.Buffer, signals chan os.Signal, over chan error) {
	t.Helper()
	env, shown, _ := onTerminals(true, true)
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if n.workspace == "" {
		n.workspace = home
	}
	env.Getenv = func(name string) string {
		return map[string]string{"HOME": t.TempDir(), "XDG_CONFIG_HOME": t.TempDir()}[name]
	}
	read, in := io.Pipe()
	env.In, env.InIsTerminal = read, true
	n.events, n.failure = make(chan *symbiov1.Event), make(chan error, 2)
	signals, over = make(chan os.Signal, 1), make(chan error, 1)
	o.dial = func(string) (symbiov1.ControlClient, *grpc.ClientConn, error) { return n, nil, nil }
	go func() { over <- Converse(t.Context(), env, n, r, o, signals) }()
	t.Cleanup(func() { in.Close() })
	return in, shown, signals, over
}

var errGone = status.Error(codes.Unavailable, "error reading from server: EOF")

func TestChatGoesOnWhenItsNodeIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		in, shown, _, over := chatOn(t, n, Options{Reconnect: true}, &symbiov1.RunRequest{Task: "one"})
		n.emit("session", `{"id":"s1","state":"idle","taken":true,"tasks":0}`)
		io.WriteString(in, "/next two\n")
		synctest.Wait()
		n.before, n.err = 3, errGone
		n.failure <- errGone
		time.Sleep(time.Minute)
		synctest.Wait()
		if !strings.Contains(shown.String(), "node a is gone; waiting for it to come back (Ctrl-C leaves)") {
			t.Fatalf("shown: %q", shown)
		}
		if len(n.opened) != 2 || n.opened[1].GetSession() != "s1" || n.opened[1].GetTask() != "" {
			t.Fatalf("opened: %v; want the session without a task", n.opened)
		}
		n.emit("session", `{"id":"s1","state":"interrupted","resumed":true,"tasks":1}`)
		n.emit("result", `{"tasks":1,"text":"1","status":"done"}`)
		n.emit("result", `{"tasks":2,"text":"2","status":"done"}`)
		if err := <-over; err != nil {
			t.Error(err)
		}
		if want := []string{"two", "two"}; !slices.Equal(n.sent, want) {
			t.Errorf("sent %q, want %q: once to each of the two", n.sent, want)
		}
		if !strings.Contains(shown.String(), "the interrupted task goes on") {
			t.Errorf("shown: %q", shown)
		}
	})
}

func TestChatShowsOnlyAnswerThatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		in, shown, _, over := chatOn(t, n, Options{Keep: true, Reconnect: true}, &symbiov1.RunRequest{})
		n.emit("session", `{"id":"s1","state":"idle","tasks":1}`)
		io.WriteString(in, "m2\n")
		synctest.Wait()
		n.failure <- errGone
		time.Sleep(time.Minute)
		n.emit("session", `{"id":"s1","state":"done","tasks":2}`)
		n.emit("transcript", `{"transcript":[{"role":"user","text":"m1"},{"role":"assistant","text":"a1"},{"role":"user","text":"m2"},{"role":"assistant","text":"a2"}]}`)
		synctest.Wait()
		if want := []string{"m2", "transcript"}; !slices.Equal(n.sent, want) {
			t.Errorf("sent %q, want %q", n.sent, want)
		}
		if text := shown.String(); !strings.Contains(text, "> m2\na2\n") || strings.Contains(text, "a1") || !strings.Contains(text, "(2 messages before these, not shown)") {
			t.Errorf("shown: %q", text)
		}
		in.Close()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// What a person is told to type works: a session of which the node has no task is not on its disk.
func TestChatLeavesWhileItsNodeIsGone(t *testing.T) {
	for _, c := range []struct {
		session, task string
		keep          bool
		want          string
	}{
		{`"taken":true,"tasks":0`, "", true, "go on with: symbio chat --resume s1"},
		{`"tasks":3`, "", true, "go on with: symbio chat --resume s1"},
		{`"tasks":0`, "1", true, "go on with: symbio chat --resume s1"},
		{`"taken":true,"tasks":0`, "", false, "go on with: symbio run --resume s1"},
		{`"tasks":0`, "", true, "symbio sessions list shows whether"},
		{`"tasks":0`, "of another agent", true, "symbio sessions list shows whether"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &fakeNode{}
			_, _, signals, over := chatOn(t, n, Options{Keep: c.keep, Reconnect: true}, &symbiov1.RunRequest{Task: "x"})
			n.emit("session", `{"id":"s1","state":"idle",`+c.session+`}`)
			if c.task != "" {
				n.events <- &symbiov1.Event{Json: eventtest.Line("task", "", c.task, "")}
			}
			synctest.Wait()
			n.before, n.err = 1<<30, errGone
			n.failure <- errGone
			synctest.Wait()
			signals <- os.Interrupt
			err := <-over
			if !command.IsUnavailable(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v ended with %v", c, err)
			}
		})
	}
}

// A conversation without a task is not kept by the node. It begins anew there, and what was typed is sent.
func TestChatBeginsAnewOnNodeThatKeptNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		in, shown, _, over := chatOn(t, n, Options{Keep: true, Reconnect: true}, &symbiov1.RunRequest{})
		n.emit("session", `{"id":"s1","state":"idle","tasks":0}`)
		io.WriteString(in, "one\n")
		synctest.Wait()
		n.before, n.err = 1, status.Error(codes.NotFound, "no such session")
		n.failure <- errGone
		synctest.Wait()
		n.emit("session", `{"id":"s2","state":"idle","tasks":0}`)
		synctest.Wait()
		if len(n.opened) != 2 || n.opened[1].GetSession() != "" || !slices.Equal(n.sent, []string{"one", "one"}) {
			t.Errorf("opened %v, sent %q; want a new session, and the message in it", n.opened, n.sent)
		}
		if !strings.Contains(shown.String(), "a new session begins: s2") {
			t.Errorf("shown: %q", shown)
		}
		in.Close()
		n.emit("result", `{"tasks":1,"text":"1","status":"done"}`)
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

func TestChatEndsWhenItsNodeIsBackElsewhere(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *fakeNode){
		"in another directory": func(t *testing.T, n *fakeNode) { n.workspace = filepath.Dir(n.workspace) },
		"no such session":      func(_ *testing.T, n *fakeNode) { n.before, n.err = 1, status.Error(codes.NotFound, "no such session") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &fakeNode{}
				_, _, _, over := chatOn(t, n, Options{Keep: true, Reconnect: true}, &symbiov1.RunRequest{})
				n.emit("session", `{"id":"s1","state":"idle","tasks":1}`)
				synctest.Wait()
				change(t, n)
				n.failure <- errGone
				if err := <-over; err == nil || !strings.Contains(err.Error(), "going on with session s1: ") || !strings.Contains(err.Error(), name) {
					t.Errorf("it ended with %v", err)
				}
			})
		})
	}
}

func TestChatDoesNotWaitForItsOwnNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		_, _, _, over := chatOn(t, n, Options{Keep: true}, &symbiov1.RunRequest{})
		n.emit("session", `{"id":"s1","state":"idle","tasks":0}`)
		synctest.Wait()
		n.failure <- errGone
		if err := <-over; !errors.Is(err, errGone) {
			t.Errorf("it ended with %v, want %v", err, errGone)
		}
	})
}

func TestChatGoesOnWithAnotherSessionOnlyIfThatBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost, second := make(chan *symbiov1.Event), make(chan *symbiov1.Event)
		close(lost)
		n := &fakeNode{sessions: map[string]chan *symbiov1.Event{"lost": lost, "s2": second}}
		in, shown, _, over := chatOn(t, n, Options{Keep: true}, &symbiov1.RunRequest{})
		n.emit("session", `{"id":"s1","state":"idle","tasks":0}`)
		io.WriteString(in, "/resume lost\n")
		synctest.Wait()
		if !strings.Contains(shown.String(), "no such session") {
			t.Errorf("shown: %q", shown)
		}
		io.WriteString(in, "hello\n")
		synctest.Wait()
		n.emit("result", `{"tasks":1,"text":"1","status":"done"}`)
		synctest.Wait()
		io.WriteString(in, "/resume s2\n")
		second <- &symbiov1.Event{Json: eventtest.Line("session", "a", "2", `{"id":"s2","text":"count","state":"done","tasks":1}`)}
		second <- &symbiov1.Event{Json: eventtest.Line("transcript", "a", "2", `{"transcript":[{"role":"user","text":"m1"}]}`)}
		synctest.Wait()
		if want := []string{"hello", "transcript"}; !slices.Equal(n.sent, want) || !strings.Contains(shown.String(), "> m1\n") {
			t.Errorf("sent %q, want %q; shown: %q", n.sent, want, shown)
		}
		in.Close()
		if err := <-over; err != nil || !strings.Contains(shown.String(), "symbio chat --resume s2 goes on") {
			t.Errorf("%v; shown: %q", err, shown)
		}
	})
}

func TestResumedChatShowsThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		in, shown, _, over := chatOn(t, n, Options{Keep: true}, &symbiov1.RunRequest{Session: "s1"})
		n.emit("session", `{"id":"s1","text":"count the files","state":"done","tasks":9}`)
		n.emit("transcript", `{"transcript":[{"role":"user","text":"m1"},{"role":"user","text":"m2"},{"role":"user","text":"m3"},{"role":"user","text":"m4"},{"role":"user","text":"m5"},{"role":"user","text":"m6"},{"role":"user","text":"m7"}],"omitted":2}`)
		synctest.Wait()
		if text := shown.String(); !strings.Contains(text, "2 messages before these, not shown") || !strings.Contains(text, "> m1\n> m2\n") || !strings.Contains(text, "session s1: count the files") {
			t.Errorf("shown: %q", text)
		}
		in.Close()
		if err := <-over; err != nil || !strings.Contains(shown.String(), "session s1; symbio chat --resume s1 goes on") {
			t.Errorf("%v; shown: %q", err, shown)
		}
	})
}
