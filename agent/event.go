package agent

import (
	"encoding/json"

	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/agent/tool/plan"
	"symbio/community"
)

// EventType is the kind of an Event. The values are part of the event log's format, which scripts read.
type EventType string

// What an agent reports. Members joining and leaving are the community's changes, not repeated here.
const (
	EventTask     EventType = "task"        // a task began: Text
	EventText     EventType = "text"        // a piece of the model's text: Text, Turn
	EventThought  EventType = "thought"     // a piece of the model's thoughts: Text, Turn
	EventCall     EventType = "tool_call"   // the model asks for a tool: Tool, Call, Args
	EventDecision EventType = "decision"    // the guard decided: Tool, Call, Args, Verdict, Approved, Stage, Rule, Source, Why, By, Reason, Unasked, Missing
	EventProgress EventType = "progress"    // how far a tool is: Tool, Call, Text, Done, Total
	EventResult   EventType = "tool_result" // a tool returned: Tool, Call, Text, Failed, and File, Diff if it changed a file
	EventTurn     EventType = "turn"        // the model answered: Turn, Usage, with the cost if it is known, Context, Window
	EventRetry    EventType = "retry"       // the model failed before its answer began, and is asked again: Turn, Model, Next, Attempt, Wait, Why
	EventSpawned  EventType = "spawned"     // it spawned a sub-agent: Member, Text = the reason, and if the place was chosen, Why; On = the name of another node
	EventQueued   EventType = "queued"      // a task for a new sub-agent waits for a place: Text = the name of the sub-agent
	EventRepeated EventType = "repeated"    // it is lost with its node, and its task is started anew: Why, Spent
	EventSkill    EventType = "skill"       // it activated a skill: Text = its name
	EventCatalog  EventType = "catalog"     // its model is shown skills: Shown = names, Text = the first 20, Total = how many there are
	EventPlan     EventType = "plan"        // the model shows the steps of its work: Steps
	EventNotice   EventType = "notice"      // a message for people: Text
	EventSteered  EventType = "steered"     // a steering text was delivered or returned: Text, Outcome, Turn, Why
	EventCompact  EventType = "compacted"   // room was made in the model's context: Text, Done tokens of Total, Usage
	EventStopped  EventType = "interrupted" // a person ended the task in flight, a failed follows: Turn
	EventDone     EventType = "done"        // the task is done: Text, Spent
	EventFailed   EventType = "failed"      // the task failed or was interrupted: Why, Spent
)

// Event is one thing that an agent did. Only the fields that the comment of its type names are set.
type Event struct {
	Type  EventType          `json:"-"`
	Agent community.MemberID `json:"-"`
	Name  string             `json:"name,omitempty"`
	// Parent is the agent that spawned this one; "" = it has no parent.
	Parent  community.MemberID `json:"parent,omitempty"`
	Turn    int                `json:"turn,omitempty"`
	Text    string             `json:"text,omitempty"`
	Shown   []string           `json:"shown,omitempty"`
	Outcome string             `json:"outcome,omitempty"` // a conversation.Outcome
	Tool    string             `json:"tool,omitempty"`
	Call    string             `json:"call,omitempty"`
	Args    json.RawMessage    `json:"args,omitempty"`
	Failed  bool               `json:"failed,omitempty"`
	Verdict string             `json:"verdict,omitempty"`
	// Approved reports whether the call may run: the guard or a person allowed it. nil in other
	// events than decisions.
	Approved *bool  `json:"approved,omitempty"`
	Stage    string `json:"stage,omitempty"`
	Rule     string `json:"rule,omitempty"`
	Source   string `json:"source,omitempty"`
	Why      string `json:"why,omitempty"`
	By       string `json:"by,omitempty"`     // the person or rule that answered an approval request
	Reason   string `json:"reason,omitempty"` // why the person said no
	// Unasked reports that a person should have decided and there was none to ask. Missing are the
	// rules whose addition to allow would let a denied call run.
	Unasked bool               `json:"unasked,omitempty"`
	Missing []string           `json:"missing,omitempty"`
	Member  community.MemberID `json:"member,omitempty"`
	On      string             `json:"on,omitempty"`
	Usage   *llm.Usage         `json:"usage,omitempty"`
	// Context is how many tokens the last request and its answer had, by the model's count as far as it
	// gave one; Window is how many fit.
	Context int `json:"context,omitempty"`
	Window  int `json:"window,omitempty"`
	// File is the file that a tool changed, Diff the change as a unified diff; see tool.FileDiff.
	File string `json:"file,omitempty"`
	Diff string `json:"diff,omitempty"`
	// Steps are those of a plan.
	Steps []plan.Step `json:"steps,omitempty"`
	// Spent is the use of the agent and its sub-agents: since the task began for an agent without a
	// parent, since the spawn for others.
	Spent *budget.Spent `json:"spent,omitempty"`
	// Model is the model that failed, Attempt the number of its failures in this turn. After Wait
	// seconds Next is asked: the same model, or the next one of a list.
	Model   string  `json:"model,omitempty"`
	Next    string  `json:"next,omitempty"`
	Attempt int     `json:"attempt,omitempty"`
	Wait    float64 `json:"wait,omitempty"`
	// Done and Total are a progress, in any unit; Total 0 = not known.
	Done  float64 `json:"done,omitempty"`
	Total float64 `json:"total,omitempty"`
}
