package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"symbio/community"
)

// SpawnCapability is the name of the capability by which a node lends its agents to those of others. A call of it is a
// lease: what it spawns ends with it.
const SpawnCapability = "agents.spawn"

// loanRequest asks for an agent, or for the end of one that was lent.
type loanRequest struct {
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
func (w *wireLimits) limits() (l Limits) {
	if w == nil {
		return l
	}
	l.Depth, l.Agents, l.SpawnsPerMinute, l.ModelCalls = number(w.Depth), number(w.Agents), number(w.SpawnsPerMinute), number(w.ModelCalls)
	l.Tokens, l.Cost = number(w.Tokens), number(w.Cost)
	if w.Wall != nil {
		if l.Wall = seconds(*w.Wall, maxWall); l.Wall == 0 {
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

// share is what limits are between nodes.
func share(l Limits) *wireLimits {
	w := &wireLimits{
		Depth: saying(l.Depth), Agents: saying(l.Agents), SpawnsPerMinute: saying(l.SpawnsPerMinute), ModelCalls: saying(l.ModelCalls),
		Tokens: saying(l.Tokens), Cost: saying(l.Cost),
	}
	if l.Wall != 0 {
		w.Wall = new(max(0, l.Wall.Seconds()))
	}
	return w
}

func saying[N int | int64 | float64](n N) *N {
	if n == 0 {
		return nil
	}
	return new(max(0, n))
}

// maxWall is more than anything may take.
const maxWall = 365 * 24 * time.Hour

// loanSchema is the input's JSON schema.
func loanSchema(agents []string) (json.RawMessage, error) {
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

// loanAgents are the definitions that a node lends, as the schema of its capability says it. It is what a stranger
// says.
func loanAgents(input json.RawMessage) []string {
	var s struct {
		Properties struct{ Agent struct{ Enum []string } }
	}
	if json.Unmarshal(input, &s) != nil {
		return nil
	}
	return slices.DeleteFunc(s.Properties.Agent.Enum, func(name string) bool { return !definitionName.MatchString(name) || len(name) > 64 })
}

const (
	maxReason = 1000 // bytes
	maxTools  = 256
)

var memberID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// readLoan reads what another node asks. It was checked by the schema where it came in over the community; it is
// checked here for whoever calls otherwise.
func readLoan(data []byte) (loanRequest, error) {
	var in loanRequest
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return loanRequest{}, errors.New("it cannot be read")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return loanRequest{}, errors.New("something follows it")
	}
	switch {
	case in.End != "" && !memberID.MatchString(string(in.End)):
		return loanRequest{}, errors.New("end is no member's id")
	case in.Account != "" && !memberID.MatchString(string(in.Account)):
		return loanRequest{}, errors.New("account is no member's id")
	case in.Parent != "" && !memberID.MatchString(in.Parent):
		return loanRequest{}, errors.New("parent is no member's id")
	case in.End == "" && in.Account == "" && in.Agent == "":
		return loanRequest{}, errors.New("it names no agent")
	case len(in.Reason) > maxReason || len(in.Tools) > maxTools:
		return loanRequest{}, errors.New("it is too long")
	}
	return in, nil
}

// loanUpdate is a line that the lender says ahead of its answer, and the answer itself.
type loanUpdate struct {
	// Member is the agent that was spawned; in the first line alone.
	Member *loanMember `json:"member,omitempty"`
	// Spent is what it has used so far with all its descendants; in the answer, what it has used in the end.
	Spent *Spent `json:"spent,omitempty"`
	// Why says in the answer why the agent ended.
	Why string `json:"why,omitempty"`
}

type loanMember struct {
	ID      community.MemberID `json:"id"`
	Name    string             `json:"name"`
	Accepts []string           `json:"accepts"`
}

// maxLoanLine bounds a line of a lender, in bytes; what it has to say fits in a tenth.
const maxLoanLine = 64 << 10

// loanLines cuts what a lender says into its lines. The zero value is at the beginning.
type loanLines struct{ rest []byte }

// take returns the whole lines in what has come so far. An error says that the lender speaks of something else; what
// follows means nothing.
func (l *loanLines) take(data []byte) ([]loanUpdate, error) {
	var all []loanUpdate
	l.rest = append(l.rest, data...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if len(line) > maxLoanLine {
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

func readUpdate(line []byte) (loanUpdate, error) {
	var u loanUpdate
	if err := json.Unmarshal(line, &u); err != nil {
		return loanUpdate{}, errors.New("what it says cannot be read")
	}
	if m := u.Member; m != nil && (!memberID.MatchString(string(m.ID)) || len(m.Accepts) == 0) {
		return loanUpdate{}, errors.New("it names no member")
	}
	u.Why = strings.ToValidUTF8(u.Why[:min(len(u.Why), maxReason)], "")
	return u, nil
}

func (u loanUpdate) line() ([]byte, error) {
	data, err := json.Marshal(u)
	return append(data, '\n'), err
}

// said is what another node says was spent, as it may be counted: nothing is less than none.
func (s Spent) said() Spent {
	s.Agents, s.ModelCalls, s.Tokens = max(s.Agents, 0), max(s.ModelCalls, 0), max(s.Tokens, 0)
	if !(s.Cost >= 0) { // nor is it no number
		s.Cost = 0
	}
	return s
}

// seconds is a number of seconds, whatever it is, as a time between zero and most.
func seconds(s float64, most time.Duration) time.Duration {
	switch {
	case !(s > 0): // not a number is none, too
		return 0
	case s >= most.Seconds():
		return most
	}
	return time.Duration(s * float64(time.Second))
}

// errLoan begins what is wrong with a request.
func errLoan(format string, args ...any) error {
	return community.Explain(community.ErrInvalid, fmt.Sprintf(format, args...))
}
