package event

import (
	"encoding/json"
	"slices"
	"time"

	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/security/permission"
	"symbio/skills"
)

// The types of events. Text and Why are said of those that have them; parts has the other fields.
// The changes of members have the types of community.ChangeKind, the events of active skills have the types of
// skills.EventKind.
const (
	TypeTask        = "task"        // a task of an agent began: Text
	TypeText        = "text"        // a piece of the model's text: Text
	TypeThought     = "thought"     // a piece of the model's thoughts: Text
	TypeToolCall    = "tool_call"   // the model asks for a tool
	TypeDecision    = "decision"    // the guard decided about a call: Why
	TypeProgress    = "progress"    // how far a tool is: Text
	TypeToolResult  = "tool_result" // a tool returned: Text
	TypeTurn        = "turn"        // the model answered
	TypeRetry       = "retry"       // the model failed before its answer began, and is asked again: Why
	TypeSpawned     = "spawned"     // an agent spawned a sub-agent: Text = the reason, and if the place was chosen, Why
	TypeQueued      = "queued"      // a task for a new sub-agent waits for a place: Text = its name
	TypeRepeated    = "repeated"    // an agent is lost with its node, and its task is started anew: Why
	TypeSkill       = "skill"       // an agent activated a skill: Text = its name
	TypeCatalog     = "catalog"     // a model is shown skills: Text = the first 20
	TypePlan        = "plan"        // the model shows the steps of its work
	TypeNotice      = "notice"      // a message for people: Text
	TypeSteered     = "steered"     // a steering text was delivered or returned: Text, Why
	TypeCompacted   = "compacted"   // room was made in the model's context: Text, Why
	TypeInterrupted = "interrupted" // a person ended the task in flight; a failed follows
	TypeDone        = "done"        // the task is done: Text
	TypeFailed      = "failed"      // the task failed or was interrupted: Why
	TypeApproval    = "approval"    // a call waits for a person: Why
	TypeAnswered    = "answered"    // it does not wait any more: Why
	TypeSession     = "session"     // a session begins, goes on or was interrupted: Text = its title, Why

	// These are about a node.
	TypeGap         = "gap"         // events are missing
	TypeStopped     = "stopped"     // the last event of a node that stops in order
	TypeWarning     = "warning"     // the person who runs the node should mend something: Why
	TypeNode        = "node"        // the connection to another node has changed: Why
	TypeRefused     = "refused"     // another node, or a call of it, was refused: Why
	TypeServed      = "served"      // a call of another node was answered
	TypeLeftOut     = "left out"    // another node offers more than the limits accept: Why
	TypePromoted    = "promoted"    // another node got the cluster's authority: Why
	TypeUndelivered = "undelivered" // one-way signals were lost: Why
	TypeMCP         = "mcp"         // the state of an MCP server has changed: Why
	TypeSandbox     = "sandbox"     // what the sandbox of this machine can enforce
	TypeReloaded    = "reloaded"    // the configuration was read again

	// Only the caller of a conversation gets these.
	TypeResult     = "result"     // the end of each turn: Text = the answer
	TypeReceipt    = "receipt"    // what became of a steering text: Text, Why
	TypeTranscript = "transcript" // what the agent remembers
	TypeSettings   = "settings"   // what is in force, and Why it did not change
	TypePatch      = "patch"      // what an agent of another node changed in its copy of the caller's files, and Why it cannot be applied
)

// parts has the part of each type of events that has one. It is never written to.
var parts = [...]struct {
	part  any
	types []string
}{
	{Turn{}, []string{TypeText, TypeThought, TypeTurn, TypeInterrupted}},
	{Tool{}, []string{TypeToolCall, TypeProgress, TypeToolResult}},
	{Decision{}, []string{TypeDecision}},
	{Retry{}, []string{TypeRetry}},
	{Spawn{}, []string{TypeSpawned}},
	{Catalog{}, []string{TypeCatalog}},
	{Plan{}, []string{TypePlan}},
	{Steering{}, []string{TypeSteered, TypeReceipt}},
	{Compaction{}, []string{TypeCompacted}},
	{End{}, []string{TypeDone, TypeFailed, TypeRepeated, TypeResult}},
	{Approval{}, []string{TypeApproval}},
	{Answer{}, []string{TypeAnswered}},
	{Session{}, []string{TypeSession}},
	{Settings{}, []string{TypeSettings}},
	{Transcript{}, []string{TypeTranscript}},
	{Patch{}, []string{TypePatch}},
	{Member{}, []string{"joined", "left", "updated", "became available", "became unavailable"}},
	{skills.Event{}, []string{"catalog_changed", "skill_activated", "skill_reloaded", "skill_granted", "skill_refused", "skill_deactivated"}},
	{Gap{}, []string{TypeGap}},
	{Warning{}, []string{TypeWarning}},
	{Node{}, []string{TypeNode, TypeLeftOut, TypePromoted}},
	{Call{}, []string{TypeRefused, TypeServed}},
	{Delivery{}, []string{TypeUndelivered}},
	{Server{}, []string{TypeMCP}},
	{Sandbox{}, []string{TypeSandbox}},
	{Reload{}, []string{TypeReloaded}},
}

// Types returns all types of events, in the order of the alphabet.
func Types() []string {
	all := []string{TypeTask, TypeQueued, TypeSkill, TypeNotice, TypeStopped}
	for _, p := range parts {
		all = append(all, p.types...)
	}
	slices.Sort(all)
	return all
}

// Turn is an answer of a model, or a piece of it.
type Turn struct {
	Turn    int        `json:"turn,omitempty" jsonschema:"the number of the model's answer within the task"`
	Usage   *llm.Usage `json:"usage,omitempty" jsonschema:"what the model read and wrote, with the cost if it is known"`
	Context int        `json:"context,omitempty" jsonschema:"how many tokens the last request to the model and its answer had"`
	Window  int        `json:"window,omitempty" jsonschema:"how many tokens fit"`
}

// Tool is a call of a tool: the request, how far it is, or its result.
type Tool struct {
	Tool   string          `json:"tool,omitempty" jsonschema:"the name of the tool"`
	Call   string          `json:"call,omitempty" jsonschema:"the model's id of the call"`
	Args   json.RawMessage `json:"args,omitempty" jsonschema:"the arguments of the call"`
	Failed bool            `json:"failed,omitempty" jsonschema:"whether the tool reported a failure"`
	File   string          `json:"file,omitempty" jsonschema:"the path of a file that was changed"`
	Diff   string          `json:"diff,omitempty" jsonschema:"the change of a file as a unified diff"`
	Done   float64         `json:"done,omitempty" jsonschema:"how much is done, in any unit"`
	Total  float64         `json:"total,omitempty" jsonschema:"how much there is to do in that unit; 0 if it is not known"`
}

// Decision is a decision about a call of a tool by an agent, or, with Kind, about a call of another node.
type Decision struct {
	Kind       string          `json:"kind,omitempty" jsonschema:"inbound, if the call is of another node"`
	From       string          `json:"from,omitempty" jsonschema:"the node that a call came from, by its id or name"`
	Tool       string          `json:"tool,omitempty" jsonschema:"the name of the tool; invoke or send for a call of another node"`
	Call       string          `json:"call,omitempty" jsonschema:"the model's id of the call"`
	Args       json.RawMessage `json:"args,omitempty" jsonschema:"the arguments of the call"`
	Capability string          `json:"capability,omitempty" jsonschema:"the name of the capability"`
	Perception string          `json:"perception,omitempty" jsonschema:"the name of the signal"`
	For        []string        `json:"for,omitempty" jsonschema:"on whose behalf the call is made"`
	Verdict    string          `json:"verdict,omitempty" jsonschema:"allow, ask or deny"`
	Approved   bool            `json:"approved" jsonschema:"whether the call may run: the guard or a person allowed it"`
	Stage      string          `json:"stage,omitempty" jsonschema:"the stage of the rules that decided"`
	Rule       string          `json:"rule,omitempty" jsonschema:"the rule that decided"`
	Source     string          `json:"source,omitempty" jsonschema:"where that rule stands"`
	By         string          `json:"by,omitempty" jsonschema:"the person or rule that answered a request for approval"`
	Reason     string          `json:"reason,omitempty" jsonschema:"why a person said no, or why a call of another node was refused"`
	Unasked    bool            `json:"unasked,omitempty" jsonschema:"whether a person should have decided, and there was none to ask"`
	Missing    []string        `json:"missing,omitempty" jsonschema:"the rules whose addition to allow would let a denied call run"`
	Count      uint64          `json:"count,omitempty" jsonschema:"the number of calls that were counted together"`
	Since      *time.Time      `json:"since,omitempty" jsonschema:"when the first of them came"`
}

// Retry is a request to a model that is repeated.
type Retry struct {
	Turn    int     `json:"turn,omitempty" jsonschema:"the number of the model's answer within the task"`
	Model   string  `json:"model,omitempty" jsonschema:"the model that failed"`
	Next    string  `json:"next,omitempty" jsonschema:"the model that is asked next, after wait"`
	Attempt int     `json:"attempt,omitempty" jsonschema:"the number of failures in this turn, from 1"`
	Wait    float64 `json:"wait,omitempty" jsonschema:"the time until the model is asked again, in seconds"`
}

// Spawn is a new sub-agent.
type Spawn struct {
	Member string `json:"member,omitempty" jsonschema:"the id of the spawned agent"`
	On     string `json:"on,omitempty" jsonschema:"the name of the other node on which it lives"`
}

// Catalog is the list of skills that a model is shown.
type Catalog struct {
	Shown []string `json:"shown,omitempty" jsonschema:"the names of the skills"`
	Total int      `json:"total,omitempty" jsonschema:"how many there are, with those for which there is no room"`
}

// Plan is the plan that a model makes for itself.
type Plan struct {
	Steps []Step `json:"steps" jsonschema:"All steps in their order, also those that are done. They replace the plan before."`
}

// Step is a step of a plan.
type Step struct {
	Text  string `json:"text" jsonschema:"What is done in this step, in a short sentence."`
	State string `json:"state" jsonschema:"pending, running or done."`
}

// Steering is what became of a text that was said to an agent in its work.
type Steering struct {
	ID      string    `json:"id,omitempty" jsonschema:"the caller's id of the text"`
	Outcome string    `json:"outcome,omitempty" jsonschema:"what happened to the text: delivered, returned or kept"`
	Turn    int       `json:"turn,omitempty" jsonschema:"the number of the first answer of the model that follows the text"`
	At      time.Time `json:"at,omitzero" jsonschema:"when that was settled"`
}

// Compaction is how room was made in a model's context.
type Compaction struct {
	Turn   int        `json:"turn,omitempty" jsonschema:"the number of the model's answer within the task"`
	Done   float64    `json:"done,omitempty" jsonschema:"the tokens after it"`
	Total  float64    `json:"total,omitempty" jsonschema:"the tokens before it"`
	Cut    int        `json:"cut,omitempty" jsonschema:"how many results of tools were cut"`
	Summed int        `json:"summed,omitempty" jsonschema:"how many messages a summary stands for"`
	Usage  *llm.Usage `json:"usage,omitempty" jsonschema:"what the summary cost"`
}

// End is the end of a task. A result has all fields, the others have Spent only.
type End struct {
	Status string        `json:"status,omitempty" jsonschema:"done, failed or interrupted"`
	Error  string        `json:"error,omitempty" jsonschema:"why a call or a task failed"`
	Spent  *budget.Spent `json:"spent,omitempty" jsonschema:"what the agent and its sub-agents have used"`
	Over   bool          `json:"over,omitempty" jsonschema:"whether the agent has ended: further messages are not answered"`
	// Tasks lets a caller that connects again know which of its messages the agent never got: it
	// compares it to the value of the event "session".
	Tasks int `json:"tasks,omitempty" jsonschema:"how many messages of the session began to be answered"`
}

// Approval is a call that waits for a person.
type Approval struct {
	ID     string          `json:"id,omitempty" jsonschema:"the id of the request"`
	Digest string          `json:"digest,omitempty" jsonschema:"the digest of the request, which an answer must repeat"`
	For    []string        `json:"for,omitempty" jsonschema:"on whose behalf the call is made"`
	Tool   string          `json:"tool,omitempty" jsonschema:"the name of the tool"`
	Args   json.RawMessage `json:"args,omitempty" jsonschema:"the arguments of the call"`
	Rule   string          `json:"rule,omitempty" jsonschema:"the rule that asks"`
	permission.Keepable
	Diff     string    `json:"diff,omitempty" jsonschema:"what an edit would change, as a unified diff"`
	Asked    time.Time `json:"asked,omitzero" jsonschema:"when it began to wait"`
	Deadline time.Time `json:"deadline,omitzero" jsonschema:"when it is denied without an answer"`
}

// Answer is the answer to an Approval, also a denial by time-out.
type Answer struct {
	ID     string `json:"id,omitempty" jsonschema:"the id of the request"`
	Allow  bool   `json:"allow" jsonschema:"whether the call may run"`
	By     string `json:"by,omitempty" jsonschema:"the person or rule that answered"`
	Reason string `json:"reason,omitempty" jsonschema:"why the person said no, in the person's words"`
}

// Session is the state of a session.
type Session struct {
	ID      string `json:"id,omitempty" jsonschema:"the id of the session"`
	State   string `json:"state,omitempty" jsonschema:"the state of the session"`
	Mend    string `json:"mend,omitempty" jsonschema:"what to do about it"`
	Resumed bool   `json:"resumed,omitempty" jsonschema:"whether an interrupted task goes on"`
	Taken   bool   `json:"taken,omitempty" jsonschema:"whether it is kept on the disk, since it has a task"`
	Tasks   int    `json:"tasks,omitempty" jsonschema:"how many of its messages began to be answered"`
}

// Settings are a conversation's settings.
type Settings struct {
	Model   string `json:"model,omitempty" jsonschema:"the name of the model"`
	Effort  string `json:"effort,omitempty" jsonschema:"how much the model thinks"`
	Mode    string `json:"mode,omitempty" jsonschema:"ask, edits or plan"`
	Window  int    `json:"window,omitempty" jsonschema:"how many tokens the model can be given"`
	Sandbox string `json:"sandbox,omitempty" jsonschema:"the level of what holds commands"`
}

// Transcript is what an agent remembers.
type Transcript struct {
	Responding      bool          `json:"responding" jsonschema:"whether it has a task"`
	Turn            int           `json:"turn,omitempty" jsonschema:"the number of the model's answer within that"`
	PendingSteering int           `json:"pending_steering" jsonschema:"how many steering texts no request to the model has yet"`
	Transcript      []llm.Message `json:"transcript,omitempty" jsonschema:"the latest messages"`
	Omitted         int           `json:"omitted,omitempty" jsonschema:"the number of messages before these"`
}

// Patch is what an agent of another node has changed in its copy of a directory, compared with that directory.
type Patch struct {
	Dir     string        `json:"dir,omitempty" jsonschema:"the directory"`
	Files   []PatchedFile `json:"files,omitempty" jsonschema:"the files that differ"`
	Diff    string        `json:"diff,omitempty" jsonschema:"the change of the files without a conflict as a unified diff"`
	Left    string        `json:"left,omitempty" jsonschema:"the changes that do not come back, such as those of secrets"`
	Applied bool          `json:"applied,omitempty" jsonschema:"whether the changes were made in the directory"`
}

// PatchedFile is a file of a Patch.
type PatchedFile struct {
	Path     string `json:"path" jsonschema:"the path below the directory"`
	Change   string `json:"change" jsonschema:"add, change, merge or delete"`
	Conflict string `json:"conflict,omitempty" jsonschema:"why it cannot be changed"`
}

// Member is a member that joined, changed or left.
type Member struct {
	On       string   `json:"on,omitempty" jsonschema:"the name of the member's node"`
	Local    bool     `json:"local" jsonschema:"whether that is the node that published the event"`
	Accepts  []string `json:"accepts,omitempty" jsonschema:"the names of the signals that it accepts"`
	Provides []string `json:"provides,omitempty" jsonschema:"the names of the capabilities that it provides"`
}

// Gap stands for events that are missing.
type Gap struct {
	Missed int    `json:"missed,omitempty" jsonschema:"the number of events that are missing"`
	Of     string `json:"of,omitempty" jsonschema:"what they are about, if the stream itself has all"`
}

// Warning is something that the person who runs the node should mend.
type Warning struct {
	Capability string `json:"capability,omitempty" jsonschema:"the name of the capability"`
	Mend       string `json:"mend,omitempty" jsonschema:"what to do about it"`
}

// Node is something that happened to another node or to the connection to it.
type Node struct {
	ID    string `json:"id,omitempty" jsonschema:"the id of the node"`
	State string `json:"state,omitempty" jsonschema:"the state of the connection"`
	Addr  string `json:"addr,omitempty" jsonschema:"the address of the node"`
}

// Call is a call of another node that was answered or refused. If the node itself was refused it has
// ID and Addr only.
type Call struct {
	ID         string   `json:"id,omitempty" jsonschema:"the id of the node"`
	Addr       string   `json:"addr,omitempty" jsonschema:"the address of the node"`
	Capability string   `json:"capability,omitempty" jsonschema:"the name of the capability"`
	From       string   `json:"from,omitempty" jsonschema:"the node that the call came from, by its id or name"`
	Requester  []string `json:"requester,omitempty" jsonschema:"on whose behalf the call is made, as the node claims"`
	Reason     string   `json:"reason,omitempty" jsonschema:"the kind of the refusal"`
	Trace      string   `json:"trace,omitempty" jsonschema:"the id of the trace"`
	Omitted    uint64   `json:"omitted,omitempty" jsonschema:"the number of refusals that were not published since the last one"`
	Error      string   `json:"error,omitempty" jsonschema:"why the call failed"`
}

// Delivery is the loss of one-way signals.
type Delivery struct {
	To         string `json:"to,omitempty" jsonschema:"the id of the node"`
	Perception string `json:"perception,omitempty" jsonschema:"the name of the signal"`
	Count      uint64 `json:"count,omitempty" jsonschema:"the number of signals"`
}

// Server is the state of an MCP server.
type Server struct {
	Server string `json:"server,omitempty" jsonschema:"the name of the server"`
	State  string `json:"state,omitempty" jsonschema:"the state of the server"`
	Tools  int    `json:"tools,omitempty" jsonschema:"the number of its tools"`
}

// Sandbox is what the sandbox of a machine can enforce.
type Sandbox struct {
	Level   string   `json:"level,omitempty" jsonschema:"what it can enforce"`
	Missing []string `json:"missing,omitempty" jsonschema:"what the machine lacks"`
	Mend    string   `json:"mend,omitempty" jsonschema:"what to do about it"`
}

// Reload is what has changed in the configuration.
type Reload struct {
	Changed []string `json:"changed" jsonschema:"the keys of the configuration that were taken up"`
	Restart []string `json:"restart,omitempty" jsonschema:"the keys that count when the node starts again"`
}
