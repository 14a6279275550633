package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"symbio/agent/budget"
	"symbio/agent/llm"
)

// ErrNotFound is wrapped by the errors about sessions that do not exist.
var ErrNotFound = errors.New("no such session")

// ErrInUse is wrapped by the errors about sessions that an agent works in.
var ErrInUse = errors.New("an agent works in it now")

// ErrTaken is wrapped by the errors about sessions with which another agent goes on.
var ErrTaken = errors.New("another agent goes on with it")

// ErrDamaged is wrapped by the error of a store whose file is damaged. Nothing more is written to
// such a file.
var ErrDamaged = errors.New("the file of the sessions is damaged")

// Kind is the kind of an Entry. The values are part of the file format.
type Kind string

// The kinds of entries, and the fields that they have.
const (
	Task       Kind = "task"       // an exchange begins: Message
	Text       Kind = "text"       // a user's text was added to the exchange: Text
	Request    Kind = "request"    // the model is about to be asked: Usage is the estimated size of the request, User
	Answer     Kind = "answer"     // the model answered: Message, Usage
	Report     Kind = "report"     // the request has no Answer, as it failed or was for a summary: Usage is what the model reported
	Call       Kind = "call"       // a call is about to run: Call
	Result     Kind = "result"     // a call has a result: Result
	Approval   Kind = "approval"   // a person is asked about a call: Call, Text says why
	Decision   Kind = "decision"   // the person answered: Call, Text is the answer
	Steering   Kind = "steering"   // a steering text was delivered or returned: Text, Status
	Steerer    Kind = "steerer"    // the node or agent of the next steering text: Text is its community.Signal, of those it acts for
	Child      Kind = "child"      // a sub-agent was spawned: Child
	Skill      Kind = "skill"      // a skill was activated or given back: Text is its name, Skill
	Lent       Kind = "lent"       // a sub-agent on another node reported that it spent more: Spent
	Read       Kind = "read"       // the agent knows a file: Edit.After is the content that it knows
	Artifact   Kind = "artifact"   // the agents of the session may read an artifact: Artifact
	Compaction Kind = "compaction" // Messages are the history from now on: Began, and Usage in older files
	Edit       Kind = "edit"       // a file is about to be changed: Edit
	Resume     Kind = "resume"     // the exchange goes on after a restart
	End        Kind = "end"        // the exchange ended: Status, Count messages stay, Text is the error
)

// Entry is one record of a session. Only the fields that its kind names are set.
type Entry struct {
	// ID is the position in the store; entries of one session are in ascending order. The store
	// sets it.
	ID   int64     `json:"-"`
	Time time.Time `json:"-"`
	Kind Kind      `json:"-"`

	Message  *llm.Message    `json:"message,omitempty"`
	Messages []llm.Message   `json:"messages,omitempty"`
	Usage    *llm.Usage      `json:"usage,omitempty"`
	Call     *llm.ToolCall   `json:"call,omitempty"`
	Result   *llm.ToolResult `json:"result,omitempty"`
	Child    *ChildAgent     `json:"child,omitempty"`
	Edit     *FileEdit       `json:"edit,omitempty"`
	Skill    *SkillUse       `json:"skill,omitempty"`
	Spent    *budget.Spent   `json:"spent,omitempty"`
	Artifact *ArtifactRef    `json:"artifact,omitempty"`
	Text     string          `json:"text,omitempty"`
	Status   State           `json:"status,omitempty"`
	// Count is how many messages of the history stay after an End; of a Task, how many bytes at the end of its text a person
	// wrote.
	Count int `json:"count,omitempty"`
	// User is Info.User at the time of a Request, for the bill. Copied says that the entry is of another session too, so
	// that its model call is not counted again.
	User   string `json:"user,omitempty"`
	Copied bool   `json:"copied,omitempty"`
	// Began is the index of the exchange's first message after a Compaction; -1 = no exchange runs.
	Began int `json:"began,omitempty"`
}

// Check returns an error if the fields of the entry's kind are missing or contradict each other. Readers
// of entries rely on it; a Store checks the data that comes from a disk.
func (e Entry) Check() error {
	missing := false
	switch e.Kind {
	case Task, Answer:
		missing = e.Message == nil
	case Call, Approval, Decision:
		missing = e.Call == nil
	case Result:
		missing = e.Result == nil
	case Request, Report:
		missing = e.Usage == nil
	case Child:
		missing = e.Child == nil
	case Edit, Read:
		missing = e.Edit == nil
	case Lent:
		missing = e.Spent == nil
	case Artifact:
		missing = e.Artifact == nil
	case Compaction:
		missing = e.Began >= 0 && e.Began >= len(e.Messages)
	}
	if missing {
		return fmt.Errorf("an entry of the kind %q has not the fields of its kind", e.Kind)
	}
	return nil
}

// IsReport reports whether Usage is what the model reported for the request before the entry. An answer without any
// figures is none: the request then counts with its estimated size.
func (e Entry) IsReport() bool {
	switch e.Kind {
	case Report:
		return e.Usage != nil
	case Answer, Compaction:
		return e.Usage != nil && *e.Usage != (llm.Usage{Model: e.Usage.Model})
	}
	return false
}

// ChildAgent is a sub-agent as its parent's session records it.
type ChildAgent struct {
	Session string        `json:"session,omitempty"` // "" = it runs on another node
	Member  string        `json:"member"`
	Name    string        `json:"name"`
	Node    string        `json:"node,omitempty"` // its id; "" = the node of its parent
	On      string        `json:"on,omitempty"`   // the name that the node had
	Share   budget.Limits `json:"share,omitzero"`
}

// SkillUse is what an activated skill was when the agent activated it. Its zero value says that the agent
// gave it back.
type SkillUse struct {
	Path string `json:"path,omitempty"` // of its SKILL.md
	Hash string `json:"hash,omitempty"` // SHA-256 of its SKILL.md, in hex
	By   string `json:"by,omitempty"`   // who activated it; a skills.Initiator
	// Arguments are the arguments of the activation.
	Arguments string `json:"arguments,omitempty"`
	// Granted are the rules that it granted. With Accepted a person granted them for this activation
	// only, else they depend on the trust in the skill.
	Granted  []string `json:"granted,omitempty"`
	Accepted bool     `json:"accepted,omitempty"`
	// Depends are the skills that were activated with it: path, hash and granted rules of each.
	Depends []string `json:"depends,omitempty"`
}

// ArtifactRef names an artifact.
type ArtifactRef struct {
	Hash string `json:"hash"` // SHA-256, in hex
	Name string `json:"name,omitempty"`
	Node string `json:"node,omitempty"` // the node from which it is fetched; "" = it is here
}

// FileEdit is a change of a file by a tool. Before and After are the SHA-256 of the content in hex;
// "" means that the file does not exist.
type FileEdit struct {
	Path   string `json:"path"`
	Call   string `json:"call"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Mode   uint32 `json:"mode,omitempty"` // permission bits before the change
	// Content is the content before the change; nil = it is not kept, or there is no file. It is stored
	// apart from the entry: see Store.Content. Size is its length in bytes; a Log sets it.
	Content []byte `json:"-"`
	Size    int64  `json:"size,omitempty"`
}

// UndoPrefix begins the Call of a change that an undo made; the rest is different in each undo.
const UndoPrefix = "undo:"

// IsUndo reports whether an undo made the change.
func (e FileEdit) IsUndo() bool { return strings.HasPrefix(e.Call, UndoPrefix) }

// State is the state of a session's latest exchange.
type State string

// The states.
const (
	Idle        State = "idle"        // there was no exchange yet
	Working     State = "working"     // an exchange runs, or the node ended during it
	Done        State = "done"        // it was answered
	Failed      State = "failed"      // it ended with an error
	Interrupted State = "interrupted" // a person or the end of the node interrupted it
	Lost        State = "lost"        // it cannot go on: its requester was another node, or was lost with the node
)

// Info describes a session. A Store keeps it beside the entries.
type Info struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Dir is the working directory, Node the name of the node.
	Dir  string `json:"dir"`
	Node string `json:"node"`
	// Agent is the name of the definition, Name and Member identify the member.
	Agent  string `json:"agent"`
	Name   string `json:"name"`
	Member string `json:"member"`
	// Model is the model that was asked for; "" = the definition's.
	Model string `json:"model,omitempty"`
	// Mode is the agent's mode: ask, edits or plan; "" = ask.
	Mode string `json:"mode,omitempty"`
	// Parent is the session of the agent that spawned this one; "" = it has no parent. Root is the
	// session at the top of the tree, its own if it has no parent.
	Parent string `json:"parent,omitempty"`
	Root   string `json:"root"`
	// Requester is the node or agent outside the tree that gave the latest task; "" = a person or the
	// parent. Only a task without a requester can go on after a restart, because the permissions of a
	// requester end with its call.
	Requester string `json:"requester,omitempty"`
	// User is the node for which the latest task, or the parent's, is done; "" = a person at this node.
	User string `json:"user,omitempty"`
	// Keep is set for agents that live again with their member id when the node starts.
	Keep bool `json:"keep,omitempty"`
	// Item is set for a task that a program gave to an agent of its own, such as an item of symbio map. It is that program
	// that goes on with it.
	Item  bool  `json:"item,omitempty"`
	State State `json:"state"`
	// Exchange is what is known of the latest exchange.
	Exchange Exchange  `json:"exchange,omitzero"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
	// Tasks counts the exchanges that began.
	Tasks int `json:"tasks"`
	// Turns counts the answers of the model, Spent what they cost, over all exchanges.
	Turns int          `json:"turns"`
	Spent budget.Spent `json:"spent"`
	// Limits is the budget of each task, as it was asked for.
	Limits budget.Limits `json:"limits,omitzero"`
}

// Exchange describes the latest exchange of a session.
type Exchange struct {
	// Open is true from the Task to the End of the exchange, see Info.CanGoOn.
	Open bool `json:"open,omitempty"`
	// Asked is the estimated size of the request that the model has not answered, in tokens. Info.Spent has
	// it, because the provider may charge it although the node ends before the answer is recorded.
	Asked int64 `json:"asked,omitempty"`
	// Pending is true while an approval waits for a person. PendingApproval finds it in the entries.
	Pending bool `json:"pending,omitempty"`
	// Restarts is how often the exchange was resumed since the model answered.
	Restarts int `json:"restarts,omitempty"`
}

// MaxContents is how many bytes of files a session keeps. The content before later changes is not
// kept, so that they cannot be undone.
const MaxContents = 256 << 20

// Write is what a commit adds to one session.
type Write struct {
	// Info is the state after the entries. The store keeps a title that it has already. With an ID
	// alone the session stays as it is, for entries that another process than its node adds.
	Info    Info
	Entries []Entry
	// InfoData is the JSON of Info, Data the JSON of each entry. Agents make it before they wait for the commit, so that they do it
	// side by side. With nil the Store makes it.
	InfoData []byte
	Data     [][]byte
}

// Encode sets InfoData and Data where they are missing, and the User of requests.
func (w *Write) Encode() (err error) {
	if w.InfoData == nil {
		if w.InfoData, err = json.Marshal(&w.Info); err != nil {
			return fmt.Errorf("the state of session %s: %w", w.Info.ID, err)
		}
	}
	return w.encodeEntries()
}

// encodeEntries sets Data where it is missing, and the User of requests.
func (w *Write) encodeEntries() error {
	for n := len(w.Data); n < len(w.Entries); n++ {
		e := &w.Entries[n]
		if e.Kind == Request && !e.Copied {
			e.User = w.Info.User
		}
		data, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("an entry of the kind %s: %w", e.Kind, err)
		}
		w.Data = append(w.Data, data)
	}
	return nil
}

// Filter selects sessions. The zero value selects all.
type Filter struct {
	ID     string // the beginning of the id
	Dir    string // "" = any
	Parent string // the children of that session
	Root   string // that session and all its descendants
	States []State
	Roots  bool // only sessions without a parent, and only items (Info.Item) or none
	Items  bool // which of both
	Keep   bool // only sessions of agents that live again
	Limit  int  // 0 = no limit
}

// Store keeps sessions. All methods are safe for concurrent use, and may block for as long as a disk
// takes.
type Store interface {
	// Commit adds the writes in one transaction. It returns when they are durable; with an error
	// nothing was added. It keeps none of them: a Journal uses their memory again.
	Commit(writes []Write) error
	// Sessions returns the selected sessions, the latest first.
	Sessions(ctx context.Context, f Filter) ([]Info, error)
	// Entries returns the entries of a session with an ID above after, in order. The error wraps
	// ErrNotFound if there is no such session.
	Entries(ctx context.Context, id string, after int64) ([]Entry, error)
	// Search returns the entries that have all words, the latest first; limit 0 = all of them. A Line has
	// the session, the ID and the Kind of the entry, and as Text what is around the first word.
	Search(ctx context.Context, words string, limit int) ([]Line, error)
	// Bill adds up the model calls, also of sessions that were deleted. A request without a report of the model
	// counts with its estimated size. The error says so if a column does not exist.
	Bill(ctx context.Context, q BillQuery) ([]BillRow, error)
	// Content returns the content of a file before an edit of this session, by its hash.
	Content(ctx context.Context, id, hash string) ([]byte, error)
	// Rename sets the title of a session. Delete removes sessions. Both fail with an error that wraps
	// ErrNotFound, and change nothing, if one does not exist.
	Rename(ctx context.Context, id, title string) error
	Delete(ctx context.Context, ids ...string) error
	// Prune deletes whole trees of finished sessions, the oldest first: all that were not used since
	// before, and others while the store has more than maxBytes (0 = no limit). It never deletes a
	// session that can go on or is kept, nor the tree of one that except names. The size is the size of
	// what is stored; a file may take longer to shrink.
	Prune(ctx context.Context, before time.Time, maxBytes int64, except ...string) (deleted int, err error)
	// Recover marks the sessions that were Working as Interrupted, or Lost if they have a
	// Requester or are items, and returns them. It is called while no session has a Log.
	Recover(ctx context.Context) ([]Info, error)
	Close() error
}
