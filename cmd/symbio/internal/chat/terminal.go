package chat

import (
	"context"
	"slices"

	"symbio/agent/llm"
	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
)

// Terminal is a terminal at which a person types while the conversation is drawn. Package tui has it.
// The conversation goes without one through pipes, with --json and on a dumb terminal.
type Terminal interface {
	// Show draws an event.Event, or one of the other types of this file. It is called by one
	// goroutine.
	Show(message any)
	// Inputs has what the person does. It is closed when the terminal is gone.
	Inputs() <-chan Input
	// Close restores the terminal and returns when all was drawn.
	Close() error
}

// TerminalOpener opens a Terminal on the streams of env.
type TerminalOpener func(ctx context.Context, env *command.Env, commands []Command) (Terminal, error)

// The messages to a Terminal, beside events.
type (
	// Note is a remark in a line, dim, or a problem in red.
	Note struct {
		Text string
		Bad  bool
	}
	// Text is a text of several lines.
	Text string
	// Echo is a message of the person.
	Echo string
	// Memory is what the agent remembers: messages that are opened, as they were shown when they came.
	Memory struct {
		Title    string
		Messages []llm.Message
	}
	// Page is a text that is opened above the conversation, until the person closes it.
	Page struct{ Title, Text string }
	// Questions are the approvals that wait here, the one to be answered first in front.
	Questions []Question
	// Approvals are the decisions that wait on all nodes. They are opened as a list.
	Approvals []*symbiov1.Approval
	// Sessions are the conversations to go on with. They are opened as a list.
	Sessions []SessionChoice
	// Members are the agents of all nodes, for the tree.
	Members []*symbiov1.LocatedMember
	// OpenAgents opens the tree of agents, OpenDiffs the edits of the conversation, OpenTranscript all
	// that was shown.
	OpenAgents     struct{}
	OpenDiffs      struct{}
	OpenTranscript struct{}
	// Skills are the names of the skills, Prompts the commands of skills and of the prompts of MCP
	// servers, for completion. Draft is a text to be looked at and sent by the person.
	Skills  []string
	Prompts []Command
	Draft   string
	// NewAgent says that the events that follow are of another agent.
	NewAgent struct{}
	// State is what the conversation is doing.
	State struct {
		// Busy is true while an answer is not complete. Stopping is true after an interrupt.
		Busy, Stopping bool
		// Gone is true while the node is not reachable.
		Gone bool
		// Closing is true when no more messages are sent.
		Closing bool
		// Unsent is true if Enter in an empty line sends a text that was kept.
		Unsent bool
		// Node is the name of the node, Session the id of the session.
		Node, Session string
	}
)

// SessionChoice is a session in a list.
type SessionChoice struct{ ID, Title, When string }

// Input is one thing that the person does. The first of its fields that is set counts; the zero Input
// with End unset is an empty message.
type Input struct {
	// Interrupt is Ctrl-C. End is Ctrl-D, or a terminal that is gone.
	Interrupt, End bool
	// Answer is the answer to an approval.
	Answer *symbiov1.AnswerRequest
	// Settings changes the conversation's settings.
	Settings *symbiov1.ChangeSettings
	// Members asks for a message Members.
	Members bool
	// Stop is the id of an agent that is to end, with its sub-agents.
	Stop string
	// Steer is the id of the agent to which Text is said; "" = the conversation's own.
	Steer string
	// Text is a message or a command, and Pictures belong to it.
	Text     string
	Pictures []*symbiov1.Picture
}

// terminalState is the terminal at which a person types: its inputs, nil where whole lines are read instead, and what it shows.
type terminalState struct {
	inputs <-chan Input
	// state and questions are the state and the ids that it shows.
	state     State
	questions []string
}

// show shows the state and the open questions if they have changed.
func (d *terminalState) show(term Terminal, s State, open []Question) {
	if s != d.state {
		d.state = s
		term.Show(s)
	}
	ids := command.Map(open, func(q Question) string { return q.ID })
	if !slices.Equal(ids, d.questions) {
		d.questions = ids
		term.Show(Questions(slices.Clone(open)))
	}
}

// openTerminal opens the terminal of the conversation, if a person types at one that can be drawn to.
func openTerminal(ctx context.Context, t *conversation) (err error) {
	if t.options.Open == nil || !t.input.foreground || t.view.screen == nil || t.env.Getenv("TERM") == "dumb" {
		return nil
	}
	t.view.term, err = t.options.Open(ctx, t.env, commands())
	if err == nil && t.view.term != nil {
		t.terminal.inputs = t.view.term.Inputs()
		_ = call(ctx, &t.background, symbiov1.ControlClient.Prompts, &symbiov1.PromptsRequest{}, func(r *symbiov1.PromptsReply) {
			t.agent.prompts = withoutBuiltin(r.GetPrompts())
			t.view.term.Show(Prompts(command.Map(t.agent.prompts, promptCommand)))
		})
		return call(ctx, &t.background, symbiov1.ControlClient.Skills, &symbiov1.SkillsRequest{}, func(r *symbiov1.SkillsReply) {
			t.view.term.Show(Skills(command.Map(r.GetSkills(), (*symbiov1.Skill).GetName)))
		})
	}
	return err
}

// handleInput handles what the person does at the terminal. ok is false when the terminal is gone,
// which ends the conversation.
func (t *conversation) handleInput(ctx context.Context, in Input, ok bool) error {
	switch {
	case !ok:
		t.terminal.inputs = nil
		return t.abort()
	case in.Interrupt:
		return t.stop()
	case in.End && t.session.gone:
		return t.session.goneError()
	case in.End && t.shutdown.patch.asked:
		return t.submit(ctx, "no")
	case in.End:
		t.input.ended = true
		t.closeWhenDone()
	case in.Answer != nil:
		return t.unlessGone(t.questions.send(ctx, in.Answer)) // it may wait on another node
	case in.Members:
		t.background.listMembers(ctx)
	case in.Stop != "":
		t.background.stopMember(ctx, in.Stop)
	case t.session.gone && in.Text == "":
		t.view.note("not now: the node is gone")
	case t.session.gone:
		t.view.term.Show(Draft(in.Text)) // the terminal has emptied its input
		t.view.note("the text stays here until the node is back")
	case in.Settings != nil:
		return t.link.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Settings{Settings: in.Settings}})
	case in.Steer != "":
		t.background.steerMember(ctx, in.Steer, in.Text)
	default:
		t.outbox.pictures = append(t.outbox.pictures, in.Pictures...)
		return t.submit(ctx, in.Text)
	}
	return nil
}
