package chat

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"symbio/agent/event"
	"symbio/agent/session"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/agent/node/control"
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
			t.view.page("Commands and keys", conversationHelp(t.view.term != nil))
			return nil
		}},
		{"next", "TEXT", "send a message after this answer", func(_ context.Context, t *conversation, text string) error {
			if text == "" {
				t.view.note("/next needs a text: /next TEXT")
				return nil
			}
			return t.sendMessage(text)
		}},
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
			t.undo.ask(ctx, t.session.id, args)
			return nil
		}},
		{"export", "[FILE]", "write this session as Markdown into a new file", func(ctx context.Context, t *conversation, file string) error {
			t.background.export(ctx, t.session, file, t.options.Export)
			return nil
		}},
		{"diff", "", "show the edits of this conversation", func(_ context.Context, t *conversation, _ string) error { t.view.open(OpenDiffs{}); return nil }},
		{"transcript", "", "show what the agent remembers", func(_ context.Context, t *conversation, _ string) error {
			return t.link.askTranscript()
		}},
		{"agents", "", "show the agents of this and other nodes; Ctrl-T", func(_ context.Context, t *conversation, _ string) error { t.view.open(OpenAgents{}); return nil }},
		{"approvals", "", "show the decisions that wait, also on other nodes", func(ctx context.Context, t *conversation, _ string) error {
			return t.background.listApprovals(ctx)
		}},
		{"permissions", "[forget ID]", "show what you have allowed, or take one back", func(ctx context.Context, t *conversation, args string) error {
			return t.background.listRules(ctx, args, t.agent.settings.Mode)
		}},
		{"skills", "", "list the skills; /NAME starts one, $NAME names one", func(ctx context.Context, t *conversation, _ string) error {
			return t.background.listSkills(ctx)
		}},
		{"mcp", "", "list the tools of MCP servers", func(ctx context.Context, t *conversation, _ string) error {
			return t.background.listMCP(ctx, t.agent.root)
		}},
		{"cost", "", "show what was spent", func(_ context.Context, t *conversation, _ string) error {
			t.view.note(cmp.Or(t.agent.spent, "nothing was spent yet"))
			return nil
		}},
		{"exit", "", "leave; the same as Ctrl-D, or Ctrl-C twice", func(_ context.Context, t *conversation, _ string) error {
			if t.input.ended = true; t.shutdown.patch.latest != nil && !t.outbox.busy() {
				t.closeWhenDone()
				return nil
			}
			return t.abort()
		}},
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
	for _, p := range t.agent.prompts {
		switch {
		case p.GetCommand() != name:
		case p.GetServer() == "":
			return t.sendMessage("$" + name + " " + args)
		default:
			return t.background.fillPrompt(ctx, p, args)
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

// change asks the node to change a setting. The event "settings" says what is in force then.
func change(t *conversation, name, value string, to *symbiov1.ChangeSettings) error {
	if value == "" {
		t.view.note(fmt.Sprintf("/%s needs a value; now: %s", name, cmp.Or(map[string]string{"model": t.agent.settings.Model,
			"effort": t.agent.settings.Effort, "mode": t.agent.settings.Mode}[name], "as configured")))
		return nil
	}
	return t.link.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Settings{Settings: to}})
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
	t.view.sessions(t.session.node, command.Map(all, func(i session.Info) SessionChoice {
		return SessionChoice{ID: i.ID, Title: i.Title, When: i.Updated.Local().Format("2006-01-02 15:04")}
	}))
	return nil
}

// resumeSession goes on with another session of the same node, over a link of its own. The one before
// stays as it is.
func resumeSession(ctx context.Context, t *conversation, id string) error {
	switch {
	case id == "":
		return listSessions(ctx, t, "")
	case t.outbox.busy():
		t.view.note("an answer is being written; stop it first with Ctrl-C")
		return nil
	}
	var first event.Event
	return call(ctx, &t.background, func(c symbiov1.ControlClient, ctx context.Context, req *symbiov1.RunRequest, _ ...grpc.CallOption) (*link, error) {
		l, err := openLink(ctx, c, req)
		if err != nil {
			return nil, err
		}
		if first, err = control.Receive(l.stream.Recv); err != nil { // it does not begin, and the one before goes on
			l.close()
		}
		return l, err
	}, t.redialer.request(id), func(l *link) {
		if t.outbox.busy() { // by what was typed meanwhile
			l.close()
			t.view.note("an answer is being written; stop it first with Ctrl-C")
			return
		}
		t.link.close()
		t.background.group.Go(func() error {
			l.receive(ctx, first)
			return nil
		})
		t.setLink(l)
		t.session = sessionRef{resumed: true, keep: t.options.Keep}
		t.outbox.add(resumedTask) // the node says whether one goes on
		t.view.newAgent()
	})
}
