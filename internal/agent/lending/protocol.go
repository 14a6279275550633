package lending

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/placement"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/strictjson"
	"symbio/internal/security/visible"
	"symbio/security/sandbox"
)

// Capability is the name of the capability by which a node lends its agents to agents of others.
const Capability = "agents.spawn"

// request is the input of the capability: it asks for an agent, for the end of a lent one, for a
// report of spending, or for the node's load.
type request struct {
	// Agent is the name of a definition that the node lends.
	Agent string `json:"agent,omitempty"`
	// Name is the name of the new member; "" = the definition's.
	Name string `json:"name,omitempty"`
	// Reason says why the agent is needed, for the people of the other node.
	Reason string `json:"reason,omitempty"`
	// Parent is the member of the calling node that borrows the agent; "" = none, as when a person
	// calls.
	Parent string `json:"parent,omitempty"`
	// Tools are the tools that it may use; absent = all of its definition there.
	Tools []string `json:"tools,omitzero"`
	// Share bounds its use together with its descendants; absent = the limits of the lending node.
	Share *wireLimits `json:"share,omitempty"`
	// Places says that each descendant takes a place of the parent's budget, which the lender asks for
	// (update.Place), within Share.
	Places bool `json:"places,omitempty"`
	// Sandbox is what commands of the parent are held to; absent = to nothing.
	Sandbox *sandbox.Portable `json:"sandbox,omitempty"`
	// Workspace is the manifest of the workspace that it gets, which the borrower has sent with
	// agents.workspace; absent = it works in the directory of its node.
	Workspace content.Hash `json:"workspace,omitzero"`
	// Skills are those that are active for the parent. The lender activates those that it has and
	// trusts itself; absent = none.
	Skills []Skill `json:"skills,omitempty"`
	// Events asks for the events of the agent (update.Events), for a person who follows its work.
	Events bool `json:"events,omitempty"`
	// End is the lent member to stop now; no other field is used then. The call that is its lease
	// returns.
	End community.MemberID `json:"end,omitempty"`
	// Answer answers a question of a lent member; no other field is used then.
	Answer *answer `json:"answer,omitempty"`
	// Constrain is the lent member that is held from now on to the constraints that come with the request
	// (Signal.OnBehalf), in place of those before, and to tools that only read if Plan is set; no other
	// field is used then.
	Constrain community.MemberID `json:"constrain,omitempty"`
	Plan      bool               `json:"plan,omitempty"`
	// Account is the lent member whose spending is asked for; no other field is used then.
	Account community.MemberID `json:"account,omitempty"`
	// Load asks how busy the node is; no other field is used then.
	Load bool `json:"load,omitempty"`
}

// wireLimits are budget.Limits on the wire. There zero allows nothing and an absent field means the
// lender's limit, while in budget.Limits zero means the default.
type wireLimits struct {
	Depth           *int     `json:"depth,omitempty"`
	Agents          *int     `json:"agents,omitempty"`
	SpawnsPerMinute *int     `json:"spawns_per_minute,omitempty"`
	ModelCalls      *int     `json:"model_calls,omitempty"`
	Tokens          *int64   `json:"tokens,omitempty"`
	Cost            *float64 `json:"cost,omitempty"`
	// Wall is in seconds.
	Wall *float64 `json:"wall,omitempty"`
}

// limits converts a share to budget.Limits, where zero is the default and a negative number allows
// nothing.
func (w *wireLimits) limits() (l budget.Limits) {
	if w == nil {
		return l
	}
	l.Depth, l.Agents, l.SpawnsPerMinute, l.ModelCalls = decodeLimit(w.Depth), decodeLimit(w.Agents), decodeLimit(w.SpawnsPerMinute), decodeLimit(w.ModelCalls)
	l.Tokens, l.Cost = decodeLimit(w.Tokens), decodeLimit(w.Cost)
	if w.Wall != nil {
		if l.Wall = budget.Seconds(*w.Wall); l.Wall == 0 {
			l.Wall = -1
		}
	}
	return l
}

// decodeLimit returns 0 for an absent number, and -1, which allows nothing, for one that is not
// positive.
func decodeLimit[N int | int64 | float64](n *N) N {
	switch {
	case n == nil:
		return 0
	case *n > 0:
		return *n
	}
	return -1
}

// encodeLimits returns limits as they are sent between nodes.
func encodeLimits(l budget.Limits) *wireLimits {
	w := &wireLimits{
		Depth: encodeLimit(l.Depth), Agents: encodeLimit(l.Agents), SpawnsPerMinute: encodeLimit(l.SpawnsPerMinute),
		ModelCalls: encodeLimit(l.ModelCalls), Tokens: encodeLimit(l.Tokens), Cost: encodeLimit(l.Cost),
	}
	if l.Wall != 0 {
		w.Wall = new(max(0, l.Wall.Seconds()))
	}
	return w
}

// encodeLimit returns nil for 0, which is the default, and 0 for a negative number, which allows
// nothing.
func encodeLimit[N int | int64 | float64](n N) *N {
	if n == 0 {
		return nil
	}
	return new(max(0, n))
}

// inputSchema returns the JSON schema of a request. It refuses unknown fields, so that a newer node
// learns at once that this one does not know the request.
func inputSchema(agents []string) (json.RawMessage, error) {
	type object = map[string]any
	whole, number, boolean := object{"type": "integer", "minimum": 0}, object{"type": "number", "minimum": 0}, object{"type": "boolean"}
	text := func(longest int) object { return object{"type": "string", "maxLength": longest} }
	return json.Marshal(object{
		"type": "object", "additionalProperties": false,
		"properties": object{
			"agent": object{"type": "string", "enum": agents}, "name": text(64), "reason": text(maxReason), "parent": text(32),
			"tools": object{"type": "array", "maxItems": maxTools, "items": text(128)},
			"share": object{"type": "object", "additionalProperties": false, "properties": object{
				"depth": whole, "agents": whole, "spawns_per_minute": whole, "model_calls": whole, "tokens": whole, "cost": number, "wall": number,
			}},
			"places": boolean, "sandbox": object{"type": "object"},
			"skills": object{"type": "array", "maxItems": maxSkills, "items": object{
				"type": "object", "additionalProperties": false, "required": []string{"name", "hash"}, "properties": object{"name": text(maxSkillName), "hash": text(64)},
			}},
			"answer": object{"type": "object", "additionalProperties": false, "properties": object{
				"member": text(32), "question": text(64), "allow": boolean, "by": text(256), "reason": text(2 * maxReason), "why": text(2 * maxReason),
			}},
			"workspace": text(64), "end": text(32), "account": text(32), "constrain": text(32), "plan": boolean, "load": boolean, "events": boolean,
		},
	})
}

// definitionsOf returns the definitions that a node lends, from the schema of its capability. The
// schema comes from another node, so names that are none are dropped.
func definitionsOf(input json.RawMessage) []string {
	var s struct {
		Properties struct{ Agent struct{ Enum []string } }
	}
	if json.Unmarshal(input, &s) != nil {
		return nil
	}
	return slices.DeleteFunc(s.Properties.Agent.Enum, func(name string) bool { return !definition.IsName(name) })
}

const (
	// maxReason is the longest reason, in bytes: a few sentences.
	maxReason = 1000
	// maxTools is far more than the tools of an agent.
	maxTools = 256
)

// memberID is the syntax of the ids of members: 128 bits in hexadecimal.
var memberID = lazyregexp.New(`^[0-9a-f]{32}$`)

// readRequest reads and checks a request. It repeats the checks of the schema that protect this
// node.
func readRequest(data []byte) (request, error) {
	var in request
	if strictjson.Unmarshal(data, &in) != nil {
		return request{}, errors.New("it cannot be read")
	}
	switch {
	case slices.ContainsFunc([]string{string(in.End), string(in.Account), string(in.Constrain), in.Parent},
		func(id string) bool { return id != "" && !memberID().MatchString(id) }):
		return request{}, errors.New("end, account, constrain or parent is no member's id")
	case in.Answer != nil && !memberID().MatchString(string(in.Answer.Member)):
		return request{}, errors.New("an answer names no member")
	case in.End == "" && in.Account == "" && in.Constrain == "" && in.Answer == nil && in.Agent == "" && !in.Load:
		return request{}, errors.New("it names no agent")
	case slices.ContainsFunc(in.Skills, Skill.isInvalid):
		return request{}, errors.New("a skill has no name of the specification, or no SHA-256 in hex")
	case len(in.Reason) > maxReason || len(in.Tools) > maxTools || len(in.Skills) > maxSkills:
		return request{}, errors.New("it is too long")
	}
	return in, nil
}

// update is one line of the output of the call, and its reply.
type update struct {
	// Member is the spawned agent; only in the first line.
	Member *memberInfo `json:"member,omitempty"`
	// Spent is the use so far of the agent and its descendants; in the reply the final one.
	Spent *budget.Spent `json:"spent,omitempty"`
	// Place asks the borrower for a place for one more descendant; it is an id, as Question.ID. Ended is
	// how many such places are free again, since the lease began.
	Place string `json:"place,omitempty"`
	Ended int    `json:"ended,omitempty"`
	// Denied are the calls that were denied since the lease began, without a question to the borrower or an answer of its
	// person: at most maxDenied, in the reply and in that to a request for the account. Why of each says why.
	Denied []Question `json:"denied,omitempty"`
	// Why is the reason for the end, in the reply.
	Why string `json:"why,omitempty"`
	// Question asks the borrower's person about a call; Withdrawn is the ID of one, or of a Place, that
	// needs no answer any more.
	Question  *Question `json:"question,omitempty"`
	Withdrawn string    `json:"withdrawn,omitempty"`
	// Load is the answer to a request for it.
	Load *placement.Load `json:"load,omitempty"`
	// Events are events of the agent and of its sub-agents on the lender, in their order, if the request asked for them.
	Events []json.RawMessage `json:"events,omitempty"`
}

// memberInfo is the part of the new member that the borrower needs before gossip brings the rest.
type memberInfo struct {
	ID      community.MemberID `json:"id"`
	Name    string             `json:"name"`
	Accepts []string           `json:"accepts"`
	// Omitted are the skills of the request that are not active for the member.
	Omitted []OmittedSkill `json:"omitted,omitempty"`
}

// maxLine bounds a line of a lender, in bytes: a question with the arguments of a call.
const maxLine = 256 << 10

// lineReader splits the output of a lender, which comes in arbitrary pieces, into lines. The zero
// value is ready for use.
type lineReader struct{ rest []byte }

// push adds data and returns the updates that are complete now. After an error the reader must not
// be used again.
func (l *lineReader) push(data []byte) ([]update, error) {
	var all []update
	l.rest = append(l.rest, data...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if len(line) > maxLine {
			return all, errors.New("a line of it has no end")
		}
		if !found {
			return all, nil
		}
		u, err := readUpdate(line)
		if err != nil {
			return all, err
		}
		all = append(all, u)
		l.rest = rest
	}
}

// readUpdate decodes and checks one line, or the reply. It trusts no field: the id must be valid,
// the member must accept something, and the reason is cut to maxReason bytes.
func readUpdate(line []byte) (update, error) {
	var u update
	if err := json.Unmarshal(line, &u); err != nil {
		return update{}, errors.New("what it says cannot be read")
	}
	if m := u.Member; m != nil && (!memberID().MatchString(string(m.ID)) || len(m.Accepts) == 0 || len(m.Omitted) > maxSkills) {
		return update{}, errors.New("it names no member, or more skills than it was asked for")
	}
	if len(u.Place) > 64 {
		return update{}, errors.New("what it asks is no question")
	}
	u.Why = visible.Prefix(u.Why, maxReason)
	for i := range u.Denied {
		if i == maxDenied {
			return update{}, errors.New("it tells of too many denied calls")
		}
		if err := u.Denied[i].check(); err != nil {
			return update{}, err
		}
	}
	if u.Question != nil && u.Question.ID == "" {
		return update{}, errors.New("what it asks is no question")
	}
	if u.Question != nil {
		return u, u.Question.check()
	}
	return u, nil
}

// line returns the update as one line of JSON (application/x-ndjson).
func (u update) line() ([]byte, error) {
	data, err := json.Marshal(u)
	return append(data, '\n'), err
}

// invalid returns a community.ErrInvalid whose text reaches the calling node.
func invalid(format string, args ...any) error {
	return community.Explain(community.ErrInvalid, fmt.Sprintf(format, args...))
}
