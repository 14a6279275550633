package event

import (
	"encoding/json"
	"fmt"
	"time"

	"symbio/agent/budget"
	"symbio/agent/llm"
)

// Fields are the fields that the Data of events have, of all types. Only those of the event's type
// are set; the part of a node that publishes a type declares which. All readers decode Data to
// Fields.
//
// encoding/json finds the keys without regard to case, so only a field whose key has an underscore
// needs a tag.
type Fields struct {
	// ID is the id of a node, or of a request for approval.
	ID string
	// Name is the name of the member or node that the event is about. Names are claims: show them,
	// and decide nothing by them.
	Name string
	// Parent is the id of the agent that spawned the agent; "" if it has no parent.
	Parent string
	// Member is the id of a spawned agent.
	Member string
	// Text is a text for people or of a model, such as a task or a part of an answer.
	Text string
	// Why is the reason, in a sentence for people.
	Why string
	// Error is why a call or a task failed; "" if it did not.
	Error string
	// Status is done, failed or interrupted, in the result of a task.
	Status string
	// State is the state of a node's connection or of an MCP server.
	State string
	// On is the name of a member's node.
	On string
	// From is the node that a call came from, by its id or name.
	From string
	// Kind is the kind of a decision about a call of another node.
	Kind string

	// The fields of calls and of decisions about them. Call is the model's id of a call of Tool.
	Tool       string
	Call       string
	Args       json.RawMessage
	Capability string
	// Verdict is allow, ask or deny. Source is where the rule stands that decided.
	Verdict string
	Source  string
	// Outcome is what happened to a steering text (conversation.Outcome).
	Outcome string
	// By is the person or rule that answered a request for approval.
	By string
	// Reason is why a person said no, in the person's words.
	Reason string
	// Digest is the digest of a request for approval. An answer must repeat it.
	Digest string
	// For are those on whose behalf a call is made.
	For []string
	// Rules are the rules that an activated skill grants, or that a lasting answer would allow.
	Rules []string
	// Approved is whether the call may run. Allow is the answer of a person.
	Approved bool
	Allow    bool
	// Unasked is whether a person should have decided about a call and there was none to ask. Missing
	// are the rules whose addition to allow would let a denied call run.
	Unasked bool
	Missing []string
	// Failed is whether a tool reported a failure.
	Failed bool

	Skill string
	// Path is that of a skill, and Withheld are the rules that it asks for and does not get. Shown are
	// the names of the skills in the catalog of an agent.
	Path     string
	Withheld []struct{ Rule string }
	Shown    []string
	Server   string
	// Next is the model that is asked next, after Wait.
	Next     string
	Provides []string
	// Local is whether a member is on the node that published the event.
	Local bool
	// Resumed is whether an interrupted task of the session goes on.
	Resumed bool
	// Taken is whether the session is kept on the disk already, since it has a task.
	Taken bool
	// Over is true in the result of a task if the agent has ended.
	Over bool

	// Turn is the number of a turn within a task.
	Turn int
	// Tasks is how many messages of a session began to be answered.
	Tasks int
	// Tools is the number of tools of an MCP server.
	Tools int
	// Missed is the number of events that a gap stands for.
	Missed int
	// Omitted is the number of refusals of a node that were not published since the last one, or of
	// messages before those in Transcript.
	Omitted uint64
	// PendingSteering is the number of steering texts that no request to the model has yet.
	PendingSteering int `json:"pending_steering"`
	// Wait is the time until Next is asked, in seconds.
	Wait float64
	// Attempt counts the failures of a model in a turn, from 1.
	Attempt int
	// Done and Total are a progress, in any unit; Total 0 means that it is not known.
	Done, Total float64
	// Model, Effort and Mode are the settings of a conversation, and Sandbox the level of what holds commands.
	// Model is also the model of a retry.
	Model, Effort, Mode, Sandbox string
	// Context is how many tokens the last request to the model and its answer had, and Window how
	// many fit.
	Context, Window int
	// File is the path of a file that was changed, Diff the change as a unified diff.
	File, Diff string
	// Steps are the steps of a plan.
	Steps []Step
	// Spent is what an agent and its sub-agents have used; nil means that it is not known.
	Spent      *budget.Spent
	Transcript []llm.Message
}

// Step is a step of a plan that an agent makes for itself.
type Step struct {
	Text string `json:"text"`
	// State is pending, running or done.
	State string `json:"state"`
}

// Fields decodes the Data of an event. Unknown fields are ignored, so that an older reader can follow
// a newer node. An event without Data has the zero Fields. The error is about Data of another shape.
func (e Event) Fields() (Fields, error) {
	if len(e.Data) == 0 {
		return Fields{}, nil
	}
	var f Fields
	if err := json.Unmarshal(e.Data, &f); err != nil {
		return Fields{}, fmt.Errorf("the event %q: %w", e.Type, err)
	}
	return f, nil
}

// UnmarshalJSON decodes an event as MarshalJSON encodes it: the five common fields by name, and all
// others into Data.
func (e *Event) UnmarshalJSON(line []byte) error {
	var head struct {
		Time              time.Time
		Seq               uint64
		Type, Node, Agent string
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return err
	}
	// What is left belongs to Data. The names are those that MarshalJSON writes.
	for _, name := range []string{"time", "seq", "type", "node", "agent"} {
		delete(fields, name)
	}
	data, err := json.Marshal(fields)
	*e = Event{Time: head.Time, Seq: head.Seq, Type: head.Type, Node: head.Node, Agent: head.Agent, Data: data}
	return err
}
