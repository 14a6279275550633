package chat

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/private"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// background makes calls of the node, which may take seconds, beside the event loop, and shows their results. Its methods are
// called by the event loop.
type background struct {
	// client is nil while the node is gone.
	client symbiov1.ControlClient
	view   *view
	// group has the goroutines of the conversation.
	group *errgroup.Group
	// finished has what run leaves to the event loop.
	finished chan func()
}

// run runs do in a goroutine of the conversation. The event loop then calls what do returns.
func (b *background) run(ctx context.Context, do func() (after func())) {
	b.group.Go(func() error {
		select {
		case b.finished <- do():
		case <-ctx.Done():
		}
		return nil
	})
}

// controlCall is a method of a ControlClient.
type controlCall[Q, R any] func(symbiov1.ControlClient, context.Context, Q, ...grpc.CallOption) (R, error)

// call runs a call of the node beside the loop, and then show with its reply. A failure is shown, and
// the conversation goes on.
func call[Q, R any](ctx context.Context, b *background, do controlCall[Q, R], request Q, show func(R)) error {
	client := b.client
	if client == nil {
		b.view.note("the node is gone")
		return nil
	}
	b.run(ctx, func() func() {
		reply, err := do(client, ctx, request)
		return func() {
			if err != nil {
				b.view.problem(command.ErrorText(ctx, err))
			} else {
				show(reply)
			}
		}
	})
	return nil
}

func (b *background) listApprovals(ctx context.Context) error {
	return call(ctx, b, symbiov1.ControlClient.Approvals, &symbiov1.ApprovalsRequest{}, func(r *symbiov1.ApprovalsReply) {
		for _, p := range r.GetProblems() {
			b.view.note("decisions on " + terminal.Printable(p.GetNodeName()) + " are not shown: " + terminal.Printable(p.GetWhy()))
		}
		switch {
		case len(r.GetApprovals()) == 0:
			b.view.note("no decision waits")
		case b.view.term != nil:
			b.view.term.Show(Approvals(r.GetApprovals()))
		default:
			for _, a := range r.GetApprovals() {
				b.view.note(a.GetId() + " on " + terminal.Printable(a.GetNodeName()) + ": " + visible.Escape(a.GetTool()) + " " + command.PlainJSON(a.GetArgs()))
			}
		}
	})
}

// listRules shows what the person has allowed, or takes a rule back. mode is the mode of the conversation.
func (b *background) listRules(ctx context.Context, args, mode string) error {
	if id, ok := strings.CutPrefix(args, "forget "); ok {
		return call(ctx, b, symbiov1.ControlClient.Forget, &symbiov1.ForgetRequest{Id: strings.TrimSpace(id)},
			func(*symbiov1.ForgetReply) { b.view.note("it is asked about again") })
	}
	return call(ctx, b, symbiov1.ControlClient.Rules, &symbiov1.RulesRequest{}, func(r *symbiov1.RulesReply) {
		var text strings.Builder
		fmt.Fprintf(&text, "mode: %s\n\n%s that you have allowed\n", cmp.Or(mode, "ask"), visible.Plural(len(r.GetRules()), "rule"))
		for _, rule := range r.GetRules() {
			holds := "from now on"
			if rule.GetSession() {
				holds = "for the session"
			}
			fmt.Fprintf(&text, "%s  %s: %s  %s\n", rule.GetId(), holds, visible.Escape(rule.GetRule()), visible.Escape(rule.GetWhyNot()))
		}
		text.WriteString("/permissions forget ID takes one back; symbio permissions check TOOL says what decides")
		b.view.page("Permissions", text.String())
	})
}

func (b *background) listSkills(ctx context.Context) error {
	return call(ctx, b, symbiov1.ControlClient.Skills, &symbiov1.SkillsRequest{}, func(r *symbiov1.SkillsReply) {
		var text strings.Builder
		for _, s := range r.GetSkills() {
			state := "on "
			if !s.GetEnabled() {
				state = "off"
			}
			fmt.Fprintf(&text, "%s %s  %s\n", state, s.GetName(), visible.TruncateRunes(terminal.Printable(s.GetDescription()), 200))
		}
		b.view.page("Skills", cmp.Or(text.String(), "there are no skills here"))
	})
}

func (b *background) listMCP(ctx context.Context, agent string) error {
	if agent == "" {
		b.view.note("the tools are known when the agent has begun: send a message first")
		return nil
	}
	return call(ctx, b, symbiov1.ControlClient.Inspect, &symbiov1.InspectRequest{Member: agent}, func(r *symbiov1.InspectReply) {
		var text strings.Builder
		for _, p := range r.GetParts() {
			if strings.HasPrefix(p.GetName(), "mcp__") && p.GetKind() == "tool" {
				fmt.Fprintf(&text, "%s  %s\n", terminal.Printable(p.GetName()), visible.Plural(int(p.GetTokens()), "token"))
			}
		}
		b.view.page("Tools of MCP servers", cmp.Or(text.String(), "the agent has no tools of MCP servers; symbio mcp list shows the servers"))
	})
}

// listMembers shows the members of all nodes to the terminal, for its tree of agents.
func (b *background) listMembers(ctx context.Context) {
	_ = call(ctx, b, symbiov1.ControlClient.Members, &symbiov1.MembersRequest{}, func(r *symbiov1.MembersReply) { b.view.term.Show(Members(r.GetMembers())) })
}

// steerTimeout is how long the node waits until an agent has got a text.
const steerTimeout = 30 * time.Second

// steerMember says a text to another agent, here or on another node, and notes what became of it.
func (b *background) steerMember(ctx context.Context, member, text string) {
	request := &symbiov1.SteerRequest{Member: member, Text: text, Timeout: durationpb.New(steerTimeout)}
	_ = call(ctx, b, symbiov1.ControlClient.Steer, request, func(r *symbiov1.SteerReply) {
		b.view.note(strings.TrimSpace(fmt.Sprintf("%s to %s on %s: %s  %s", r.GetOutcome(), terminal.Printable(r.GetName()),
			terminal.Printable(r.GetNodeName()), visible.TruncateRunes(FirstLine(text), 60), terminal.Printable(r.GetWhy()))))
	})
}

// stopMember ends an agent of this node and its sub-agents.
func (b *background) stopMember(ctx context.Context, member string) {
	_ = call(ctx, b, symbiov1.ControlClient.Terminate, &symbiov1.TerminateRequest{Member: member},
		func(m *symbiov1.LocatedMember) { b.view.note("stopped " + terminal.Printable(m.GetName())) })
}

// fillPrompt puts the text of a prompt into the input, because it is the server's and the person must see it
// before an agent does. The words of args are the prompt's arguments in their order; the last one has the
// rest.
func (b *background) fillPrompt(ctx context.Context, p *symbiov1.MCPPrompt, args string) error {
	given := map[string]string{}
	for i, a := range p.GetArguments() {
		word, rest, _ := strings.Cut(args, " ")
		if i == len(p.GetArguments())-1 {
			word = args
		}
		if args = strings.TrimSpace(rest); word != "" {
			given[a.GetName()] = word
		} else if a.GetRequired() {
			b.view.note("/" + terminal.Printable(p.GetCommand()) + " needs " + terminal.Printable(a.GetName()) + ": " + terminal.Printable(a.GetDescription()))
			return nil
		}
	}
	return call(ctx, b, symbiov1.ControlClient.Prompt, &symbiov1.PromptRequest{Server: p.GetServer(), Name: p.GetName(), Arguments: given},
		func(r *symbiov1.PromptReply) { b.view.open(Draft(r.GetText())) })
}

// export writes a session as Markdown into a new file, for the user alone. It replaces no file.
func (b *background) export(ctx context.Context, s sessionRef, file string, export func(context.Context, *command.Env, string) (string, error)) {
	if s.id == "" || s.tasks == 0 || export == nil {
		b.view.note("nothing is kept of this conversation yet")
		return
	}
	file = cmp.Or(file, "symbio-"+s.id+".md")
	b.run(ctx, func() func() {
		text, err := export(ctx, b.view.env, s.id)
		if err == nil {
			err = private.Create(file, []byte(text))
		}
		return func() {
			if err != nil {
				b.view.problem("not exported: " + err.Error())
			} else {
				b.view.note(fmt.Sprintf("session %s is in %s, %s", s.id, terminal.Printable(file), visible.Plural(strings.Count(text, "\n"), "line")))
			}
		}
	})
}
