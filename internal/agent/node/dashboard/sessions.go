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
	"symbio/internal/security/visible"
)

const (
	maxSessionRows = 100     // sessions of a list
	maxEntries     = 500     // entries of a conversation, the latest ones
	maxEntryText   = 8 << 10 // bytes of one text in it
)

// sessionsPage returns the page that lists and searches the conversations.
func sessionsPage() page {
	return page{Path: "/sessions", Name: "sessions", Title: "Sessions", Nav: true, Data: sessionsData}
}

// sessionPage returns the page of one conversation.
func sessionPage() page {
	return page{Path: "/sessions/{id}", Name: "session", Title: "Session", Data: sessionData, Actions: map[string]action{
		"resume": {do: resumeSession, done: "The task goes on."},
		"fork":   {do: forkSession, next: "/sessions"},
		"delete": {do: deleteSession, next: "/sessions", confirm: "Delete this session, with those of its sub-agents? What was said in it is gone then, also if its task is unfinished."},
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
	All   bool // sessions of sub-agents, too
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

// Heading returns the title of the page.
func (c conversation) Heading() string { return cmp.Or(c.Title, "Session "+c.ID) }

// sessionEntry is an entry as the page shows it. Kind is its style: user, assistant, tool or note.
type sessionEntry struct {
	session.Line
	Kind, Who, Text string
	Calls           []llm.ToolCall
}

// sessionData returns the session of the path; its id may be cut.
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
	c.Resumable = c.Exchange.Open && c.State == session.Interrupted && !v.cfg.Sessions.IsInUse(c.ID)
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
		e.Kind, e.Who, e.Text = "user", "task", l.Message.Text
	case session.Text:
		e.Kind, e.Who, e.Text = "user", "added", l.Entry.Text
	case session.Answer:
		e.Kind, e.Who, e.Text, e.Calls = "assistant", cmp.Or(c.Name, c.Agent), l.Message.Text, l.Message.Calls
	case session.Result:
		e.Kind, e.Text = "tool", l.Result.Text
	}
	e.Text = visible.Truncate(e.Text, maxEntryText)
	return e
}

// find returns the session of the path.
func (v *view) find(ctx context.Context) (session.Store, session.Info, error) {
	store, err := v.store()
	if err != nil {
		return nil, session.Info{}, err
	}
	id := v.Request.PathValue("id")
	all, err := store.Sessions(ctx, session.Filter{ID: id})
	if err != nil {
		return nil, session.Info{}, err
	}
	i, err := session.Find(all, id)
	return store, i, notFound(err)
}

// resumeSession goes on with an interrupted task, in the background.
func resumeSession(ctx context.Context, v *view, _ url.Values) error {
	_, err := v.cfg.Resume(ctx, v.Request.PathValue("id"))
	return err
}

// forkSession begins a session with the exchanges of another one that have ended.
func forkSession(ctx context.Context, v *view, _ url.Values) error {
	store, i, err := v.find(ctx)
	if err == nil {
		_, err = session.Fork(ctx, store, i, 0)
	}
	return err
}

// deleteSession deletes a session, also one with an unfinished task: the person was asked.
func deleteSession(ctx context.Context, v *view, _ url.Values) error {
	store, i, err := v.find(ctx)
	if err == nil && v.cfg.Sessions.IsInUse(i.ID) {
		err = fmt.Errorf("delete session %s: %w; end its agent first", i.ID, session.ErrInUse)
	}
	if err != nil {
		return err
	}
	return session.DeleteTree(ctx, store, i, true)
}
