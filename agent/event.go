package agent

import (
	"encoding/json"

	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/community"
)

// EventType is the kind of an Event.
type EventType string

// What an agent reports. Members joining and leaving are the community's changes, not repeated here.
const (
	EventTask     EventType = "task"        // it took a task: Text
	EventText     EventType = "text"        // a piece of the model's text: Text
	EventCall     EventType = "tool_call"   // the model asks for a tool: Tool, Call, Args
	EventDecision EventType = "decision"    // the guard decided: Tool, Call, Args, Verdict, Approved, Stage, Rule, Source, Why, By
	EventProgress EventType = "progress"    // how far a tool is: Tool, Call, Text, Done, Total
	EventResult   EventType = "tool_result" // what came of it: Tool, Call, Text, Failed
	EventTurn     EventType = "turn"        // the model answered: Turn, Usage, with the cost if it is known
	EventRetry    EventType = "retry"       // the model failed before its answer began, and is asked again: Turn, Model, Next, Attempt, Wait, Why
	EventSpawned  EventType = "spawned"     // it made a copy: Member, Text = why
	EventSkill    EventType = "skill"       // it took a skill: Text = its name
	EventCatalog  EventType = "catalog"     // its model is shown skills: Text = names, the first 20, Total = how many there are
	EventNotice   EventType = "notice"      // something that a person may want to know: Text
	EventSteered  EventType = "steered"     // what became of something said meanwhile: Text, Outcome, Turn, Why
	EventCompact  EventType = "compacted"   // room was made in the model's context: Text, Done tokens of Total, Usage
	EventStopped  EventType = "interrupted" // a person ended the task in flight, a failed follows: Turn
	EventDone     EventType = "done"        // the task is done: Text, Spent
	EventFailed   EventType = "failed"      // the task failed or was interrupted: Why, Spent
)

// Event is something an agent did. Only the fields that its type names are set.
type Event struct {
	Type  EventType          `json:"-"`
	Agent community.MemberID `json:"-"`
	Name  string             `json:"name,omitempty"`
	// Parent is the agent that made this one; "" for a first one.
	Parent  community.MemberID `json:"parent,omitempty"`
	Turn    int                `json:"turn,omitempty"`
	Text    string             `json:"text,omitempty"`
	Outcome string             `json:"outcome,omitempty"` // of conversation.Outcome
	Tool    string             `json:"tool,omitempty"`
	Call    string             `json:"call,omitempty"`
	Args    json.RawMessage    `json:"args,omitempty"`
	Failed  bool               `json:"failed,omitempty"`
	Verdict string             `json:"verdict,omitempty"`
	// Approved says that the call may run: the guard allowed it, or a person did.
	Approved *bool              `json:"approved,omitempty"`
	Stage    string             `json:"stage,omitempty"`
	Rule     string             `json:"rule,omitempty"`
	Source   string             `json:"source,omitempty"`
	Why      string             `json:"why,omitempty"`
	By       string             `json:"by,omitempty"` // who allowed or denied it when asked
	Member   community.MemberID `json:"member,omitempty"`
	Usage    *llm.Usage         `json:"usage,omitempty"`
	// Spent is what it and its sub-agents have used: a first agent since its task began, others since they were made.
	Spent *budget.Spent `json:"spent,omitempty"`
	// Model failed, for the Attempt-th time in this turn; Next is asked after Wait, in seconds: the same, or another
	// of a list.
	Model   string  `json:"model,omitempty"`
	Next    string  `json:"next,omitempty"`
	Attempt int     `json:"attempt,omitempty"`
	Wait    float64 `json:"wait,omitempty"`
	// Done and Total are how much is done, of how much; no Total = not known.
	Done  float64 `json:"done,omitempty"`
	Total float64 `json:"total,omitempty"`
}
