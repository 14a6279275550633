package acpcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	acp "github.com/coder/acp-go-sdk"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// editorSession is a session of the editor. Its methods are safe for concurrent use.
type editorSession struct {
	server *server
	// id is the id of the first conversation's session. It does not change once the conversation is ready.
	id acp.SessionId
	// dir is the directory in which the agent works, node the name of the node.
	dir, node string
	// remote is true for an agent of another node, which works on a copy of dir.
	remote bool
	// prompts has a token for each prompt that is answered or waits; the first place is in turn.
	prompts, turn chan struct{}

	mu sync.Mutex // guards the fields below
	// open is the request that begins the next conversation. Its session is "" until the node has kept a task of it.
	open *symbiov1.RunRequest
	talk *talk // nil = none was begun
	mode acp.SessionModeId
	// known is true when the editor knows the id of the session. The updates before that are in early.
	known bool
	early []acp.SessionUpdate
}

// maxPrompts is how many prompts of a session are answered or wait at once. More than one is a program that does not wait.
const maxPrompts = 8

func newEditorSession(s *server, dir, node string, open *symbiov1.RunRequest) *editorSession {
	return &editorSession{server: s, id: acp.SessionId(open.GetSession()), dir: dir, node: node, open: open, mode: modeID(open.GetMode()), remote: len(open.GetOn()) > 0,
		prompts: make(chan struct{}, maxPrompts), turn: make(chan struct{}, 1)}
}

// prompt has the agent answer a message, and returns when it has, with why it ended. Prompts of a session are answered one after
// the other. The error says so if the node is gone.
func (s *editorSession) prompt(message *symbiov1.NextMessage) (acp.StopReason, error) {
	select {
	case s.prompts <- struct{}{}:
		defer func() { <-s.prompts }()
	default:
		return "", failure("%d prompts of this session wait already", maxPrompts)
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-s.server.ctx.Done():
		return "", failure("the connection is closed")
	}
	t, err := s.send(message)
	if err != nil {
		return "", err
	}
	select {
	case e := <-t.results:
		return stopReason(e)
	case <-t.done:
	}
	select {
	case e := <-t.results: // both at once
		return stopReason(e)
	default:
		return "", t.err
	}
}

// stopReason returns how a turn ended.
func stopReason(e event.Event) (acp.StopReason, error) {
	switch end := event.PartOf[event.End](e); end.Status {
	case "done":
		return acp.StopReasonEndTurn, nil
	case "interrupted":
		return acp.StopReasonCancelled, nil
	case "failed":
		if end.Over {
			return "", failure("the agent is gone: %s\nYour next prompt begins with another one", end.Error)
		}
		fallthrough
	default:
		return "", failure("%s", end.Error)
	}
}

// send sends a message in the conversation of the session, or begins one with it.
func (s *editorSession) send(m *symbiov1.NextMessage) (*talk, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.talk != nil && s.talk.alive() {
		s.talk.tell(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Next{Next: m}})
		return s.talk, nil
	}
	open := proto.CloneOf(s.open)
	if open.Task, open.Pictures = m.GetText(), m.GetPictures(); !s.remote {
		open.Mode = string(s.mode)
	}
	return s.begin(open)
}

// begin begins a conversation. The caller holds mu, or is the only one that has the session.
func (s *editorSession) begin(open *symbiov1.RunRequest) (*talk, error) {
	t, err := startTalk(s, open)
	if err != nil {
		return nil, s.explain(s.server.ctx, err)
	}
	s.talk = t
	return t, nil
}

// cancel interrupts the prompt that is answered; without one it does nothing.
func (s *editorSession) cancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.talk != nil {
		s.talk.tell(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Interrupt{Interrupt: &symbiov1.Interrupt{}}})
	}
}

// update sends an update to the editor, as soon as that knows the session.
func (s *editorSession) update(u acp.SessionUpdate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.early = append(s.early, u); s.known {
		s.sendEarly()
	}
}

// show sends the updates that wait: the editor knows the session now.
func (s *editorSession) show() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = true
	s.sendEarly()
}

// sendEarly sends the updates in early. An error ends the connection, which the server notices. The caller holds mu.
func (s *editorSession) sendEarly() {
	for _, u := range s.early {
		_ = s.server.conn.SessionUpdate(s.server.ctx, acp.SessionNotification{SessionId: s.id, Update: u})
	}
	s.early = nil
}

// modeID returns the id of a mode; a conversation without one asks.
func modeID(mode string) acp.SessionModeId { return acp.SessionModeId(cmp.Or(mode, "ask")) }

// modes returns the modes that there are, and the current one; nil for an agent of another node, whose definition has the mode.
func (s *editorSession) modes() *acp.SessionModeState {
	if s.remote {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &acp.SessionModeState{CurrentModeId: s.mode, AvailableModes: []acp.SessionMode{
		{Id: "ask", Name: "Ask", Description: acp.Ptr("Asks about calls that no rule decides")},
		{Id: "edits", Name: "Edits", Description: acp.Ptr("Does not ask about edits of files in the directory")},
		{Id: "plan", Name: "Plan", Description: acp.Ptr("Only tools that read run")},
	}}
}

// setMode changes the mode, from the next request to the model on. Without a conversation it counts from the next one on.
func (s *editorSession) setMode(ctx context.Context, mode acp.SessionModeId) error {
	if s.remote || !slices.ContainsFunc(s.modes().AvailableModes, func(m acp.SessionMode) bool { return m.Id == mode }) {
		return &acp.RequestError{Code: invalidParams, Message: fmt.Sprintf("there is no mode %q; write ask, edits or plan", mode)}
	}
	s.mu.Lock()
	t := s.talk
	if t == nil || !t.alive() {
		s.mode = mode
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	select { // one change at a time; the conversation begins with the first settings
	case t.changing <- struct{}{}:
		defer func() { <-t.changing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	t.tell(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Settings{Settings: &symbiov1.ChangeSettings{Mode: string(mode)}}})
	select {
	case e := <-t.settings:
		if e.Why != "" {
			return failure("%s", e.Why)
		}
		return nil
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close ends the conversation, and waits for its end.
func (s *editorSession) close() {
	s.mu.Lock()
	t := s.talk
	s.mu.Unlock()
	if t != nil {
		t.end()
		<-t.done
	}
}

// kept notes that the node has a task of the session on its disk, under an id.
func (s *editorSession) kept(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open.Session = id
}

// modeIs notes the mode that is in force.
func (s *editorSession) modeIs(mode acp.SessionModeId) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
}

// explain returns the error of a conversation that has ended with err, or did not begin, as the person reads it. ctx has ended if the
// conversation was closed here.
func (s *editorSession) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return failure("the node ended the conversation without an answer")
	case ctx.Err() != nil:
		return failure("the session is closed")
	case status.Code(err) == codes.Canceled, command.IsUnavailable(err) && s.server.env.Nodes().StatusOf(s.server.ctx, s.node) == nil:
		return failure("node %s is gone. Start it again, for example with symbio up in %s: your next message goes on with what it has kept",
			visible.Escape(s.node), visible.Escape(s.dir))
	}
	return failure("%s", command.ErrorText(s.server.ctx, err))
}

// failure returns an error that an editor shows as it is.
func failure(format string, args ...any) error {
	return &acp.RequestError{Code: internalError, Message: fmt.Sprintf(format, args...)}
}
