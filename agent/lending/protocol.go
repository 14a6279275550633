package lending

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/community"
	"symbio/security/visible"
)

// Capability is the name of the capability by which a node lends its agents to those of others.
const Capability = "agents.spawn"

// request asks for an agent, for the end of a lent one, or for what one has spent.
type request struct {
	// Agent is the definition, one of those that the node lends.
	Agent  string `json:"agent,omitempty"`
	Name   string `json:"name,omitempty"`   // of the member; "" = the definition's
	Reason string `json:"reason,omitempty"` // why it is needed, for the other node's people
	// Parent is the member at the calling node for which it is; "" = nobody's, as when a person calls.
	Parent string `json:"parent,omitempty"`
	// Tools are those that it may use; nil = all that its definition has there.
	Tools []string `json:"tools,omitzero"`
	// Share is what it may use with all its descendants; nil = what the node lends it.
	Share *wireLimits `json:"share,omitempty"`
	// End is the member that the node is to end now; then nothing else is said. The call that it was lent by answers.
	End community.MemberID `json:"end,omitempty"`
	// Account is the member of which the node is to say what it has spent so far; then nothing else is said.
	Account community.MemberID `json:"account,omitempty"`
}

// wireLimits are Limits where zero is none, and absent is as much as the node lends.
type wireLimits struct {
	Depth           *int     `json:"depth,omitempty"`
	Agents          *int     `json:"agents,omitempty"`
	SpawnsPerMinute *int     `json:"spawns_per_minute,omitempty"`
	ModelCalls      *int     `json:"model_calls,omitempty"`
	Tokens          *int64   `json:"tokens,omitempty"`
	Cost            *float64 `json:"cost,omitempty"`
	Wall            *float64 `json:"wall,omitempty"` // in seconds
}

// limits are what the share says as Limits, where zero is the default, and less is none.
func (w *wireLimits) limits() (l budget.Limits) {
	if w == nil {
		return l
	}
	l.Depth, l.Agents, l.SpawnsPerMinute, l.ModelCalls = number(w.Depth), number(w.Agents), number(w.SpawnsPerMinute), number(w.ModelCalls)
	l.Tokens, l.Cost = number(w.Tokens), number(w.Cost)
	if w.Wall != nil {
		if l.Wall = budget.Seconds(*w.Wall); l.Wall == 0 {
			l.Wall = -1
		}
	}
	return l
}

func number[N int | int64 | float64](n *N) N {
	switch {
	case n == nil:
		return 0
	case *n > 0:
		return *n
	}
	return -1
}

// shareOf returns limits as they are sent between nodes.
func shareOf(l budget.Limits) *wireLimits {
	w := &wireLimits{
		Depth: numberOf(l.Depth), Agents: numberOf(l.Agents), SpawnsPerMinute: numberOf(l.SpawnsPerMinute), ModelCalls: numberOf(l.ModelCalls),
		Tokens: numberOf(l.Tokens), Cost: numberOf(l.Cost),
	}
	if l.Wall != 0 {
		w.Wall = new(max(0, l.Wall.Seconds()))
	}
	return w
}

func numberOf[N int | int64 | float64](n N) *N {
	if n == 0 {
		return nil
	}
	return new(max(0, n))
}

// inputSchema returns the JSON schema of a request.
func inputSchema(agents []string) (json.RawMessage, error) {
	type object = map[string]any
	whole, number := object{"type": "integer", "minimum": 0}, object{"type": "number", "minimum": 0}
	text := func(longest int) object { return object{"type": "string", "maxLength": longest} }
	return json.Marshal(object{
		"type": "object", "additionalProperties": false,
		"properties": object{
			"agent": object{"type": "string", "enum": agents}, "name": text(64), "reason": text(maxReason), "parent": text(32),
			"tools": object{"type": "array", "maxItems": maxTools, "items": text(128)},
			"share": object{"type": "object", "additionalProperties": false, "properties": object{
				"depth": whole, "agents": whole, "spawns_per_minute": whole, "model_calls": whole, "tokens": whole, "cost": number, "wall": number,
			}},
			"end": text(32), "account": text(32),
		},
	})
}

// definitionsOf returns the definitions that a node lends, as the schema of its capability, another node's claim, names them.
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
	maxReason = 1000 // bytes
	maxTools  = 256
)

var memberID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// readRequest reads what another node asks.
func readRequest(data []byte) (request, error) {
	var in request
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return request{}, errors.New("it cannot be read")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return request{}, errors.New("something follows it")
	}
	switch {
	case in.End != "" && !memberID.MatchString(string(in.End)):
		return request{}, errors.New("end is no member's id")
	case in.Account != "" && !memberID.MatchString(string(in.Account)):
		return request{}, errors.New("account is no member's id")
	case in.Parent != "" && !memberID.MatchString(in.Parent):
		return request{}, errors.New("parent is no member's id")
	case in.End == "" && in.Account == "" && in.Agent == "":
		return request{}, errors.New("it names no agent")
	case len(in.Reason) > maxReason || len(in.Tools) > maxTools:
		return request{}, errors.New("it is too long")
	}
	return in, nil
}

// update is a line that the lender sends ahead of its answer, and the answer itself.
type update struct {
	// Member is the agent that was spawned; in the first line alone.
	Member *spawned `json:"member,omitempty"`
	// Spent is what it has used so far with all its descendants; in the answer, what it has used in the end.
	Spent *budget.Spent `json:"spent,omitempty"`
	// Why says in the answer why the agent ended.
	Why string `json:"why,omitempty"`
}

type spawned struct {
	ID      community.MemberID `json:"id"`
	Name    string             `json:"name"`
	Accepts []string           `json:"accepts"`
}

// maxLine bounds a line of a lender, in bytes; its longest lines take a tenth of that.
const maxLine = 64 << 10

// lineReader cuts the output of a lender into lines. The zero value is at the beginning.
type lineReader struct{ rest []byte }

// take returns the lines that are complete with data. After an error what follows means nothing.
func (l *lineReader) take(data []byte) ([]update, error) {
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

func readUpdate(line []byte) (update, error) {
	var u update
	if err := json.Unmarshal(line, &u); err != nil {
		return update{}, errors.New("what it says cannot be read")
	}
	if m := u.Member; m != nil && (!memberID.MatchString(string(m.ID)) || len(m.Accepts) == 0) {
		return update{}, errors.New("it names no member")
	}
	u.Why = visible.Prefix(u.Why, maxReason)
	return u, nil
}

func (u update) line() ([]byte, error) {
	data, err := json.Marshal(u)
	return append(data, '\n'), err
}

// invalid returns an error about a request.
func invalid(format string, args ...any) error {
	return community.Explain(community.ErrInvalid, fmt.Sprintf(format, args...))
}
