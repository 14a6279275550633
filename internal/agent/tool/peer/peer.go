// Package peer holds the tools by which a model talks to the community: find_members, send_signal
// and invoke_capability.
package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	_ "embed"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/security/visible"
	"symbio/security/permission"
)

// Community is what these tools need; *community.Community is one.
type Community interface {
	// Members returns all members, this node's and others'.
	Members() []community.Member
	// Catalog has the member that stands for this node.
	Catalog() community.Catalog
	// Capability returns how a node describes a capability; false if it does not offer it.
	Capability(node community.NodeID, name string) (community.Capability, bool)
	// Send sends a signal and waits for the reply.
	Send(ctx context.Context, to community.MemberID, s community.Signal) (community.Reply, error)
	// InvokeStream invokes a capability of a member of another node. It calls heard for one update
	// at a time, and not after it has returned.
	InvokeStream(ctx context.Context, on community.MemberID, capability string, s community.Signal, heard func(community.Update)) (community.Reply, error)
}

//go:embed find_members.md
var findText string

//go:embed send_signal.md
var sendText string

//go:embed invoke_capability.md
var invokeText string

// requesterKey is the key of the function of WithRequester in a context.
type requesterKey struct{}

// WithRequester returns ctx with a function that returns, for the ctx of a call, the chain of requesters on whose
// behalf it is made, the origin first. The chain goes with each signal that the tools send, so that the other node
// can authorize every requester. It must not be written to afterwards.
func WithRequester(ctx context.Context, chain func(context.Context) []string) context.Context {
	return context.WithValue(ctx, requesterKey{}, chain)
}

// Requester returns the present chain of requesters of ctx, for other tools that call another node; nil if
// ctx has none. It must not be written to.
func Requester(ctx context.Context) []string {
	if chain, ok := ctx.Value(requesterKey{}).(func(context.Context) []string); ok {
		return chain(ctx)
	}
	return nil
}

// behalfKey is the key of the function of WithBehalf in a context.
type behalfKey struct{}

// WithBehalf returns ctx with a function that encodes the constraints of the requesters for an
// outgoing call that is made with its ctx. other is whether the call goes to another node, which does not know the agents of
// this one. If the function returns an error, the call is not made.
func WithBehalf(ctx context.Context, say func(ctx context.Context, other bool) ([]byte, error)) context.Context {
	return context.WithValue(ctx, behalfKey{}, say)
}

// behalf returns the constraints for an outgoing call; nil if ctx has none.
func behalf(ctx context.Context, other bool) ([]byte, error) {
	say, _ := ctx.Value(behalfKey{}).(func(context.Context, bool) ([]byte, error))
	if say == nil {
		return nil, nil
	}
	return say(ctx, other)
}

// Address returns the address of an agent in a chain of requesters: NODE/ID.
func Address(m community.Member) string { return string(m.Node) + "/" + string(m.ID) }

// claimed marks the name of permissions that another node reports and this one cannot verify.
const claimed = ", as another node says"

// Constraints decodes the constraints of the requesters of a signal, as other nodes report them. It
// returns community.ErrInvalid if they are malformed.
func Constraints(s community.Signal) (permission.Chain, error) {
	chain, err := permission.DecodeConstraints(s.OnBehalf)
	if err != nil {
		return nil, community.Explain(community.ErrInvalid, "the permissions on whose behalf it is: "+err.Error())
	}
	for i := range chain {
		// It may have come over an agent of this node, which has it from there.
		chain[i].Name = strings.TrimSuffix(chain[i].Name, claimed) + claimed
	}
	return chain, nil
}

// The kinds of the tools. Each agent has tools of its own, which share the schemas.
var (
	findMembers      = tool.NewKind[findArgs](tool.Spec{Name: "find_members", Description: findText, ReadOnly: true})
	sendSignal       = tool.NewKind[sendArgs](tool.Spec{Name: "send_signal", Description: sendText})
	invokeCapability = tool.NewKind[invokeArgs](tool.Spec{Name: "invoke_capability", Description: invokeText})
)

// Tools returns the tools for one agent, self. Capabilities that guard denies are not shown; a nil
// guard shows none. by names, for a capability that the agent has through another tool, that tool, "" for others:
// invoke_capability refuses such a capability and names it. It is shown like others.
func Tools(c Community, self community.Member, guard tool.Guard, by func(capability string) string) []tool.Tool {
	p := peers{c, self, guard, by}
	return append(p.signalTools(), invokeCapability.New(p.invoke))
}

// SignalTools returns the tools that find members and send them signals alone.
func SignalTools(c Community, self community.Member) []tool.Tool {
	return peers{community: c, self: self}.signalTools()
}

func (p peers) signalTools() []tool.Tool {
	return []tool.Tool{findMembers.New(p.find), sendSignal.New(p.send)}
}

// peers has what the tools of one agent need. It does not change, so calls may run in parallel.
type peers struct {
	community Community
	self      community.Member
	guard     tool.Guard
	// by names the tool that alone may invoke a capability.
	by func(capability string) string
}

type findArgs struct {
	Accepts  string   `json:"accepts,omitempty" jsonschema:"only members that receive signals of this perception"`
	Provides string   `json:"provides,omitempty" jsonschema:"only members that provide this capability"`
	Where    []string `json:"where,omitempty" jsonschema:"only members of nodes with these labels, such as gpu, arch=arm64 or room=kitchen"`
}

// foundMember is a row of find_members. Its texts come from the members and must not be trusted.
type foundMember struct {
	// ID is what the other tools take; names need not be unique.
	ID   community.MemberID `json:"id"`
	Name string             `json:"name"`
	// Where is "this node" or "node " and the node's id.
	Where string `json:"where"`
	// Accepts are the perceptions of signals that it receives, Provides the capabilities that the
	// agent may invoke.
	Accepts   []string `json:"accepts,omitempty"`
	Provides  []string `json:"provides,omitempty"`
	Available bool     `json:"available"`
	// Capability describes the capability that the call asked for; nil if it asked for none.
	Capability *foundCapability `json:"capability,omitempty"`
}

// foundCapability is what a model needs to know to invoke a capability.
type foundCapability struct {
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input_schema,omitempty"`
	Idempotent  bool            `json:"idempotent,omitempty"`
}

// find runs find_members. The agent itself and members of nodes that drain are not listed. The result is a JSON array, empty if no
// member fits; an error if a label has the wrong form.
func (p peers) find(_ context.Context, a findArgs) tool.Result {
	where, err := community.ParseLabels(a.Where)
	if err != nil {
		return failed(err)
	}
	list, all := []foundMember{}, p.community.Members()
	fitting := community.NodesWith(where, slices.Concat(all, p.community.Catalog().Members)...)
	draining := map[community.NodeID]bool{}
	for _, m := range all {
		if m.ID == community.MemberID(m.Node) && m.IsDraining() {
			draining[m.Node] = true
		}
	}
	for _, m := range all {
		if draining[m.Node] || len(where) > 0 && !fitting[m.Node] {
			continue // a draining node takes no new work
		}
		m.Provides = p.usable(m.Provides)
		if m.ID == p.self.ID || a.Accepts != "" && !slices.Contains(m.Accepts, a.Accepts) || a.Provides != "" && !slices.Contains(m.Provides, a.Provides) {
			continue
		}
		where := "this node"
		if m.Node != p.self.Node {
			where = "node " + string(m.Node)
		}
		one := foundMember{ID: m.ID, Name: m.Name, Where: where, Accepts: m.Accepts, Provides: m.Provides, Available: m.Available}
		if c, ok := p.community.Capability(m.Node, a.Provides); ok && a.Provides != "" {
			one.Capability = &foundCapability{c.Description, c.Input, c.Idempotent}
		}
		list = append(list, one)
	}
	return tool.JSON(list)
}

// usable returns the capabilities that the agent may invoke, with or without a person's approval.
// It asks the guard about a call without data; a call with data is judged again when it is made.
func (p peers) usable(names []string) (may []string) {
	for _, name := range names {
		call := permission.Call{Tool: "invoke_capability", Args: map[string]any{"capability": name}}
		if p.guard != nil && p.guard.Judge(call).Action != permission.Deny {
			may = append(may, name)
		}
	}
	return may
}

type sendArgs struct {
	Member     string `json:"member" jsonschema:"the id of the member, or a name that only one has"`
	Perception string `json:"perception,omitempty" jsonschema:"how the member is to take it in; absent = the only one that it accepts, or task"`
	Data       string `json:"data" jsonschema:"the message; for an agent, the task in words"`
}

// send runs send_signal: it waits for the member's reply, which is the result. Without a perception
// it takes the member's default one.
func (p peers) send(ctx context.Context, a sendArgs) tool.Result {
	m, err := p.findOne(a.Member, func(m community.Member) bool { return len(m.Accepts) > 0 })
	if err != nil {
		return failed(err)
	}
	if a.Perception == "" {
		usual, ok := m.DefaultPerception()
		if !ok {
			return failed(fmt.Errorf("%s accepts %s: say which perception", m.Name, strings.Join(m.Accepts, ", ")))
		}
		a.Perception = usual
	}
	s, err := p.signal(ctx, m, a.Perception, a.Data)
	if err != nil {
		return failed(err)
	}
	return answer(p.community.Send(ctx, m.ID, s))
}

type invokeArgs struct {
	Capability string `json:"capability" jsonschema:"the name of the capability"`
	On         string `json:"on,omitempty" jsonschema:"the id or name of the member that is to do it; absent = any that provides it"`
	Data       string `json:"data,omitempty" jsonschema:"the input, JSON as the capability describes it"`
}

// invoke runs invoke_capability. Progress of the call is reported as progress of the tool, at most
// once in progressEach. The result is the reply; the chunks of output before it are not shown.
func (p peers) invoke(ctx context.Context, a invokeArgs) tool.Result {
	if name := p.by(a.Capability); name != "" {
		return failed(fmt.Errorf("%s is not invoked like this: use the tool %s", a.Capability, name))
	}
	m, err := p.findOne(a.On, func(m community.Member) bool { return m.Available && slices.Contains(m.Provides, a.Capability) })
	if err != nil {
		return failed(fmt.Errorf("capability %s: %w", a.Capability, err))
	}
	s, err := p.signal(ctx, m, "", a.Data)
	if err != nil {
		return failed(err)
	}
	var last time.Time
	return answer(p.community.InvokeStream(ctx, m.ID, a.Capability, s, func(u community.Update) {
		if now := time.Now(); u.Output == nil && now.Sub(last) >= progressEach {
			last = now
			tool.Report(ctx, u.Progress)
		}
	}))
}

// progressEach is the minimum interval between two progress reports of a call, because each becomes
// an event that is stored.
const progressEach = 500 * time.Millisecond

// signal returns the signal for what a model wrote: valid JSON as it is, other text as a JSON
// string.
func (p peers) signal(ctx context.Context, to community.Member, perception, data string) (community.Signal, error) {
	s := community.Signal{Perception: perception, Data: []byte(data), Requester: Requester(ctx)}
	var err error
	if s.OnBehalf, err = behalf(ctx, to.Node != p.self.Node); err != nil {
		return s, err
	}
	if !json.Valid(s.Data) {
		if quoted, err := json.Marshal(data); err == nil {
			s.Data = quoted
		}
	}
	return s, nil
}

// findOne returns the member that a model names by id or name; "" means any that fits. An id counts
// whether the member fits or not: the call then returns a better error. It returns an error if none
// or several fit a name.
func (p peers) findOne(name string, fits func(community.Member) bool) (community.Member, error) {
	var fitting []community.Member
	for _, m := range p.community.Members() {
		switch {
		case name != "" && string(m.ID) == name:
			return m, nil
		case m.ID != p.self.ID && fits(m) && (name == "" || visible.IsNamed(name, m.Name, string(m.ID))):
			fitting = append(fitting, m)
		}
	}
	switch {
	case len(fitting) == 0 && name == "":
		return community.Member{}, errors.New("no member provides it; find_members shows who provides what")
	case len(fitting) == 0:
		return community.Member{}, fmt.Errorf("no member %q: %w; find_members shows who is here", name, community.ErrNotFound)
	case len(fitting) > 1 && name != "":
		return community.Member{}, fmt.Errorf("%d members are called %q: name one by its id", len(fitting), name)
	}
	return fitting[0], nil
}

// answer returns a reply as a result.
func answer(r community.Reply, err error) tool.Result {
	if err != nil {
		return failed(err)
	}
	return tool.Result{Text: string(r.Data)}
}

func failed(err error) tool.Result { return tool.Result{Text: err.Error(), IsError: true} }
