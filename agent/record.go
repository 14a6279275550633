package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/security/visible"
)

// record is the session of an agent: what is kept of it over restarts. The zero value keeps nothing.
type record struct {
	journal *session.Journal            // nil = none is kept
	log     atomic.Pointer[session.Log] // nil = nothing is kept; Clear replaces it
	// past are the entries of the agent's earlier lives, from which its conversation is built. They
	// are set before the agent starts.
	past []session.Entry
}

// ErrNoSessions is the error of an Order that names a session where none are kept.
var ErrNoSessions = errors.New("this node keeps no sessions: session.store is off")

// open opens the session that an order goes on with, if it names one.
func (r *record) open(ctx context.Context, o Order) (err error) {
	switch {
	case o.Session.ID == "":
		return nil
	case r.journal == nil:
		return ErrNoSessions
	}
	var log *session.Log
	if log, r.past, err = r.journal.Open(ctx, o.Session.ID); err == nil {
		log.SetSettings(o.Session.Model, string(o.Mode)) // they may differ from those that the session had
		r.log.Store(log)
	}
	return err
}

// create begins a session, which has no past.
func (r *record) create(info session.Info) {
	r.log.Store(r.journal.Create(info))
	r.past = nil
}

// newSession describes a session of the agent that begins now.
func (i *instance) newSession() session.Info {
	info := i.order.Session
	info.Dir, info.Agent = i.order.Workspace.Dir, i.order.Definition.Name
	i.settings.mu.Lock()
	info.Model, info.Mode = i.settings.spec, string(i.settings.mode)
	i.settings.mu.Unlock()
	if i.parent != nil {
		parent := i.parent.record.info()
		info.Parent, info.Root = parent.ID, parent.Root
	}
	return info
}

// info describes the session; the zero Info if nothing is kept.
func (r *record) info() session.Info { return r.log.Load().Info() }

// Add records entries that need not be durable before what follows. It makes a record the Journal of a
// conversation.
func (r *record) Add(entries ...session.Entry) error { return r.log.Load().Add(entries...) }

// add is Add where the next Commit reports the error.
func (r *record) add(entries ...session.Entry) { _ = r.Add(entries...) }

// Commit records entries that must be durable before what follows.
func (r *record) Commit(entries ...session.Entry) error { return r.log.Load().Commit(entries...) }

// callsStart records the calls that are about to run; see tool.SetConfig.OnStart.
func (r *record) callsStart(calls []llm.ToolCall) error {
	var entries []session.Entry
	for _, c := range calls {
		entries = append(entries, session.Entry{Kind: session.Call, Call: &llm.ToolCall{ID: c.ID, Name: c.Name}}) // the answer has the arguments
	}
	return r.Commit(entries...)
}

// callEnded records a result; see tool.SetConfig.OnEnd. While other calls run it may be long until
// the next commit, so the result gets one of its own.
func (r *record) callEnded(result llm.ToolResult, others bool) {
	e := session.Entry{Kind: session.Result, Result: &result}
	if !others {
		r.add(e)
		return
	}
	_ = r.Commit(e) // the commit before the next request reports the error
}

// answered records the answer to an approval request in the session.
func (r *record) answered(d tool.Decision, answer tool.Answer) {
	e := session.Entry{Kind: session.Decision, Call: &llm.ToolCall{ID: d.CallID, Name: d.Tool}, Text: answer.By, Status: session.Failed}
	if answer.Allow {
		e.Status = session.Done
	} else if answer.Reason != "" {
		e.Text += ": " + answer.Reason
	}
	r.add(e)
}

// onEdit records the change of a file; see tool.SetConfig.OnEdit.
func (r *record) onEdit(c llm.ToolCall, e tool.FileEdit) error {
	return r.Commit(session.Entry{Kind: session.Edit, Edit: &session.FileEdit{
		Path: e.Path, Call: c.ID, Before: e.Before, After: e.After, Mode: uint32(e.Mode.Perm()), Content: e.Content,
	}})
}

// noteFile records the content of a file that the agent has read or written; see tool.SetConfig.OnFile.
func (r *record) noteFile(path, hash string) {
	r.add(session.Entry{Kind: session.Read, Edit: &session.FileEdit{Path: path, After: hash}})
}

// knownFile returns what noteFile recorded last in an earlier life of the agent; see
// tool.SetConfig.KnownFile.
func (r *record) knownFile(path string) (hash string) {
	for _, e := range slices.Backward(r.past) {
		if e.Kind == session.Read && e.Edit.Path == path {
			return e.Edit.After
		}
	}
	return ""
}

// payingNode names the other node for which the agent does a task, by which it counts in the bill: the node of the
// nearest requester, else the one for which its parent works; "" = a person at this node.
func payingNode(i *instance, s community.Signal) string {
	names := i.permissions.remoteRequesters(s.Requester)
	if i.parent != nil && (len(names) == 0 || slices.Contains(s.Requester, i.parent.permissions.address)) {
		return i.parent.record.info().User
	}
	if len(names) > 0 {
		node, _, _ := strings.Cut(names[0], "/")
		return strings.TrimSuffix(node, claimed)
	}
	return ""
}

// resumeTask goes on with the task that the end of the node interrupted. more is for the model.
func (a *Agent) resumeTask(ctx context.Context, more llm.Message) (string, error) {
	lost, err := a.instance.record.loseChildren(ctx)
	if err != nil {
		return "", err
	}
	more.Text = strings.TrimSpace(more.Text + "\n\n" + lost)
	reply, err := a.conversation.Resume(ctx, more)
	a.turns = reply.Turns
	return reply.Text, err
}

// maxAnswerShown is how much of a sub-agent's answer the model reads after a restart, in bytes: enough
// for a result, and 16 of them fit into any context.
const maxAnswerShown = 2000

// loseChildren marks the sub-agents that ended with the node as lost, and returns the sentences for
// the model about them, and about those that had ended their tasks, whose answers it may not have read.
func (r *record) loseChildren(ctx context.Context) (string, error) {
	// After the last answered exchange: of those since then the model may not have been told.
	own := r.past
	for at, e := range slices.Backward(own) {
		if e.Kind == session.End && e.Status == session.Done {
			own = own[at+1:]
			break
		}
	}
	below, err := descendants(ctx, r.journal.Store(), r.info().ID)
	if err != nil {
		return "", err
	}
	var lost, done []string
	for _, e := range own {
		// Without a session it ended before its first task.
		if e.Kind == session.Child && !slices.ContainsFunc(below, func(c session.Info) bool { return c.ID == e.Child.Session }) {
			lost = append(lost, fmt.Sprintf("%s (%s)", e.Child.Name, e.Child.Member))
		}
	}
	for _, c := range below {
		switch {
		case c.Exchange.Open:
			err = loseSession(ctx, r.journal, c.ID)
			fallthrough
		case c.State == session.Lost && !c.Updated.Before(own[0].Time): // an earlier restart ended before the model was told
			lost = append(lost, fmt.Sprintf("%s (%s)", c.Name, c.Member))
		case !c.Updated.Before(own[0].Time):
			var entries []session.Entry
			entries, err = r.journal.Store().Entries(ctx, c.ID, 0)
			done = append(done, fmt.Sprintf("%s (%s), %s: %s", c.Name, c.Member, c.State, visible.Prefix(session.LastAnswer(entries), maxAnswerShown)))
		}
		if err != nil {
			return "", err
		}
	}
	return childrenNote(lost, done), nil
}

// childrenNote returns the sentences for the model about sub-agents that ended with the node.
func childrenNote(lost, done []string) string {
	var note []string
	if len(lost) > 0 {
		note = append(note, "[These sub-agents ended with it, and their tasks are lost; what they did until then is done: "+strings.Join(lost, ", ")+".]")
	}
	if len(done) > 0 {
		note = append(note, "[These sub-agents had ended their tasks before; their last words were:\n"+strings.Join(done, "\n")+"]")
	}
	return strings.Join(note, "\n\n")
}

// descendants returns the sessions of the sub-agents below a session.
func descendants(ctx context.Context, store session.Store, id string) ([]session.Info, error) {
	all, err := store.Sessions(ctx, session.Filter{Parent: id})
	for _, c := range all {
		more, e := descendants(ctx, store, c.ID)
		all, err = append(all, more...), errors.Join(err, e)
	}
	return all, err
}

// loseSession ends the exchange of a sub-agent's session as lost.
func loseSession(ctx context.Context, journal *session.Journal, id string) error {
	log, _, err := journal.Open(ctx, id)
	if err != nil {
		return err
	}
	defer log.Close()
	return log.Commit(session.Entry{Kind: session.End, Status: session.Lost, Text: "its parent went on without it"})
}

// spent returns what the agent and its sub-agents spent in the session from an entry on.
func (r *record) spent(ctx context.Context, from int64) (spent budget.Spent, err error) {
	store := r.journal.Store()
	tree, err := store.Sessions(ctx, session.Filter{Root: r.info().Root})
	for _, s := range tree {
		entries, e := store.Entries(ctx, s.ID, from-1)
		spent, err = spent.Add(session.Spent(entries)), errors.Join(err, e)
	}
	return spent, err
}
