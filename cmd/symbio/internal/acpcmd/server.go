package acpcmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	acp "github.com/coder/acp-go-sdk"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
)

// The codes of errors of JSON-RPC, and of ACP for what does not exist.
const (
	invalidParams = -32602
	internalError = -32603
	notFound      = -32002
)

// maxSessions is how many sessions a connection holds at once. Each is an agent of a node.
const maxSessions = 32

// Options say how the sessions of an editor are held.
type Options struct {
	// Open begins each conversation: the agent, the model.
	Open *symbiov1.RunRequest
	// Find returns the name of the node for agents that work in dir: one that runs, or one that it starts. node is the one that
	// has to be it; "" = any. It is called concurrently.
	Find func(ctx context.Context, dir, node string) (name string, err error)
	// dial connects to a node; nil = Env.Nodes.DialNode.
	dial func(node string) (symbiov1.ControlClient, *grpc.ClientConn, error)
}

// server is the agent that the editor talks to. The SDK calls its methods concurrently.
type server struct {
	env     *command.Env
	options Options
	conn    *acp.AgentSideConnection
	// ctx ends with the connection. work has the goroutines of all conversations.
	ctx  context.Context
	work sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	sessions map[acp.SessionId]*editorSession
	places   int // sessions, and those that are about to begin
}

// Serve serves an editor on the streams of env until its output ends or ctx does. It returns when all conversations have ended. A
// read of standard input that is under way ends with the process.
func Serve(ctx context.Context, env *command.Env, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.dial == nil {
		o.dial = env.Nodes().DialNode
	}
	s := &server{env: env, options: o, ctx: ctx, sessions: map[acp.SessionId]*editorSession{}}
	out := &output{to: env.Out}
	messages, input := io.Pipe() // the SDK reads nothing before s.conn is set
	s.conn = acp.NewAgentSideConnection(s, out, messages)
	s.conn.SetLogger(slog.New(slog.DiscardHandler))
	var reader errgroup.Group
	reader.Go(func() error { return input.CloseWithError(copyLines(input, env.In, out)) })
	select {
	case <-s.conn.Done():
	case <-ctx.Done():
	}
	s.mu.Lock() // a conversation that begins has begun, or sees the end of ctx
	cancel()
	s.mu.Unlock()
	s.work.Wait()
	return input.Close()
}

// run runs do in a goroutine that Serve waits for. It reports false, and runs nothing, when the connection has ended.
func (s *server) run(do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.work.Go(do)
	return true
}

// Initialize implements acp.Agent.
func (s *server) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return acp.InitializeResponse{
		ProtocolVersion: acp.ProtocolVersionNumber,
		AgentInfo:       &acp.Implementation{Name: "symbio", Title: acp.Ptr("Symbio"), Version: command.Version().Version},
		AuthMethods:     []acp.AuthMethod{},
		AgentCapabilities: acp.AgentCapabilities{
			LoadSession:        true,
			PromptCapabilities: acp.PromptCapabilities{Image: true, EmbeddedContext: true},
			SessionCapabilities: acp.SessionCapabilities{
				List: &acp.SessionListCapabilities{}, Resume: &acp.SessionResumeCapabilities{}, Close: &acp.SessionCloseCapabilities{},
			},
		},
	}, nil
}

// Authenticate implements acp.Agent. The control socket of the node is open for its user alone, so there is no login.
func (s *server) Authenticate(context.Context, acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return acp.AuthenticateResponse{}, acp.NewMethodNotFound(acp.AgentMethodAuthenticate)
}

// SetSessionConfigOption implements acp.Agent. There are no options.
func (s *server) SetSessionConfigOption(context.Context, acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	return acp.SetSessionConfigOptionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetConfigOption)
}

// NewSession implements acp.Agent: it begins a conversation with an agent that works in the directory.
func (s *server) NewSession(ctx context.Context, r acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	var e *editorSession
	err := s.add(r.Cwd, func() (_ *editorSession, err error) {
		if e, err = s.newSession(ctx, r.Cwd, "", proto.CloneOf(s.options.Open)); err != nil {
			return nil, err
		}
		t, err := e.begin(proto.CloneOf(e.open))
		if err != nil {
			return nil, err
		}
		select {
		case <-t.ready:
			return e, nil
		case <-t.done:
			return nil, t.err
		case <-ctx.Done():
			t.end()
			return nil, ctx.Err()
		}
	})
	if err != nil {
		return acp.NewSessionResponse{}, err
	}
	s.noteServers(r.McpServers)
	return acp.NewSessionResponse{SessionId: e.id, Modes: e.modes()}, nil
}

// newSession returns a session for which a node is found. It has no conversation yet.
func (s *server) newSession(ctx context.Context, dir, node string, open *symbiov1.RunRequest) (*editorSession, error) {
	name, err := s.options.Find(ctx, dir, node)
	if err != nil {
		return nil, failure("%s", command.ErrorText(ctx, err))
	}
	if open.Interactive = true; len(open.GetOn()) > 0 {
		open.Bring = dir
	}
	return newEditorSession(s, dir, name, open), nil
}

// noteServers says that the MCP servers of an editor are not used: they are commands that no person has agreed to.
func (s *server) noteServers(servers []acp.McpServer) {
	if len(servers) > 0 {
		s.env.Notef("note: the MCP servers of the editor are not used; add them with: symbio mcp add")
	}
}

// add adds the session that begin returns, which works in dir. The error says so if dir is no directory or there are too many
// sessions.
func (s *server) add(dir string, begin func() (*editorSession, error)) error {
	if at, err := os.Stat(dir); !filepath.IsAbs(dir) || err != nil || !at.IsDir() {
		return &acp.RequestError{Code: invalidParams, Message: fmt.Sprintf("cwd: %q is not the absolute path of a directory of this machine", dir)}
	}
	s.mu.Lock()
	if s.places >= maxSessions {
		s.mu.Unlock()
		return failure("this connection has %d sessions already; close one", maxSessions)
	}
	s.places++
	s.mu.Unlock()
	e, err := begin()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.sessions[e.id] != nil { // two requests may load a session at the same time
		s.places--
		return err
	}
	s.sessions[e.id] = e
	return nil
}

// find returns a session of the connection, which the editor knows.
func (s *server) find(id acp.SessionId) (*editorSession, error) {
	s.mu.Lock()
	e := s.sessions[id]
	s.mu.Unlock()
	if e != nil {
		e.show()
		return e, nil
	}
	return nil, &acp.RequestError{Code: notFound, Message: fmt.Sprintf("this connection has no session %q; session/load goes on with an earlier one", id)}
}

// CloseSession implements acp.Agent: it ends the conversation. Its record stays.
func (s *server) CloseSession(_ context.Context, r acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	e, err := s.find(r.SessionId)
	if err != nil {
		return acp.CloseSessionResponse{}, err
	}
	e.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[r.SessionId] == e {
		delete(s.sessions, r.SessionId)
		s.places--
	}
	return acp.CloseSessionResponse{}, nil
}

// Prompt implements acp.Agent. It ends by Cancel, and not with its context: a prompt that is cancelled has a result, too.
func (s *server) Prompt(_ context.Context, r acp.PromptRequest) (acp.PromptResponse, error) {
	e, err := s.find(r.SessionId)
	if err != nil {
		return acp.PromptResponse{}, err
	}
	message, err := messageOf(e.dir, r.Prompt)
	if err == nil && e.remote && len(message.GetPictures()) > 0 {
		err = invalid("an agent of another node takes no images")
	}
	if err != nil {
		return acp.PromptResponse{}, err
	}
	reason, err := e.prompt(message)
	return acp.PromptResponse{StopReason: reason}, err
}

// Cancel implements acp.Agent.
func (s *server) Cancel(_ context.Context, r acp.CancelNotification) error {
	e, err := s.find(r.SessionId)
	if err == nil {
		e.cancel()
	}
	return err
}

// SetSessionMode implements acp.Agent.
func (s *server) SetSessionMode(ctx context.Context, r acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	e, err := s.find(r.SessionId)
	if err == nil {
		err = e.setMode(ctx, r.ModeId)
	}
	return acp.SetSessionModeResponse{}, err
}
