package acpcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	acp "github.com/coder/acp-go-sdk"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/event/eventtest"
	symbiov1 "symbio/proto/symbio/v1"
)

// fakeNode is a node that begins conversations. Its fields are read while all else is blocked.
type fakeNode struct {
	symbiov1.ControlClient
	err     error // of the next dial
	on      []string
	opened  []*symbiov1.RunRequest
	sent    []string // what the conversations were told after that
	answers []*symbiov1.AnswerRequest
	events  chan *symbiov1.Event
	failure chan error
}

func (n *fakeNode) Converse(ctx context.Context, _ ...grpc.CallOption) (symbiov1.Control_ConverseClient, error) {
	return &fakeStream{node: n, ctx: ctx, first: make(chan *symbiov1.Event, 2)}, nil
}

func (n *fakeNode) Answer(_ context.Context, r *symbiov1.AnswerRequest, _ ...grpc.CallOption) (*symbiov1.AnswerReply, error) {
	n.answers = append(n.answers, r)
	return &symbiov1.AnswerReply{}, nil
}

// emit sends an event of the agent a.
func (n *fakeNode) emit(kind, fields string) {
	n.events <- &symbiov1.Event{Json: eventtest.Line(kind, "n", "a", fields)}
}

// fakeStream is a conversation. Its first events are the session and the settings, as on a node.
type fakeStream struct {
	symbiov1.Control_ConverseClient
	node  *fakeNode
	ctx   context.Context
	first chan *symbiov1.Event
}

func (s *fakeStream) Send(r *symbiov1.ConverseRequest) error {
	switch {
	case r.GetOpen() != nil:
		s.node.opened = append(s.node.opened, r.GetOpen())
		if len(r.GetOpen().GetOn()) > 0 {
			s.first <- &symbiov1.Event{Json: eventtest.Line("notice", "n", "a", `{"text":"a works on node b"}`)}
			break
		}
		id := cmp.Or(r.GetOpen().GetSession(), fmt.Sprintf("s%d", len(s.node.opened)))
		s.first <- &symbiov1.Event{Json: eventtest.Line("session", "n", "a", `{"id":"`+id+`"}`)}
		s.first <- &symbiov1.Event{Json: eventtest.Line("settings", "n", "a", `{"mode":"`+r.GetOpen().GetMode()+`"}`)}
	case r.GetNext() != nil:
		s.node.sent = append(s.node.sent, r.GetNext().GetText())
	case r.GetInterrupt() != nil:
		s.node.sent = append(s.node.sent, "interrupt")
	case r.GetApply() != nil:
		s.node.sent = append(s.node.sent, "apply")
	case r.GetSettings() != nil:
		s.node.sent = append(s.node.sent, "mode "+r.GetSettings().GetMode())
	}
	return nil
}

func (s *fakeStream) Recv() (*symbiov1.Event, error) {
	if len(s.first) > 0 {
		return <-s.first, nil
	}
	select {
	case e := <-s.node.events:
		return e, nil
	case err := <-s.node.failure:
		return nil, err
	case <-s.ctx.Done():
		return nil, status.FromContextError(s.ctx.Err()).Err()
	}
}

// editor is a client that keeps all updates, and answers questions with answer.
type editor struct {
	acp.Client
	*acp.ClientSideConnection
	mu      sync.Mutex
	updates []string
	asked   []acp.RequestPermissionRequest
	answer  func(ctx context.Context) acp.RequestPermissionOutcome
}

func (e *editor) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	text, err := json.Marshal(n.Update)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates = append(e.updates, string(text))
	return err
}

func (e *editor) RequestPermission(ctx context.Context, r acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	e.mu.Lock()
	e.asked = append(e.asked, r)
	e.mu.Unlock()
	return acp.RequestPermissionResponse{Outcome: e.answer(ctx)}, nil
}

// sees returns the updates since the last call.
func (e *editor) sees() []string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.updates
	e.updates = nil
	return all
}

// edit serves an editor by nodes that are all n, in a bubble.
func edit(t *testing.T, n *fakeNode) *editor {
	t.Helper()
	n.events, n.failure = make(chan *symbiov1.Event), make(chan error)
	toServer, server := io.Pipe()
	fromServer, client := io.Pipe()
	env := &command.Env{In: toServer, Out: client, Err: io.Discard, Getenv: func(string) string { return t.TempDir() }}
	served := make(chan error, 1)
	go func() {
		served <- Serve(t.Context(), env, Options{
			Open: &symbiov1.RunRequest{Agent: "reviewer", On: n.on},
			Find: func(_ context.Context, dir, node string) (string, error) { return "kitchen", nil },
			dial: func(string) (symbiov1.ControlClient, *grpc.ClientConn, error) { return n, nil, n.err },
		})
		client.Close()
	}()
	e := &editor{}
	e.ClientSideConnection = acp.NewClientSideConnection(e, server, fromServer)
	e.SetLogger(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return e
}

// begin begins a session.
func (e *editor) begin(t *testing.T, n *fakeNode) acp.SessionId {
	t.Helper()
	if _, err := e.Initialize(t.Context(), acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersionNumber}); err != nil {
		t.Fatal(err)
	}
	s, err := e.NewSession(t.Context(), acp.NewSessionRequest{Cwd: t.TempDir(), McpServers: []acp.McpServer{}})
	if err != nil {
		t.Fatal(err)
	}
	if s.SessionId != "s1" || s.Modes.CurrentModeId != "ask" || len(s.Modes.AvailableModes) != 3 {
		t.Fatalf("the session is %+v", s)
	}
	return s.SessionId
}

// outcome is how a prompt ended.
type outcome struct {
	acp.PromptResponse
	error
}

// prompt sends a prompt, whose end comes on the channel.
func (e *editor) prompt(t *testing.T, id acp.SessionId, text string) <-chan outcome {
	t.Helper()
	ended := make(chan outcome, 1)
	go func() {
		r, err := e.Prompt(t.Context(), acp.PromptRequest{SessionId: id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
		ended <- outcome{r, err}
	}()
	synctest.Wait()
	return ended
}

func TestEditorSeesTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		e := edit(t, n)
		id := e.begin(t, n)
		ended := e.prompt(t, id, "fix it")
		if r := n.opened[0]; r.GetAgent() != "reviewer" || !r.GetInteractive() || r.GetTask() != "" || !slices.Equal(n.sent, []string{"fix it"}) {
			t.Fatalf("the node was asked %v and told %q", r, n.sent)
		}
		for _, c := range []struct{ kind, fields, want string }{
			{"task", `{"text":"fix it"}`, ""},
			{"thought", `{"text":"hm"}`, `{"content":{"text":"hm","type":"text"},"sessionUpdate":"agent_thought_chunk"}`},
			{"text", `{"text":"I look.","turn":1}`, `{"content":{"text":"I look.","type":"text"},"sessionUpdate":"agent_message_chunk"}`},
			{"tool_call", `{"tool":"Read","call":"c","args":{"file_path":"/w/a.go","offset":3}}`,
				`{"kind":"read","locations":[{"line":3,"path":"/w/a.go"}],"rawInput":{"file_path":"/w/a.go","offset":3},"sessionUpdate":"tool_call","status":"in_progress","title":"Read /w/a.go","toolCallId":"c-1"}`},
			{"progress", `{"tool":"Read","call":"c","text":"reading","done":1,"total":2}`,
				`{"content":[{"content":{"text":"50% reading","type":"text"},"type":"content"}],"sessionUpdate":"tool_call_update","status":"in_progress","toolCallId":"c-1"}`},
			{"tool_result", `{"tool":"Read","call":"c","text":"x"}`,
				`{"content":[{"content":{"text":"x","type":"text"},"type":"content"}],"sessionUpdate":"tool_call_update","status":"completed","toolCallId":"c-1"}`},
			{"tool_call", `{"tool":"Plan","call":"p","args":{"steps":[{"text":"look","state":"done"},{"text":"mend","state":"running"},{"text":"test","state":"pending"}]}}`,
				`{"entries":[{"content":"look","priority":"medium","status":"completed"},{"content":"mend","priority":"medium","status":"in_progress"},{"content":"test","priority":"medium","status":"pending"}],"sessionUpdate":"plan"}`},
			{"tool_result", `{"tool":"Plan","call":"p","text":"ok"}`, ""},
			{"tool_call", `{"tool":"Edit","call":"c","args":{"file_path":"/w/a.go","old_string":"a","new_string":"b"}}`,
				`{"content":[{"newText":"b","oldText":"a","path":"/w/a.go","type":"diff"}],"kind":"edit","locations":[{"path":"/w/a.go"}],"rawInput":{"file_path":"/w/a.go","new_string":"b","old_string":"a"},"sessionUpdate":"tool_call","status":"in_progress","title":"Edit /w/a.go","toolCallId":"c-2"}`},
			{"tool_result", `{"tool":"Edit","call":"c","text":"Edited","file":"/w/a.go","diff":"--- /w/a.go\n+++ /w/a.go\n@@ -1,2 +1,2 @@\n x\n-a\n+b\n"}`,
				`{"content":[{"newText":"x\nb\n","oldText":"x\na\n","path":"/w/a.go","type":"diff"}],"sessionUpdate":"tool_call_update","status":"completed","toolCallId":"c-2"}`},
			{"tool_call", `{"tool":"Bash","call":"d","args":{"command":"false"}}`,
				`{"kind":"execute","rawInput":{"command":"false"},"sessionUpdate":"tool_call","status":"in_progress","title":"Bash false","toolCallId":"d-3"}`},
			{"tool_result", `{"tool":"Bash","call":"d","text":"status 1","failed":true}`,
				`{"content":[{"content":{"text":"status 1","type":"text"},"type":"content"}],"sessionUpdate":"tool_call_update","status":"failed","toolCallId":"d-3"}`},
			{"notice", `{"text":"the disk is slow"}`, `{"content":{"text":"\nthe disk is slow\n","type":"text"},"sessionUpdate":"agent_thought_chunk"}`},
			{"text", `{"text":"Done.","turn":2}`, `{"content":{"text":"Done.","type":"text"},"sessionUpdate":"agent_message_chunk"}`},
			{"result", `{"text":"Done.","status":"done","tasks":1}`, ""},
		} {
			n.emit(c.kind, c.fields)
			if got := strings.Join(e.sees(), "\n"); got != c.want {
				t.Errorf("%s %s:\n got %s\nwant %s", c.kind, c.fields, got, c.want)
			}
		}
		if r := <-ended; r.error != nil || r.StopReason != acp.StopReasonEndTurn {
			t.Errorf("the prompt ended with %+v", r)
		}
	})
}

func TestPermissionIsAskedInEditor(t *testing.T) {
	for name, c := range map[string]struct {
		option string
		want   *symbiov1.AnswerRequest
	}{
		"once":      {"once", &symbiov1.AnswerRequest{Allow: true}},
		"always":    {"always", &symbiov1.AnswerRequest{Allow: true, Always: true}},
		"offer":     {"offer-1", &symbiov1.AnswerRequest{Allow: true, Offer: 1}},
		"no":        {"no", &symbiov1.AnswerRequest{}},
		"unknown":   {"all", &symbiov1.AnswerRequest{}},
		"cancelled": {"", &symbiov1.AnswerRequest{Reason: "the prompt was cancelled"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &fakeNode{}
				e := edit(t, n)
				e.answer = func(context.Context) (o acp.RequestPermissionOutcome) {
					if o.Selected = (&acp.RequestPermissionOutcomeSelected{OptionId: acp.PermissionOptionId(c.option)}); c.option == "" {
						o.Selected, o.Cancelled = nil, &acp.RequestPermissionOutcomeCancelled{}
					}
					return o
				}
				id := e.begin(t, n)
				ended := e.prompt(t, id, "write it")
				n.emit("tool_call", `{"tool":"Write","call":"c","args":{"file_path":"/w/a","content":"b\n"}}`)
				n.emit("approval", `{"id":"q","digest":"d","tool":"Write","args":{"content":"b\n","file_path":"/w/a"},"why":"no rule allows it",`+
					`"diff":"--- /dev/null\n+++ /w/a\n@@ -0,0 +1 @@\n+b\n","offers":[{"kind":"changes","text":"changes below /w"}]}`)
				synctest.Wait()
				if len(e.asked) != 1 || len(n.answers) != 1 {
					t.Fatalf("asked %v, answered %v", e.asked, n.answers)
				}
				call := e.asked[0].ToolCall
				if call.ToolCallId != "c-1" || *call.Kind != acp.ToolKindEdit || len(call.Content) != 2 || call.Content[0].Diff.OldText != nil ||
					call.Content[0].Diff.NewText != "b\n" || !strings.Contains(call.Content[1].Content.Content.Text.Text, "no rule allows it") {
					text, _ := json.Marshal(call)
					t.Errorf("the call is %s", text)
				}
				var options []string
				for _, o := range e.asked[0].Options {
					options = append(options, fmt.Sprintf("%s %s %s", o.OptionId, o.Kind, o.Name))
				}
				if want := []string{"once allow_once Allow once", "always allow_always Always allow this call",
					"offer-1 allow_always For this session: changes below /w", "no reject_once Reject"}; !slices.Equal(options, want) {
					t.Errorf("options %q, want %q", options, want)
				}
				c.want.Id, c.want.Digest, c.want.By = "q", "d", "editor"
				if got := n.answers[0]; got.String() != c.want.String() {
					t.Errorf("answered %v, want %v", got, c.want)
				}
				n.emit("result", `{"status":"done"}`)
				<-ended
			})
		})
	}
}

// A question that is answered elsewhere is taken back: the editor's answer does not reach the node.
func TestPermissionIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		e := edit(t, n)
		released := make(chan struct{})
		e.answer = func(ctx context.Context) acp.RequestPermissionOutcome {
			<-ctx.Done()
			close(released)
			return acp.RequestPermissionOutcome{Selected: &acp.RequestPermissionOutcomeSelected{OptionId: "once"}}
		}
		id := e.begin(t, n)
		ended := e.prompt(t, id, "write it")
		n.emit("approval", `{"id":"q","tool":"Write","args":{}}`)
		synctest.Wait()
		n.emit("answered", `{"id":"q","allow":true,"by":"kitchen"}`)
		<-released
		n.emit("result", `{"status":"done"}`)
		if r := <-ended; r.error != nil || len(e.asked) != 1 || len(n.answers) > 0 {
			t.Errorf("asked %v, answered %v, ended with %v", e.asked, n.answers, r.error)
		}
	})
}

func TestCancelInterruptsPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		e := edit(t, n)
		id := e.begin(t, n)
		ended := e.prompt(t, id, "one")
		if err := e.Cancel(t.Context(), acp.CancelNotification{SessionId: id}); err != nil {
			t.Fatal(err)
		}
		second := e.prompt(t, id, "two") // it waits for the end of the first
		if want := []string{"one", "interrupt"}; !slices.Equal(n.sent, want) {
			t.Fatalf("sent %q, want %q", n.sent, want)
		}
		n.emit("result", `{"status":"interrupted","error":"the task was interrupted"}`)
		if r := <-ended; r.error != nil || r.StopReason != acp.StopReasonCancelled {
			t.Errorf("the prompt ended with %+v", r)
		}
		synctest.Wait()
		n.emit("result", `{"status":"failed","error":"the model is gone"}`)
		if r := <-second; r.error == nil || !strings.Contains(r.error.Error(), `"message":"the model is gone"`) {
			t.Errorf("the prompt ended with %+v", r)
		}
	})
}

func TestModeIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		e := edit(t, n)
		id := e.begin(t, n)
		set := func(mode acp.SessionModeId) error {
			_, err := e.SetSessionMode(t.Context(), acp.SetSessionModeRequest{SessionId: id, ModeId: mode})
			return err
		}
		go n.emit("settings", `{"mode":"plan"}`)
		if err := set("plan"); err != nil {
			t.Error(err)
		}
		if got := e.sees(); !slices.Equal(got, []string{`{"currentModeId":"plan","sessionUpdate":"current_mode_update"}`}) {
			t.Errorf("the editor sees %q", got)
		}
		go n.emit("settings", `{"mode":"plan","why":"not now"}`)
		if err := set("edits"); err == nil || !strings.Contains(err.Error(), "not now") {
			t.Error(err)
		}
		if err := set("all"); err == nil || !strings.Contains(err.Error(), "there is no mode") {
			t.Error(err)
		}
		if want := []string{"mode plan", "mode edits"}; !slices.Equal(n.sent, want) {
			t.Errorf("sent %q, want %q", n.sent, want)
		}
	})
}

var errGone = status.Error(codes.Unavailable, "error reading from server: EOF")

func TestPromptFailsWhenNodeIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		e := edit(t, n)
		id := e.begin(t, n)
		gone := func(ended <-chan outcome) {
			t.Helper()
			if r := <-ended; r.error == nil || strings.Count(r.error.Error(), "node kitchen is gone") != 1 {
				t.Errorf("the prompt ended with %+v", r)
			}
		}
		ended := e.prompt(t, id, "one")
		n.emit("session", `{"id":"s1","taken":true}`)
		n.failure <- errGone
		gone(ended)
		n.err = command.Unavailable(errors.New("no node is running"))
		gone(e.prompt(t, id, "two"))
		gone(e.prompt(t, id, "three"))
		n.err = nil
		ended = e.prompt(t, id, "four")
		if r := n.opened[len(n.opened)-1]; len(n.opened) != 2 || r.GetSession() != "s1" || r.GetTask() != "four" {
			t.Errorf("the node was asked %v", n.opened)
		}
		n.emit("result", `{"status":"done","tasks":2}`)
		if r := <-ended; r.error != nil {
			t.Error(r.error)
		}
	})
}

// The changes of an agent of another node are made after a yes, and the prompt ends when they are.
func TestChangesOfOtherNodeAreOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{on: []string{"b"}}
		e := edit(t, n)
		option := acp.PermissionOptionId("no")
		e.answer = func(context.Context) acp.RequestPermissionOutcome {
			return acp.RequestPermissionOutcome{Selected: &acp.RequestPermissionOutcomeSelected{OptionId: option}}
		}
		dir := t.TempDir()
		s, err := e.NewSession(t.Context(), acp.NewSessionRequest{Cwd: dir, McpServers: []acp.McpServer{}})
		if err != nil || s.SessionId != "a" || s.Modes != nil || n.opened[0].GetBring() != dir || n.opened[0].GetMode() != "" {
			t.Fatalf("the session is %+v, %v of %v", s, err, n.opened)
		}
		if seen := e.sees(); len(seen) > 0 {
			t.Errorf("the editor sees %q before it knows the session", seen)
		}
		patch := func(file string) string {
			return `{"dir":"/w","files":[{"path":"` + file + `","change":"change"}],"diff":"--- ` + file + `\n+++ ` + file + `\n@@ -1 +1 @@\n-a\n+b\n"}`
		}
		turn := func(events ...string) {
			t.Helper()
			ended := e.prompt(t, s.SessionId, "mend it")
			for _, fields := range events {
				n.emit("patch", fields)
			}
			n.emit("result", `{"status":"done"}`)
			synctest.Wait()
			if n.sent[len(n.sent)-1] == "apply" {
				select {
				case r := <-ended:
					t.Errorf("the prompt ended before the changes were made: %+v", r)
				default:
				}
				n.emit("patch", `{"dir":"/w","applied":true}`)
			}
			if r := <-ended; r.error != nil || r.StopReason != acp.StopReasonEndTurn {
				t.Errorf("the prompt ended with %+v", r)
			}
		}
		turn(patch("x"))
		if seen := strings.Join(e.sees(), "\n"); !strings.Contains(seen, "a works on node b") || !strings.Contains(seen, `"oldText":"a\n"`) || !strings.Contains(seen, "nothing was changed here") {
			t.Errorf("the editor sees %s", seen)
		}
		turn(patch("x")) // the person does not want it
		turn(strings.Replace(patch("y"), `{"dir"`, `{"why":"y has changed","dir"`, 1))
		if seen := strings.Join(e.sees(), "\n"); len(e.asked) != 1 || !strings.Contains(seen, "y has changed") {
			t.Errorf("asked %d times, and the editor sees %s", len(e.asked), seen)
		}
		option = "once"
		turn(patch("z"))
		if seen := strings.Join(e.sees(), "\n"); len(e.asked) != 2 || !strings.Contains(seen, `"status":"completed"`) {
			t.Errorf("asked %d times, and the editor sees %s", len(e.asked), seen)
		}
	})
}

func TestConnectionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		e := edit(t, n)
		e.begin(t, n)
		begin := func() error {
			_, err := e.NewSession(t.Context(), acp.NewSessionRequest{Cwd: t.TempDir(), McpServers: []acp.McpServer{}})
			return err
		}
		n.err = command.Unavailable(errors.New("no node is running"))
		for range maxSessions { // they take no place
			if err := begin(); err == nil || !strings.Contains(err.Error(), "node kitchen is gone") {
				t.Fatal(err)
			}
		}
		n.err = nil
		for range maxSessions - 1 {
			if err := begin(); err != nil {
				t.Fatal(err)
			}
		}
		if err := begin(); err == nil || !strings.Contains(err.Error(), "has 32 sessions already") {
			t.Errorf("one more session: %v", err)
		}
		if _, err := e.CloseSession(t.Context(), acp.CloseSessionRequest{SessionId: "s2"}); err != nil {
			t.Error(err)
		}
		if err := begin(); err != nil {
			t.Errorf("a session after another was closed: %v", err)
		}
	})
}

func TestMalformedLinesAreAnswered(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for name, c := range map[string]struct{ line, want string }{
		"no JSON":   {"hello", `"code":-32700`},
		"a list":    {`[{"method":"initialize","id":1}]`, `"code":-32600`},
		"a number":  {`7`, `"code":-32600`},
		"nothing":   {`{}`, `"code":-32600`},
		"too long":  {long + "y", `"the line is too long"`},
		"empty":     {" ", ""},
		"a request": {`{"id":1,"method":"x"}`, ""},
		"an answer": {`{"id":1,"result":{}}`, ""},
		"no end":    {`{"method":"x"}`, ""},
	} {
		var to, answers bytes.Buffer
		end := "\n"
		if name == "no end" {
			end = ""
		}
		err := copyLines(&to, strings.NewReader(c.line+end), &output{to: &answers})
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		passed := strings.HasPrefix(c.line, "{") && c.want == ""
		if (to.Len() > 0) != passed || !strings.Contains(answers.String(), c.want) || (answers.Len() > 0) != (c.want != "") {
			t.Errorf("%s: passed %.50q, answered %q", name, to.String(), answers.String())
		}
	}
}

func TestHostileRequestsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		e := edit(t, n)
		id := e.begin(t, n)
		for name, call := range map[string]func() error{
			"an unknown session": func() error {
				_, err := e.Prompt(t.Context(), acp.PromptRequest{SessionId: "x", Prompt: []acp.ContentBlock{acp.TextBlock("x")}})
				return err
			},
			"an empty prompt": func() error {
				_, err := e.Prompt(t.Context(), acp.PromptRequest{SessionId: id, Prompt: []acp.ContentBlock{acp.TextBlock(" ")}})
				return err
			},
			"sound": func() error {
				_, err := e.Prompt(t.Context(), acp.PromptRequest{SessionId: id, Prompt: []acp.ContentBlock{acp.AudioBlock("", "audio/wav")}})
				return err
			},
			"a relative directory": func() error {
				_, err := e.NewSession(t.Context(), acp.NewSessionRequest{Cwd: "x", McpServers: []acp.McpServer{}})
				return err
			},
			"no directory": func() error {
				_, err := e.NewSession(t.Context(), acp.NewSessionRequest{Cwd: t.TempDir() + "/x", McpServers: []acp.McpServer{}})
				return err
			},
			"a session that is not kept": func() error {
				_, err := e.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: "../../etc/passwd", Cwd: t.TempDir(), McpServers: []acp.McpServer{}})
				return err
			},
			"a login": func() error {
				_, err := e.Authenticate(t.Context(), acp.AuthenticateRequest{MethodId: "x"})
				return err
			},
		} {
			if err := call(); err == nil || !strings.Contains(err.Error(), `"code":-32`) || strings.Contains(err.Error(), "-32603") {
				t.Errorf("%s: %v", name, err)
			}
		}
		var prompts []<-chan outcome
		for range maxPrompts + 2 {
			prompts = append(prompts, e.prompt(t, id, "x"))
		}
		refused := 0
		for range maxPrompts {
			n.emit("result", `{"status":"done"}`)
			synctest.Wait()
		}
		for _, ended := range prompts {
			if r := <-ended; r.error != nil && strings.Contains(r.error.Error(), "wait already") {
				refused++
			}
		}
		if refused != 2 {
			t.Errorf("%d prompts were refused, want 2", refused)
		}
	})
}

func TestDiffContent(t *testing.T) {
	const two = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n x\n--- a\n+b\n@@ -9 +9 @@\n-c\n\\ No newline at end of file\n+d\n"
	for diff, want := range map[string]string{
		"":  "[]",
		two: `[/w/a "x\n-- a\n" -> "x\nb\n" /w/a "c\n" -> "d\n"]`,
		"--- /dev/null\n+++ /b/a\n@@ -0,0 +1 @@\n+b\n\\ No newline at end of file\n":                      `[/b/a new -> "b\n"]`,
		two + "--- b\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n\\ 7 more bytes of the difference are left out\n": `[/w/a "x\n-- a\n" -> "x\nb\n" /w/a "c\n" -> "d\n" /w/b "b\n" -> ""]`,
		"--- a\n+++ a\n@@ -1,9 +1,9 @@\n-b\n+c\n\\ 7 more bytes of the difference are left out\n":         `[/w/a "b\n" -> "c\n"]`,
	} {
		got := []string{}
		for _, c := range (&view{dir: "/w"}).diffContent(diff) {
			old := "new"
			if c.Diff.OldText != nil {
				old = fmt.Sprintf("%q", *c.Diff.OldText)
			}
			got = append(got, fmt.Sprintf("%s %s -> %q", c.Diff.Path, old, c.Diff.NewText))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q: got %v, want %s", diff, got, want)
		}
	}
}

func TestPromptBecomesMessage(t *testing.T) {
	resource := acp.ResourceBlock(acp.EmbeddedResourceResource{TextResourceContents: &acp.TextResourceContents{Uri: "file:///w/b.go", Text: "@secret $skill"}})
	m, err := messageOf("/w", []acp.ContentBlock{
		acp.TextBlock("look at "), acp.ResourceLinkBlock("a", "file:///w/x/a%20b.go"), acp.TextBlock(", "), acp.ResourceLinkBlock("c", "https://example.org/c"),
		acp.TextBlock(" and "), resource, acp.ImageBlock("aGk=", "image/png"),
	})
	if want := "look at @\"x/a b.go\", https://example.org/c and b.go\n\nStandard input has:\n\nb.go:\n@secret $skill"; err != nil || m.GetText() != want {
		t.Errorf("got %q, %v; want %q", m.GetText(), err, want)
	}
	if p := m.GetPictures(); len(p) != 1 || string(p[0].GetData()) != "hi" || p[0].GetType() != "image/png" {
		t.Errorf("the pictures are %v", p)
	}
}
