package dashboard

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/agent/event"
	"symbio/agent/llm"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// steerTimeout is how long a person waits for the receipt of a text. After it
// the text is withdrawn.
const steerTimeout = 20 * time.Second

// agentPage returns the page of one agent: its conversation, its present work, and
// the ways to change that.
func agentPage() page {
	return page{Path: "/agents/{id}", Name: "agent", Title: "Agent", Live: true, Data: agentData, Actions: map[string]action{
		"steer": {done: "The agent has your text, or gets it with its next task.", do: func(ctx context.Context, v *view, form url.Values) error {
			r, err := v.cfg.Client.Steer(ctx, &symbiov1.SteerRequest{Member: v.Request.PathValue("id"), Text: form.Get("text"), Timeout: durationpb.New(steerTimeout)})
			if err == nil && r.GetOutcome() == "returned" {
				return status.Error(codes.Unavailable, "the text was not delivered: "+r.GetWhy())
			}
			return err
		}},
		"interrupt": {done: "The task was interrupted.", confirm: "Interrupt the task of this agent? The agent stays; what it does now is lost.", do: func(ctx context.Context, v *view, _ url.Values) error {
			_, err := v.cfg.Client.Interrupt(ctx, &symbiov1.InterruptRequest{Member: v.Request.PathValue("id")})
			return err
		}},
		"terminate": {confirm: "End this agent and its sub-agents? Their conversations cannot go on unless they are kept.", next: "/", do: func(ctx context.Context, v *view, _ url.Values) error {
			_, err := v.cfg.Client.Terminate(ctx, &symbiov1.TerminateRequest{Member: v.Request.PathValue("id")})
			return err
		}},
	}}
}

// agentView is the data of the page.
type agentView struct {
	*symbiov1.FleetAgent
	Parent   *symbiov1.FleetAgent // nil = a person started it
	Children []*symbiov1.FleetAgent
	Messages []llm.Message
	Omitted  uint32
	Latest   []event.Event // of the task that runs
	// Problem is why the conversation is not shown; "" = it is.
	Problem string
	// Local agents can be ended here, and their rules are known.
	Local bool
	Rules []permission.LocatedRule
}

// Heading returns the title of the page.
func (a agentView) Heading() string { return a.GetName() }

// agentData returns what is known of the agent. A conversation that may not be
// read is no error: the rest is shown.
func agentData(ctx context.Context, v *view) (any, error) {
	f, err := v.fleet(ctx)
	if err != nil {
		return nil, err
	}
	a := agentView{FleetAgent: f.Agents[v.Request.PathValue("id")]}
	if a.FleetAgent == nil {
		return nil, status.Error(codes.NotFound, "no agent with this id is in the community, or its node does not show it; the sessions have its conversation if it was kept")
	}
	if a.GetState() != "idle" {
		a.Latest = f.Latest(a.GetId(), 12)
	}
	a.Parent = f.Agents[a.GetParent()]
	for _, id := range slices.Sorted(maps.Keys(f.Agents)) {
		if c := f.Agents[id]; c.GetParent() == a.GetId() {
			a.Children = append(a.Children, c)
		}
	}
	if a.Local = f.Nodes[a.GetNode()].GetSelf(); a.Local {
		a.Rules = v.cfg.Rules(a.GetDefinition())
	}
	reply, err := v.cfg.Client.Conversation(ctx, &symbiov1.ConversationRequest{Member: a.GetId()})
	if err == nil {
		a.Omitted, err = reply.GetOmitted(), json.Unmarshal(reply.GetTranscript(), &a.Messages)
	}
	if err != nil {
		a.Problem = status.Convert(err).Message()
	}
	return a, nil
}
