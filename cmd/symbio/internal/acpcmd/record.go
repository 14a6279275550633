package acpcmd

import (
	"context"
	"fmt"
	"time"

	acp "github.com/coder/acp-go-sdk"
	"google.golang.org/protobuf/proto"

	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/session/sqlite"
)

// maxListed is how many sessions an answer of session/list has.
const maxListed = 200

// ListSessions implements acp.Agent: the latest sessions that a person began, the latest first.
func (s *server) ListSessions(ctx context.Context, r acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	dir := ""
	if r.Cwd != nil {
		dir = *r.Cwd
	}
	all, err := s.env.Sessions().Begun(ctx, dir)
	if err != nil {
		return acp.ListSessionsResponse{}, failure("%s", command.ErrorText(ctx, err))
	}
	return acp.ListSessionsResponse{Sessions: command.Map(all[:min(maxListed, len(all))], func(i session.Info) acp.SessionInfo {
		return acp.SessionInfo{SessionId: acp.SessionId(i.ID), Cwd: i.Dir, Title: &i.Title, UpdatedAt: acp.Ptr(i.Updated.UTC().Format(time.RFC3339))}
	})}, nil
}

// LoadSession implements acp.AgentLoader: it goes on with a session of the node's store, and sends its record as updates first.
func (s *server) LoadSession(ctx context.Context, r acp.LoadSessionRequest) (acp.LoadSessionResponse, error) {
	e, i, err := s.resume(ctx, r.SessionId, r.Cwd)
	if err == nil {
		err = s.replay(ctx, e, i)
	}
	if err != nil {
		return acp.LoadSessionResponse{}, err
	}
	s.noteServers(r.McpServers)
	return acp.LoadSessionResponse{Modes: e.modes()}, nil
}

// ResumeSession implements acp.Agent: it is LoadSession without the record.
func (s *server) ResumeSession(ctx context.Context, r acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	e, _, err := s.resume(ctx, r.SessionId, r.Cwd)
	if err != nil {
		return acp.ResumeSessionResponse{}, err
	}
	s.noteServers(r.McpServers)
	return acp.ResumeSessionResponse{Modes: e.modes()}, nil
}

// resume adds a session that goes on with one of the store, unless the connection has it already. The conversation begins with
// the next prompt: a task that was interrupted does not go on by itself.
func (s *server) resume(ctx context.Context, id acp.SessionId, dir string) (e *editorSession, i session.Info, err error) {
	if len(s.options.Open.GetOn()) > 0 {
		return nil, i, invalid("the sessions of agents of other nodes are on those nodes")
	}
	if i, err = s.env.Sessions().Find(ctx, string(id)); err != nil || i.ID != string(id) {
		return nil, i, &acp.RequestError{Code: notFound, Message: fmt.Sprintf("no node of this machine has kept a session %q", id)}
	}
	if !command.SameDir(i.Dir, dir) {
		return nil, i, invalid(fmt.Sprintf("session %s belongs to another directory, %q", i.ID, i.Dir))
	}
	if e, err = s.find(id); err == nil {
		return e, i, nil
	}
	err = s.add(dir, func() (*editorSession, error) {
		open := proto.CloneOf(s.options.Open)
		open.Session, open.Agent, open.Model, open.Mode = i.ID, "", "", i.Mode
		return s.newSession(ctx, dir, i.Node, open)
	})
	if err == nil {
		e, err = s.find(id)
	}
	return e, i, err
}

// replay sends the record of a session.
func (s *server) replay(ctx context.Context, e *editorSession, i session.Info) error {
	var entries []session.Entry
	err := s.env.Sessions().Of(i.Node, func(_ string, store *sqlite.Store) (err error) {
		entries, err = store.Entries(ctx, i.ID, 0)
		return err
	})
	if err != nil {
		return failure("%s", command.ErrorText(ctx, err))
	}
	v := view{dir: i.Dir, mode: modeID(i.Mode)}
	for _, shown := range chat.Past(i.Member, messagesOf(entries)) {
		for _, u := range v.past(shown) {
			e.update(u)
		}
	}
	return nil
}

// messagesOf returns what a person and an agent said, and what tools returned, also what the model has forgotten since.
func messagesOf(entries []session.Entry) (all []llm.Message) {
	for _, e := range entries {
		switch e.Kind {
		case session.Task:
			m := *e.Message
			if n := len(m.Text) - e.Count; e.Count > 0 && n > 0 {
				m.Text = m.Text[n:] // what the person wrote
			}
			all = append(all, m)
		case session.Text:
			all = append(all, llm.Message{Role: llm.User, Text: e.Text})
		case session.Answer:
			all = append(all, *e.Message)
		case session.Result:
			all = append(all, llm.Message{Role: llm.Tool, Results: []llm.ToolResult{*e.Result}})
		}
	}
	return all
}
