package chat

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/agent/event"
	"symbio/agent/session"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/agent/node/control"
	"symbio/internal/security/private"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// Command is a command that is typed with a slash.
type Command struct {
	// Name is the word behind the slash, Args what may follow, Help its effect.
	Name, Args, Help string
	run              func(ctx context.Context, t *conversation, args string) error
}

// commands returns all commands, in the order of /help. A new command needs nothing but an entry.
func commands() []Command {
	return []Command{
		{"help", "", "list the commands and keys", func(_ context.Context, t *conversation, _ string) error {
			t.view.page("Commands and keys", conversationHelp(t.term != nil))
			return nil
		}},
		{"next", "TEXT", "send a message after this answer", sendNext},
		{"model", "NAME", "ask another model from now on", func(_ context.Context, t *conversation, name string) error {
			return change(t, "model", name, &symbiov1.ChangeSettings{Model: name})
		}},
		{"effort", "low|medium|high", "how much the model thinks", func(_ context.Context, t *conversation, effort string) error {
			return change(t, "effort", effort, &symbiov1.ChangeSettings{Effort: effort})
		}},
		{"mode", "ask|edits|plan", "what is asked about; Shift-Tab goes through them", func(_ context.Context, t *conversation, mode string) error {
			return change(t, "mode", mode, &symbiov1.ChangeSettings{Mode: mode})
		}},
		{"compact", "", "make room in the model's context", func(_ context.Context, t *conversation, _ string) error {
			return t.link.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Compact{Compact: &symbiov1.Compact{}}})
		}},
		{"clear", "", "begin a new session", func(_ context.Context, t *conversation, _ string) error {
			return t.link.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Clear{Clear: &symbiov1.Clear{}}})
		}},
		{"sessions", "", "list the conversations of this directory", listSessions},
		{"resume", "[ID]", "go on with another conversation, or choose one", resumeSession},
		{"undo", "[N|redo]", "put files back as before this exchange, or N", func(ctx context.Context, t *conversation, args string) error {
			askUndo(ctx, t, args)
			return nil
		}},
		{"export", "[FILE]", "write this session as Markdown into a new file", exportSession},
		{"diff", "", "show the edits of this conversation", func(_ context.Context, t *conversation, _ string) error { return open(t, OpenDiffs{}) }},
		{"transcript", "", "show what the agent remembers", func(_ context.Context, t *conversation, _ string) error {
			return t.link.askTranscript()
		}},
		{"agents", "", "show the agents of this and other nodes; Ctrl-T", func(_ context.Context, t *conversation, _ string) error { return open(t, OpenAgents{}) }},
		{"approvals", "", "show the decisions that wait, also on other nodes", listApprovals},
		{"permissions", "[forget ID]", "show what you have allowed, or take one back", listRules},
		{"skills", "", "list the skills; /NAME starts one, $NAME names one", listSkills},
		{"mcp", "", "list the tools of MCP servers", listMCP},
		{"cost", "", "show what was spent", func(_ context.Context, t *conversation, _ string) error {
			t.view.note(cmp.Or(t.spent, "nothing was spent yet"))
			return nil
		}},
		{"exit", "", "leave; the same as Ctrl-D, or Ctrl-C twice", func(_ context.Context, t *conversation, _ string) error { return t.abort() }},
	}
}

// conversationHelp is the text of /help, with the keys of a terminal that is drawn to if keys is true.
func conversationHelp(keys bool) string {
	var b strings.Builder
	b.WriteString(`A line is the next message. While the agent works, it is put to the agent
before its next step. Pasted text stays one message; a line that ends in \
continues in the next one. //TEXT is a message that begins with a slash.

`)
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-24s %s\n", strings.TrimSpace("/"+c.Name+" "+c.Args), c.Help)
	}
	if keys {
		b.WriteString(`
  Alt-Enter, Ctrl-J        begin a new line
  Up, Down, Ctrl-R         earlier messages; search them
  Tab, @FILE               complete a word; name a file
  Ctrl-G                   write the message in $EDITOR
  Ctrl-O, Ctrl-T           the whole conversation; the agents of all nodes
  Shift-Tab                the next mode: ask, edits, plan
  Ctrl-C, Ctrl-D, Ctrl-Z   stop the answer; leave; suspend
`)
	}
	return b.String()
}

// command runs a command that was typed with a slash; line is without it. An unknown command is
// reported and sends nothing, so that a typo does not reach the model.
func (t *conversation) command(ctx context.Context, line string) error {
	name, args, _ := strings.Cut(strings.TrimSpace(line), " ")
	if name == "quit" {
		name = "exit"
	}
	var names []string
	for _, c := range commands() {
		if c.Name == name {
			return c.run(ctx, t, strings.TrimSpace(args))
		}
		names = append(names, c.Name)
	}
	for _, p := range t.prompts {
		switch {
		case p.GetCommand() != name:
		case p.GetServer() == "":
			return t.sendMessage("$" + name + " " + args)
		default:
			return fillPrompt(ctx, t, p, args)
		}
		names = append(names, p.GetCommand())
	}
	t.view.note(fmt.Sprintf("no command /%s%s; /help lists the commands, and //%[1]s is a message", terminal.Printable(name), visible.Suggest(name, names)))
	return nil
}

// withoutBuiltin returns the prompts and skills that no command of commands hides.
func withoutBuiltin(prompts []*symbiov1.MCPPrompt) []*symbiov1.MCPPrompt {
	return slices.DeleteFunc(prompts, func(p *symbiov1.MCPPrompt) bool {
		return slices.ContainsFunc(commands(), func(c Command) bool { return c.Name == p.GetCommand() })
	})
}

// promptCommand returns the command of a prompt or skill.
func promptCommand(p *symbiov1.MCPPrompt) Command {
	c := Command{Name: p.GetCommand(), Help: p.GetDescription()}
	for _, a := range p.GetArguments() {
		c.Args += a.GetName() + " "
	}
	return c
}

// fillPrompt puts the text of a prompt into the input, because it is the server's and the person must see it
// before an agent does. The words of args are the prompt's arguments in their order; the last one has the
// rest.
func fillPrompt(ctx context.Context, t *conversation, p *symbiov1.MCPPrompt, args string) error {
	given := map[string]string{}
	for i, a := range p.GetArguments() {
		word, rest, _ := strings.Cut(args, " ")
		if i == len(p.GetArguments())-1 {
			word = args
		}
		if args = strings.TrimSpace(rest); word != "" {
			given[a.GetName()] = word
		} else if a.GetRequired() {
			t.view.note("/" + terminal.Printable(p.GetCommand()) + " needs " + terminal.Printable(a.GetName()) + ": " + terminal.Printable(a.GetDescription()))
			return nil
		}
	}
	return call(ctx, t, func(ctx context.Context, c symbiov1.ControlClient) (*symbiov1.PromptReply, error) {
		return c.Prompt(ctx, &symbiov1.PromptRequest{Server: p.GetServer(), Name: p.GetName(), Arguments: given})
	}, func(r *symbiov1.PromptReply) { _ = open(t, Draft(r.GetText())) })
}

func sendNext(_ context.Context, t *conversation, text string) error {
	if text == "" {
		t.view.note("/next needs a text: /next TEXT")
		return nil
	}
	return t.sendMessage(text)
}

// change asks the node to change a setting. The event "settings" says what is in force then.
func change(t *conversation, name, value string, to *symbiov1.ChangeSettings) error {
	if value == "" {
		t.view.note(fmt.Sprintf("/%s needs a value; now: %s", name, cmp.Or(map[string]string{"model": t.settings.Model,
			"effort": t.settings.Effort, "mode": t.settings.Mode}[name], "as configured")))
		return nil
	}
	return t.link.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Settings{Settings: to}})
}

// open opens a part of the terminal.
func open(t *conversation, what any) error {
	if t.term == nil {
		t.view.note("this needs a terminal that can be drawn to")
	} else {
		t.term.Show(what)
	}
	return nil
}

// call runs a call of the node beside the loop, and then show with its reply. A failure is shown, and
// the conversation goes on.
func call[R any](ctx context.Context, t *conversation, do func(context.Context, symbiov1.ControlClient) (R, error), show func(R)) error {
	client := t.link.client
	if client == nil {
		t.view.note("the node is gone")
		return nil
	}
	inBackground(ctx, t, func() func() error {
		reply, err := do(ctx, client)
		return func() error {
			if err != nil {
				t.view.problem(command.ErrorText(ctx, err))
			} else {
				show(reply)
			}
			return nil
		}
	})
	return nil
}

func listApprovals(ctx context.Context, t *conversation, _ string) error {
	return call(ctx, t, func(ctx context.Context, c symbiov1.ControlClient) (*symbiov1.ApprovalsReply, error) {
		return c.Approvals(ctx, &symbiov1.ApprovalsRequest{})
	}, func(r *symbiov1.ApprovalsReply) {
		for _, p := range r.GetProblems() {
			t.view.note("decisions on " + terminal.Printable(p.GetNodeName()) + " are not shown: " + terminal.Printable(p.GetWhy()))
		}
		switch {
		case len(r.GetApprovals()) == 0:
			t.view.note("no decision waits")
		case t.term != nil:
			t.term.Show(Approvals(r.GetApprovals()))
		default:
			for _, a := range r.GetApprovals() {
				t.view.note(a.GetId() + " on " + terminal.Printable(a.GetNodeName()) + ": " + visible.Escape(a.GetTool()) + " " + command.PlainJSON(a.GetArgs()))
			}
		}
	})
}

func listRules(ctx context.Context, t *conversation, args string) error {
	if id, ok := strings.CutPrefix(args, "forget "); ok {
		return call(ctx, t, func(ctx context.Context, c symbiov1.ControlClient) (*symbiov1.ForgetReply, error) {
			return c.Forget(ctx, &symbiov1.ForgetRequest{Id: strings.TrimSpace(id)})
		}, func(*symbiov1.ForgetReply) { t.view.note("it is asked about again") })
	}
	return call(ctx, t, func(ctx context.Context, c symbiov1.ControlClient) (*symbiov1.RulesReply, error) {
		return c.Rules(ctx, &symbiov1.RulesRequest{})
	}, func(r *symbiov1.RulesReply) {
		var b strings.Builder
		fmt.Fprintf(&b, "mode: %s\n\n%s that you have allowed\n", cmp.Or(t.settings.Mode, "ask"), visible.Plural(len(r.GetRules()), "rule"))
		for _, rule := range r.GetRules() {
			holds := "from now on"
			if rule.GetSession() {
				holds = "for the session"
			}
			fmt.Fprintf(&b, "%s  %s: %s  %s\n", rule.GetId(), holds, visible.Escape(rule.GetRule()), visible.Escape(rule.GetWhyNot()))
		}
		b.WriteString("/permissions forget ID takes one back; symbio permissions check TOOL says what decides")
		t.view.page("Permissions", b.String())
	})
}

func listSkills(ctx context.Context, t *conversation, _ string) error {
	return call(ctx, t, func(ctx context.Context, c symbiov1.ControlClient) (*symbiov1.SkillsReply, error) {
		return c.Skills(ctx, &symbiov1.SkillsRequest{})
	}, func(r *symbiov1.SkillsReply) {
		var b strings.Builder
		for _, s := range r.GetSkills() {
			state := "on "
			if !s.GetEnabled() {
				state = "off"
			}
			fmt.Fprintf(&b, "%s %s  %s\n", state, s.GetName(), visible.TruncateRunes(terminal.Printable(s.GetDescription()), 200))
		}
		t.view.page("Skills", cmp.Or(b.String(), "there are no skills here"))
	})
}

func listMCP(ctx context.Context, t *conversation, _ string) error {
	if t.root == "" {
		t.view.note("the tools are known when the agent has begun: send a message first")
		return nil
	}
	return call(ctx, t, func(ctx context.Context, c symbiov1.ControlClient) (*symbiov1.InspectReply, error) {
		return c.Inspect(ctx, &symbiov1.InspectRequest{Member: t.root})
	}, func(r *symbiov1.InspectReply) {
		var b strings.Builder
		for _, p := range r.GetParts() {
			if strings.HasPrefix(p.GetName(), "mcp__") && p.GetKind() == "tool" {
				fmt.Fprintf(&b, "%s  %s\n", terminal.Printable(p.GetName()), visible.Plural(int(p.GetTokens()), "token"))
			}
		}
		t.view.page("Tools of MCP servers", cmp.Or(b.String(), "the agent has no tools of MCP servers; symbio mcp list shows the servers"))
	})
}

// listMembers shows the members of all nodes to the terminal, for its tree of agents.
func listMembers(ctx context.Context, t *conversation) {
	_ = call(ctx, t, func(ctx context.Context, c symbiov1.ControlClient) (*symbiov1.MembersReply, error) {
		return c.Members(ctx, &symbiov1.MembersRequest{})
	}, func(r *symbiov1.MembersReply) { t.term.Show(Members(r.GetMembers())) })
}

// steerTimeout is how long the node waits until an agent has got a text.
const steerTimeout = 30 * time.Second

// steerMember says a text to another agent, here or on another node, and notes what became of it.
func steerMember(ctx context.Context, t *conversation, member, text string) {
	_ = call(ctx, t, func(ctx context.Context, c symbiov1.ControlClient) (*symbiov1.SteerReply, error) {
		return c.Steer(ctx, &symbiov1.SteerRequest{Member: member, Text: text, Timeout: durationpb.New(steerTimeout)})
	}, func(r *symbiov1.SteerReply) {
		t.view.note(strings.TrimSpace(fmt.Sprintf("%s to %s on %s: %s  %s", r.GetOutcome(), terminal.Printable(r.GetName()),
			terminal.Printable(r.GetNodeName()), visible.TruncateRunes(FirstLine(text), 60), terminal.Printable(r.GetWhy()))))
	})
}

// stopMember ends an agent of this node and its sub-agents.
func stopMember(ctx context.Context, t *conversation, member string) {
	_ = call(ctx, t, func(ctx context.Context, c symbiov1.ControlClient) (*symbiov1.LocatedMember, error) {
		return c.Terminate(ctx, &symbiov1.TerminateRequest{Member: member})
	}, func(m *symbiov1.LocatedMember) { t.view.note("stopped " + terminal.Printable(m.GetName())) })
}

// listSessions lists the sessions of this directory. On a terminal one of them can be chosen.
func listSessions(ctx context.Context, t *conversation, _ string) error {
	dir, err := t.env.Workspace()
	if err != nil {
		return err
	}
	all, err := t.env.Sessions().List(ctx, session.Filter{Dir: dir, Roots: true, Limit: 100})
	if err != nil {
		t.view.problem(err.Error())
		return nil
	}
	all = slices.DeleteFunc(all, func(i session.Info) bool {
		return i.Title == "" || i.Keep || i.Requester != "" || i.Node != t.session.node || i.ID == t.session.id
	})
	return showSessions(t, command.Map(all, func(i session.Info) SessionChoice {
		return SessionChoice{ID: i.ID, Title: i.Title, When: i.Updated.Local().Format("2006-01-02 15:04")}
	}))
}

func showSessions(t *conversation, found Sessions) error {
	switch {
	case len(found) == 0:
		t.view.note("node " + terminal.Printable(t.session.node) + " has no other session of this directory")
	case t.term != nil:
		t.term.Show(found)
	default:
		for _, c := range found {
			t.view.note(c.ID + "  " + c.When + "  " + terminal.Printable(c.Title))
		}
	}
	return nil
}

// exportSession writes the session as Markdown into a new file, for the user alone. It replaces no file.
func exportSession(ctx context.Context, t *conversation, file string) error {
	id := t.session.id
	if id == "" || t.session.tasks == 0 || t.options.Export == nil {
		t.view.note("nothing is kept of this conversation yet")
		return nil
	}
	file = cmp.Or(file, "symbio-"+id+".md")
	inBackground(ctx, t, func() func() error {
		text, err := t.options.Export(ctx, t.env, id)
		if err == nil {
			err = private.Create(file, []byte(text))
		}
		return func() error {
			if err != nil {
				t.view.problem("not exported: " + err.Error())
			} else {
				t.view.note(fmt.Sprintf("session %s is in %s, %s", id, terminal.Printable(file), visible.Plural(strings.Count(text, "\n"), "line")))
			}
			return nil
		}
	})
	return nil
}

// resumeSession goes on with another session of the same node, over a link of its own. The one before
// stays as it is.
func resumeSession(ctx context.Context, t *conversation, id string) error {
	switch {
	case id == "":
		return listSessions(ctx, t, "")
	case t.busy():
		t.view.note("an answer is being written; stop it first with Ctrl-C")
		return nil
	}
	req := t.redialer.request(id)
	var first event.Event
	return call(ctx, t, func(ctx context.Context, c symbiov1.ControlClient) (*link, error) {
		l, err := openLink(ctx, c, req)
		if err != nil {
			return nil, err
		}
		if first, err = control.Receive(l.stream.Recv); err != nil { // it does not begin, and the one before goes on
			l.close()
		}
		return l, err
	}, func(l *link) {
		if t.busy() { // by what was typed meanwhile
			l.close()
			t.view.note("an answer is being written; stop it first with Ctrl-C")
			return
		}
		t.link.close()
		t.redialer.group.Go(func() error {
			l.receive(ctx, first)
			return nil
		})
		t.link, t.session = l, sessionRef{resumed: true, keep: t.options.Keep}
		t.add(resumedTask) // the node says whether one goes on
		t.view.newAgent()
	})
}
