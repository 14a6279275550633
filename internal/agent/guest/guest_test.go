package guest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/acp-go-sdk"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/internal/agent/guest"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// program is an agent of ACP in this process. Each prompt is given to do.
type program struct {
	conn    *acp.AgentSideConnection
	do      func(p *program, ctx context.Context, text string) (acp.PromptResponse, error)
	loads   bool
	prompts []string
	loaded  []acp.SessionId
	modes   []acp.SessionModeId
	mcp     func() net.Conn
	cancels int
}

func (p *program) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return acp.InitializeResponse{ProtocolVersion: 1, AgentCapabilities: acp.AgentCapabilities{LoadSession: p.loads}}, nil
}

func (p *program) NewSession(context.Context, acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	return acp.NewSessionResponse{SessionId: "s1", Modes: &acp.SessionModeState{CurrentModeId: "build",
		AvailableModes: []acp.SessionMode{{Id: "build", Name: "Build"}, {Id: "plan", Name: "Plan"}}}}, nil
}

func (p *program) LoadSession(_ context.Context, r acp.LoadSessionRequest) (acp.LoadSessionResponse, error) {
	p.loaded = append(p.loaded, r.SessionId)
	return acp.LoadSessionResponse{}, nil
}

func (p *program) Prompt(ctx context.Context, r acp.PromptRequest) (acp.PromptResponse, error) {
	text := r.Prompt[0].Text.Text
	p.prompts = append(p.prompts, text)
	return p.do(p, ctx, text)
}

func (p *program) Cancel(context.Context, acp.CancelNotification) error { p.cancels++; return nil }

func (p *program) SetSessionMode(_ context.Context, r acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	p.modes = append(p.modes, r.ModeId)
	return acp.SetSessionModeResponse{}, nil
}

func (p *program) Authenticate(context.Context, acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return acp.AuthenticateResponse{}, nil
}

func (p *program) CloseSession(context.Context, acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	return acp.CloseSessionResponse{}, nil
}

func (p *program) ListSessions(context.Context, acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	return acp.ListSessionsResponse{}, nil
}

func (p *program) ResumeSession(context.Context, acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	return acp.ResumeSessionResponse{}, nil
}

func (p *program) SetSessionConfigOption(context.Context, acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	return acp.SetSessionConfigOptionResponse{}, nil
}

// say sends a piece of the answer.
func (p *program) say(ctx context.Context, text string) {
	_ = p.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: "s1", Update: acp.UpdateAgentMessageText(text)})
}

// host starts the program in this process.
type host struct {
	program *program
	starts  int
	notes   string
	out     *io.PipeWriter // of the latest program
}

func (h *host) Start(_ context.Context, o guest.Order) (*guest.Process, error) {
	h.starts++
	fromNode, in := io.Pipe()
	out, toNode := io.Pipe()
	h.out = toNode
	h.program.conn = acp.NewAgentSideConnection(h.program, toNode, fromNode)
	h.program.conn.SetLogger(slog.New(slog.DiscardHandler))
	h.program.mcp = func() net.Conn {
		here, there := net.Pipe()
		go o.Serve(context.Background(), there)
		return here
	}
	return &guest.Process{In: in, Out: out, Said: func() string { return "its last words" }, Notes: h.notes,
		End: func() { toNode.Close(); fromNode.Close() }}, nil
}

// place is a guest with the tools of a workspace, and its conversation.
type place struct {
	*conversation.Conversation
	host    *host
	guest   *guest.Guest
	dir     string
	asked   []tool.Decision
	answer  tool.Answer
	results []llm.ToolResult
	texts   strings.Builder
	notices []string
	heard   chan struct{} // closed at the first text
	plan    bool
	begun   time.Time // of the first text

	begunSteps []llm.ToolCall
}

// newPlace returns the place of a guest. rules are what its agent may do.
func newPlace(t testing.TB, rules permission.Config, p *program, more ...tool.Tool) *place {
	t.Helper()
	policy, err := rules.Policy()
	if err != nil {
		t.Fatal(err)
	}
	at := &place{heard: make(chan struct{}), dir: t.TempDir(), host: &host{program: p, notes: filepath.Join(t.TempDir(), "notes.json")}}
	at.open(t, policy, nil, more...)
	return at
}

// open makes the guest and its conversation, with messages of an earlier life.
func (at *place) open(t testing.TB, policy permission.Policy, past []llm.Message, more ...tool.Tool) {
	t.Helper()
	files, err := builtin.New(builtin.Config{Dir: at.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	own := []string{}
	for _, f := range files.Tools() {
		own = append(own, f.Spec().Name)
	}
	at.guest = guest.New(at.host, agent.ProgramConfig{
		Name: "parrot", Dir: func() string { return at.dir }, Program: definition.Program{Command: []string{"/opt/bin/parrot", "acp"}}, Own: own,
		ReadOnly: func() bool { return at.plan }, Mode: func() agent.Mode { return map[bool]agent.Mode{true: agent.ModePlan, false: agent.ModeAsk}[at.plan] },
		Notice:    func(text string) { at.notices = append(at.notices, text) },
		Begun:     func(c llm.ToolCall) { at.begunSteps = append(at.begunSteps, c) },
		Constrain: func(p sandbox.Policy) sandbox.Policy { return p },
	})
	t.Cleanup(at.guest.Close)
	set := tool.NewSet(tool.SetConfig{
		Guard: permission.Chain{{Name: "ann", Policy: policy}}, Dir: at.dir,
		Ask:      func(_ context.Context, d tool.Decision) tool.Answer { at.asked = append(at.asked, d); return at.answer },
		OnResult: func(r llm.ToolResult, _ tool.FileDiff) { at.results = append(at.results, r) },
	}, at.guest.Tools(append(more, files.Tools()...))...)
	at.Conversation = conversation.New(conversation.Config{Model: at.guest, Tools: set, Instructions: "You are the parrot.", MaxTurns: 1000,
		Watch: func(_ context.Context, e event.Event) {
			if e.Type == event.TypeText {
				if at.begun.IsZero() {
					at.begun = time.Now()
				}
				if at.texts.Len() == 0 {
					close(at.heard)
				}
				at.texts.WriteString(e.Text)
			}
		}})
}

var end = acp.PromptResponse{StopReason: acp.StopReasonEndTurn}

func TestAnswerIsStreamedAndTheSystemPromptComesOnce(t *testing.T) {
	p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
		p.say(ctx, "one ")
		p.say(ctx, "two")
		return end, nil
	}}
	at := newPlace(t, permission.Config{Preset: "none"}, p)
	for _, task := range []string{"first", "second"} {
		reply, err := at.Send(t.Context(), task)
		if err != nil || reply.Text != "one two" {
			t.Fatalf("%q, %v", reply.Text, err)
		}
	}
	if want := []string{"You are the parrot.\n\nfirst", "second"}; !slices.Equal(p.prompts, want) || at.host.starts != 1 {
		t.Errorf("prompts %q of %d programs, want %q", p.prompts, at.host.starts, want)
	}
}

// ask asks for a permission, and says which option was chosen.
func (p *program) ask(ctx context.Context, kind acp.ToolKind, title string, input map[string]any, content ...acp.ToolCallContent) string {
	r, err := p.conn.RequestPermission(ctx, acp.RequestPermissionRequest{SessionId: "s1",
		ToolCall: acp.ToolCallUpdate{ToolCallId: "c1", Kind: &kind, Title: &title, RawInput: input, Content: content},
		Options: []acp.PermissionOption{{Kind: "allow_always", OptionId: "always", Name: "a"}, {Kind: "allow_once", OptionId: "once", Name: "o"},
			{Kind: "reject_once", OptionId: "no", Name: "n"}}})
	switch {
	case err != nil:
		return err.Error()
	case r.Outcome.Selected != nil:
		return string(r.Outcome.Selected.OptionId)
	}
	return "cancelled"
}

func TestPermissionsAreDecidedByTheRulesOfTheAgent(t *testing.T) {
	for name, test := range map[string]struct {
		kind    acp.ToolKind
		input   map[string]any
		content []acp.ToolCallContent
		person  bool // says yes
		asked   int
		want    string
	}{
		"allowed command":      {kind: "execute", input: map[string]any{"command": "go test ./..."}, want: "once"},
		"command as words":     {kind: "execute", input: map[string]any{"command": []any{"go", "test", "./..."}}, want: "once"},
		"denied command":       {kind: "execute", input: map[string]any{"command": "rm -rf /"}, person: true, want: "no"},
		"hidden in a command":  {kind: "execute", input: map[string]any{"command": "go test; rm -rf /"}, person: true, want: "no"},
		"asked, yes":           {kind: "execute", input: map[string]any{"command": "npm publish"}, person: true, asked: 1, want: "once"},
		"asked, no":            {kind: "execute", input: map[string]any{"command": "npm publish"}, asked: 1, want: "no"},
		"denied file":          {kind: "read", input: map[string]any{"filePath": ".env"}, person: true, want: "no"},
		"denied page":          {kind: "fetch", input: map[string]any{"url": "https://evil.example/x"}, person: true, want: "no"},
		"no command":           {kind: "execute", input: map[string]any{"script": "rm -rf /"}, asked: 1, want: "no"},
		"unknown kind":         {kind: "other", input: map[string]any{"x": "y"}, person: true, asked: 1, want: "once"},
		"one of two is denied": {kind: "edit", content: []acp.ToolCallContent{acp.ToolDiffContent("a.txt", "x"), acp.ToolDiffContent(".env", "x")}, person: true, asked: 1, want: "no"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
				got = p.ask(ctx, test.kind, "it", test.input, test.content...)
				p.say(ctx, "done")
				return end, nil
			}}
			at := newPlace(t, permission.Config{Preset: "none", Allow: permission.Rules("Bash(go test:*)"),
				FinalDeny: permission.Rules("Bash(rm:*)", "Read(.env)", "Edit(.env)", "WebFetch(domain:evil.example)")}, p, others(t)...)
			at.answer = tool.Answer{Allow: test.person}
			if reply, err := at.Send(t.Context(), "go"); err != nil || reply.Text != "done" {
				t.Fatal(reply.Text, err)
			}
			if got != test.want || len(at.asked) != test.asked {
				t.Errorf("%s, asked %d times %v, want %s and %d", got, len(at.asked), at.asked, test.want, test.asked)
			}
		})
	}
}

// others are tools by the names of those that this package does not make.
func others(t *testing.T) (all []tool.Tool) {
	for _, name := range []string{"Bash", "WebFetch"} {
		all = append(all, tool.New(tool.Spec{Name: name}, func(context.Context, struct {
			Command string `json:"command,omitempty"`
			Access  string `json:"access,omitempty"`
		}) tool.Result {
			return tool.Result{Text: name + " of the node"}
		}))
	}
	return all
}

func TestPersonSeesTheChangeOfAnEdit(t *testing.T) {
	p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
		p.ask(ctx, "edit", "Edit a.txt", nil, acp.ToolDiffContent("a.txt", "new\n", "old\n"))
		p.say(ctx, "done")
		return end, nil
	}}
	at := newPlace(t, permission.Config{Preset: "none"}, p)
	at.answer = tool.Answer{}
	if _, err := at.Send(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	if len(at.asked) != 1 || at.asked[0].Tool != "Edit" || !strings.Contains(at.asked[0].Diff(), "-old\n+new") {
		t.Fatalf("asked %+v", at.asked)
	}
}

func TestFilesGoThroughTheToolsOfTheAgent(t *testing.T) {
	long := strings.Repeat("a long line of a long file\n", 10_000)
	var got []string
	p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
		for _, path := range []string{"in.txt", ".env", "link", "../outside", "away"} {
			r, err := p.conn.ReadTextFile(ctx, acp.ReadTextFileRequest{SessionId: "s1", Path: path})
			got = append(got, fmt.Sprintf("%d %t", len(r.Content), err == nil))
		}
		line, count := 2, 1
		r, err := p.conn.ReadTextFile(ctx, acp.ReadTextFileRequest{SessionId: "s1", Path: "in.txt", Line: &line, Limit: &count})
		got = append(got, fmt.Sprintf("%d %t", len(r.Content), err == nil))
		for _, path := range []string{"out.txt", "in.txt", ".env", "../outside"} {
			_, err := p.conn.WriteTextFile(ctx, acp.WriteTextFileRequest{SessionId: "s1", Path: path, Content: "written"})
			got = append(got, fmt.Sprint(err == nil))
		}
		p.say(ctx, "done")
		return end, nil
	}}
	at := newPlace(t, permission.Config{Preset: "none", Allow: permission.Rules("Read(./*)", "Write(./*)"), FinalDeny: permission.Rules("Read(.env)", "Write(.env)")}, p)
	for name, text := range map[string]string{"in.txt": long, ".env": "SECRET"} {
		if err := os.WriteFile(filepath.Join(at.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(".env", filepath.Join(at.dir, "link")), os.Symlink("/etc/passwd", filepath.Join(at.dir, "away"))); err != nil {
		t.Fatal(err)
	}
	if _, err := at.Send(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprint(len(long), true), "0 false", "0 false", "0 false", "0 false", "27 true", "true", "true", "false", "false"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q; %+v", got, want, at.results)
	}
	for name, want := range map[string]string{"out.txt": "written", "in.txt": "written", ".env": "SECRET"} {
		if text, err := os.ReadFile(filepath.Join(at.dir, name)); err != nil || string(text) != want {
			t.Errorf("%s holds %.20q, %v", name, text, err)
		}
	}
}

func TestTerminalsRunByTheBashOfTheAgent(t *testing.T) {
	var got []string
	p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
		for _, command := range []string{"go", "rm"} {
			r, err := p.conn.CreateTerminal(ctx, acp.CreateTerminalRequest{SessionId: "s1", Command: command, Args: []string{"test", "it's"}})
			if err != nil {
				return end, err
			}
			w, err := p.conn.WaitForTerminalExit(ctx, acp.WaitForTerminalExitRequest{SessionId: "s1", TerminalId: r.TerminalId})
			if err != nil {
				return end, err
			}
			o, err := p.conn.TerminalOutput(ctx, acp.TerminalOutputRequest{SessionId: "s1", TerminalId: r.TerminalId})
			if err != nil {
				return end, err
			}
			got = append(got, fmt.Sprint(*w.ExitCode, " ", strings.Contains(o.Output, "Bash of the node")))
		}
		p.say(ctx, "done")
		return end, nil
	}}
	at := newPlace(t, permission.Config{Preset: "none", Allow: permission.Rules("Bash(go:*)"), FinalDeny: permission.Rules("Bash(rm:*)")}, p, others(t)...)
	if _, err := at.Send(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"0 true", "1 false"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A command that the program kills, or gives up, ends, and the program is told.
func TestTerminalIsKilled(t *testing.T) {
	var ended []error
	runs := make(chan struct{})
	bash := tool.New(tool.Spec{Name: "Bash"}, func(ctx context.Context, _ struct {
		Command string `json:"command"`
		Access  string `json:"access,omitempty"`
	}) tool.Result {
		runs <- struct{}{}
		<-ctx.Done()
		ended = append(ended, ctx.Err())
		return tool.Result{Text: "as far as it came", IsError: true}
	})
	p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
		id := func() string {
			r, err := p.conn.CreateTerminal(ctx, acp.CreateTerminalRequest{SessionId: "s1", Command: "sleep"})
			if err != nil {
				t.Error(err)
			}
			<-runs
			return r.TerminalId
		}
		first := id()
		if _, err := p.conn.KillTerminal(ctx, acp.KillTerminalRequest{SessionId: "s1", TerminalId: first}); err != nil {
			t.Error(err)
		}
		w, err := p.conn.WaitForTerminalExit(ctx, acp.WaitForTerminalExitRequest{SessionId: "s1", TerminalId: first})
		if err != nil || w.Signal == nil || w.ExitCode != nil {
			t.Errorf("it ended with %+v, %v, want a signal", w, err)
		}
		if o, err := p.conn.TerminalOutput(ctx, acp.TerminalOutputRequest{SessionId: "s1", TerminalId: first}); err != nil || o.Output != "as far as it came" {
			t.Errorf("it said %q, %v", o.Output, err)
		}
		if _, err := p.conn.ReleaseTerminal(ctx, acp.ReleaseTerminalRequest{SessionId: "s1", TerminalId: id()}); err != nil {
			t.Error(err)
		}
		if _, err := p.conn.KillTerminal(ctx, acp.KillTerminalRequest{SessionId: "s1", TerminalId: "t99"}); err == nil {
			t.Error("a terminal was killed that does not exist")
		}
		p.say(ctx, "done")
		return end, nil
	}}
	at := newPlace(t, permission.Config{Preset: "none", Allow: permission.Rules("Bash(sleep:*)")}, p, bash)
	if _, err := at.Send(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	if len(ended) != 2 {
		t.Errorf("%d commands ended, want both", len(ended))
	}
}

// The own actions of a program are in the record as calls with results, in their order.
func TestOwnToolsOfTheProgramAreNoted(t *testing.T) {
	p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
		p.say(ctx, "before ")
		_ = p.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: "s1", Update: acp.StartToolCall("c1", "ls", acp.WithStartKind("execute"))})
		_ = p.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: "s1", Update: acp.UpdateToolCall("c1", acp.WithUpdateStatus("completed"),
			acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolContent(acp.TextBlock("a.txt"))}))})
		p.say(ctx, "after")
		return end, nil
	}}
	at := newPlace(t, permission.Config{Preset: "permissive"}, p)
	reply, err := at.Send(t.Context(), "go")
	if err != nil || reply.Text != "after" || at.texts.String() != "before after" {
		t.Fatalf("%q, %q, %v", reply.Text, at.texts.String(), err)
	}
	if len(at.results) != 1 || at.results[0].Name != agent.StepTool || at.results[0].Text != "a.txt" || at.results[0].IsError {
		t.Fatalf("noted %+v", at.results)
	}
}

// A step of a program is shown when it begins, once, and has the same id when it has ended.
func TestStepIsShownWhenItBegins(t *testing.T) {
	for name, test := range map[string]struct {
		begin  []acp.SessionUpdate
		action string
	}{
		"with its input": {begin: []acp.SessionUpdate{acp.StartToolCall("c1", "npm test", acp.WithStartRawInput(map[string]any{"command": "npm test"}))}, action: "npm test"},
		"input comes later": {begin: []acp.SessionUpdate{acp.StartToolCall("c1", "bash", acp.WithStartStatus("pending")),
			acp.UpdateToolCall("c1", acp.WithUpdateTitle("npm test"), acp.WithUpdateStatus("in_progress"))}, action: "npm test"},
	} {
		t.Run(name, func(t *testing.T) {
			var at *place
			p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
				more := []acp.SessionUpdate{acp.UpdateToolCall("c1", acp.WithUpdateStatus("in_progress")), acp.UpdateAgentMessageText("it runs")}
				for _, u := range append(test.begin, more...) {
					_ = p.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: "s1", Update: u})
				}
				<-at.heard
				if len(at.begunSteps) != 1 || len(at.results) != 0 || !strings.Contains(string(at.begunSteps[0].Args), test.action) {
					t.Errorf("begun %+v before any of %+v", at.begunSteps, at.results)
				}
				_ = p.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: "s1", Update: acp.UpdateToolCall("c1", acp.WithUpdateStatus("completed"))})
				p.say(ctx, "done")
				return end, nil
			}}
			at = newPlace(t, permission.Config{Preset: "permissive"}, p)
			if _, err := at.Send(t.Context(), "go"); err != nil {
				t.Fatal(err)
			}
			if len(at.begunSteps) != 1 || len(at.results) != 1 || at.results[0].CallID != at.begunSteps[0].ID {
				t.Errorf("begun %+v, ended %+v", at.begunSteps, at.results)
			}
		})
	}
}

func TestProgramUsesTheToolsOfTheCommunityByMCP(t *testing.T) {
	find := tool.New(tool.Spec{Name: "find_members", Description: "Finds members."}, func(_ context.Context, a struct {
		Name string `json:"name"`
	}) tool.Result {
		return tool.Result{Text: "found " + a.Name}
	})
	got := ""
	p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
		c := p.mcp()
		session, err := sdk.NewClient(&sdk.Implementation{Name: "parrot", Version: "1"}, nil).Connect(ctx, &sdk.IOTransport{Reader: c, Writer: c}, nil)
		if err != nil {
			return end, err
		}
		defer session.Close()
		list, err := session.ListTools(ctx, nil)
		if err != nil {
			return end, err
		}
		for _, one := range list.Tools {
			got += one.Name + " "
		}
		r, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "find_members", Arguments: map[string]any{"name": "ben"}})
		if err != nil {
			return end, err
		}
		text, _ := json.Marshal(r.Content)
		got += string(text)
		p.say(ctx, "done")
		return end, nil
	}}
	at := newPlace(t, permission.Config{Preset: "none", Allow: permission.Rules("find_members")}, p, find)
	if _, err := at.Send(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, "find_members [") || !strings.Contains(got, "found ben") {
		t.Error(got)
	}
}

func TestInterruptedTaskIsCancelledAndTheNextOneRuns(t *testing.T) {
	begun := make(chan struct{})
	p := &program{do: func(p *program, ctx context.Context, text string) (acp.PromptResponse, error) {
		if strings.HasSuffix(text, "again") {
			p.say(ctx, "done")
			return end, nil
		}
		close(begun)
		<-ctx.Done() // the connection ends it when session/cancel comes
		return acp.PromptResponse{StopReason: acp.StopReasonCancelled}, nil
	}}
	at := newPlace(t, permission.Config{Preset: "none"}, p)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	go func() { <-begun; cancel(stop) }()
	if _, err := at.Send(ctx, "work"); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if reply, err := at.Send(t.Context(), "again"); err != nil || reply.Text != "done" || at.host.starts != 1 {
		t.Fatal(reply.Text, err, at.host.starts)
	}
}

// The end of the program is retried with a new one, which goes on with its session, and then is an error.
func TestProgramThatEndsIsStartedAgain(t *testing.T) {
	times := 0
	var at *place
	p := &program{loads: true}
	p.do = func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
		if times++; times == 1 {
			p.say(ctx, "half ")
			<-at.heard
			at.host.out.Close()
			<-ctx.Done()
			return end, ctx.Err()
		}
		p.say(ctx, "whole")
		return end, nil
	}
	at = newPlace(t, permission.Config{Preset: "none"}, p)
	reply, err := at.Send(t.Context(), "go")
	if err != nil || reply.Text != "half whole" || at.host.starts != 2 || !slices.Equal(p.loaded, []acp.SessionId{"s1"}) {
		t.Fatalf("%q, %v, %d starts, loaded %v", reply.Text, err, at.host.starts, p.loaded)
	}
}

func TestModeOfTheAgentIsTold(t *testing.T) {
	p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
		p.say(ctx, "done")
		return end, nil
	}}
	at := newPlace(t, permission.Config{Preset: "none"}, p)
	at.plan = true
	if _, err := at.Send(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.modes, []acp.SessionModeId{"plan"}) {
		t.Error(p.modes)
	}
}

// A question is about the call that was reported just before it.
func TestPermissionComesAfterTheReportOfItsCall(t *testing.T) {
	for range 50 {
		p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
			for range 20 {
				p.say(ctx, "x")
			}
			_ = p.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: "s1", Update: acp.StartToolCall("c1", "Edit", acp.WithStartKind("edit"),
				acp.WithStartContent([]acp.ToolCallContent{acp.ToolDiffContent("a.txt", "new\n", "old\n")}))})
			_, err := p.conn.RequestPermission(ctx, acp.RequestPermissionRequest{SessionId: "s1", ToolCall: acp.ToolCallUpdate{ToolCallId: "c1"},
				Options: []acp.PermissionOption{{Kind: "reject_once", OptionId: "no", Name: "n"}}})
			p.say(ctx, "done")
			return end, err
		}}
		at := newPlace(t, permission.Config{Preset: "none"}, p)
		if _, err := at.Send(t.Context(), "go"); err != nil {
			t.Fatal(err)
		}
		if len(at.asked) != 1 || at.asked[0].Tool != "Edit" {
			t.Fatalf("asked %+v, want for the edit", at.asked)
		}
	}
}

// Updates that the connection does not understand hold nothing up.
func TestMalformedUpdatesHoldNoRequestBack(t *testing.T) {
	var out io.Writer
	p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
		for _, line := range []string{`{"jsonrpc":2,"id":{},"method":"session/update","params":7}`, `{"jsonrpc":"2.0","method":"session/update","error":7}`,
			`{"jsonrpc":"2.0","id":3,"method":"session/update","params":7}`, `{"method":"session/update"}`, `{"METHOD":"session/update","id":null}`} {
			fmt.Fprintln(out, line)
		}
		p.ask(ctx, "execute", "it", map[string]any{"command": "npm publish"})
		p.say(ctx, "done")
		return end, nil
	}}
	at := newPlace(t, permission.Config{Preset: "none"}, p, others(t)...)
	begin := p.do
	p.do = func(p *program, ctx context.Context, text string) (acp.PromptResponse, error) {
		out = at.host.out
		return begin(p, ctx, text)
	}
	if reply, err := at.Send(t.Context(), "go"); err != nil || reply.Text != "done" || len(at.asked) != 1 {
		t.Errorf("%q, %v, asked %+v", reply.Text, err, at.asked)
	}
}
