package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/security/visible"
)

const (
	maxSessionRows = 100     // sessions of a list
	maxEntries     = 500     // entries of a conversation, the latest ones
	maxEntryText   = 8 << 10 // bytes of one text in it
)

// sessionsPage returns the page that lists and searches the conversations.
func sessionsPage() page {
	return page{path: "/sessions", name: "sessions", title: "Sessions", nav: true, data: sessionsData}
}

// sessionPage returns the page of one conversation.
func sessionPage() page {
	return page{path: "/sessions/{id}", name: "session", title: "Session", data: sessionData, actions: map[string]action{
		"session-resume": {do: resumeSession},
		"session-fork":   {do: forkSession},
		"session-delete": {do: deleteSession, confirm: "Delete the session %s, with those of its sub-agents? What was said in it is gone then, also if its task is unfinished."},
	}}
}

// store returns the store of the conversations, or an error if none are kept.
func (v *view) store() (session.Store, error) {
	if v.cfg.Sessions == nil {
		return nil, status.Error(codes.FailedPrecondition, "this node keeps no conversations: its configuration has session.store: off")
	}
	return v.cfg.Sessions.Store(), nil
}

// sessionList is the data of the page of conversations. Rows have a text if they were searched.
type sessionList struct {
	Words string
	All   bool // those of sub-agents, too
	Rows  []session.Line
	Limit int
}

// sessionsData lists the latest conversations, or those in which the words q occur.
func sessionsData(ctx context.Context, v *view) (any, error) {
	store, err := v.store()
	if err != nil {
		return nil, err
	}
	form := v.Request.URL.Query()
	l := sessionList{Words: form.Get("q"), All: form.Get("all") != "", Limit: maxSessionRows}
	q := session.Query{Op: session.OpList, Words: l.Words, All: l.All, Limit: maxSessionRows}
	if l.Words != "" {
		q.Op = session.OpSearch
	}
	l.Rows, err = q.Run(ctx, store)
	return l, err
}

// conversation is the data of the page of one session.
type conversation struct {
	session.Info
	Entries   []sessionEntry
	Omitted   int // entries at the beginning
	Resumable bool
}

// sessionEntry is an entry as the page shows it. Kind is its style: person, agent, result or note.
type sessionEntry struct {
	session.Line
	Kind, Who, Text string
	Calls           []llm.ToolCall
}

// sessionData returns the session of the path, of which the id may be cut.
func sessionData(ctx context.Context, v *view) (any, error) {
	store, err := v.store()
	if err != nil {
		return nil, err
	}
	lines, err := session.Query{Op: session.OpShow, ID: v.Request.PathValue("id")}.Run(ctx, store)
	if err != nil {
		return nil, notFound(err)
	}
	c := conversation{Info: *lines[0].Session}
	c.Resumable = c.Open && c.State == session.Interrupted && !v.cfg.Sessions.IsInUse(c.ID)
	for _, l := range lines[1:] {
		if e := c.entry(l); e.Text != "" || len(e.Calls) > 0 {
			c.Entries = append(c.Entries, e)
		}
	}
	c.Omitted = max(0, len(c.Entries)-maxEntries)
	c.Entries = c.Entries[c.Omitted:]
	return c, nil
}

// notFound gives the error of a session that does not exist the code NotFound.
func notFound(err error) error {
	if errors.Is(err, session.ErrNotFound) {
		return status.Error(codes.NotFound, err.Error())
	}
	return err
}

// entry returns a line of the session for the page. Calls are shown with the answer that makes them.
func (c conversation) entry(l session.Line) sessionEntry {
	e := sessionEntry{Line: l, Kind: "note", Text: l.Note()}
	switch l.Kind {
	case session.Task:
		e.Kind, e.Who, e.Text = "person", "task", l.Message.Text
	case session.Text:
		e.Kind, e.Who, e.Text = "person", "added", l.Entry.Text
	case session.Answer:
		e.Kind, e.Who, e.Text, e.Calls = "agent", cmp.Or(c.Name, c.Agent), l.Message.Text, l.Message.Calls
	case session.Result:
		e.Kind, e.Who, e.Text = "result", "result of "+l.Result.Name, l.Result.Text
	}
	e.Text = visible.Truncate(e.Text, maxEntryText)
	return e
}

// find returns the session that a form names.
func (v *view) find(ctx context.Context, form url.Values) (session.Store, session.Info, error) {
	store, err := v.store()
	if err != nil {
		return nil, session.Info{}, err
	}
	all, err := store.Sessions(ctx, session.Filter{ID: form.Get("id")})
	if err != nil {
		return nil, session.Info{}, err
	}
	i, err := session.Find(all, form.Get("id"))
	return store, i, notFound(err)
}

// resumeSession goes on with an interrupted task, in the background.
func resumeSession(ctx context.Context, v *view, form url.Values) (string, error) {
	i, err := v.cfg.Resume(ctx, form.Get("id"))
	return fmt.Sprintf("The task of session %s goes on.", i.ID), err
}

// forkSession begins a session with the exchanges of another one up to the one with the number turn.
func forkSession(ctx context.Context, v *view, form url.Values) (string, error) {
	store, i, err := v.find(ctx, form)
	if err != nil {
		return "", err
	}
	i, err = session.Fork(ctx, store, i, 0)
	return fmt.Sprintf("The new session is %s. Go on with it: symbio chat --resume %s", i.ID, i.ID), err
}

// deleteSession deletes a session, also one with an unfinished task: the person was asked.
func deleteSession(ctx context.Context, v *view, form url.Values) (string, error) {
	store, i, err := v.find(ctx, form)
	if err != nil {
		return "", err
	}
	if v.cfg.Sessions.IsInUse(i.ID) {
		return "", fmt.Errorf("delete session %s: %w; terminate its agent first", i.ID, session.ErrInUse)
	}
	return fmt.Sprintf("The session %s is deleted.", i.ID), session.DeleteTree(ctx, store, i, true)
}
