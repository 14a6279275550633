package chat

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"

	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
)

func (n *fakeNode) Prompts(context.Context, *symbiov1.PromptsRequest, ...grpc.CallOption) (*symbiov1.PromptsReply, error) {
	return &symbiov1.PromptsReply{Prompts: n.prompts}, nil
}

func (n *fakeNode) Skills(context.Context, *symbiov1.SkillsRequest, ...grpc.CallOption) (*symbiov1.SkillsReply, error) {
	return &symbiov1.SkillsReply{}, nil
}

func (n *fakeNode) Rules(context.Context, *symbiov1.RulesRequest, ...grpc.CallOption) (*symbiov1.RulesReply, error) {
	return &symbiov1.RulesReply{Rules: []*symbiov1.LastingRule{{Id: "abcdef", Rule: "Write(./*)", Session: true}, {Id: "012345", Rule: "Bash(make:*)", WhyNot: "changed"}}}, nil
}

func (n *fakeNode) Forget(_ context.Context, r *symbiov1.ForgetRequest, _ ...grpc.CallOption) (*symbiov1.ForgetReply, error) {
	n.forgotten = append(n.forgotten, r.GetId())
	return &symbiov1.ForgetReply{}, nil
}

// fakeTerminal is a terminal at which a test types.
type fakeTerminal struct {
	inputs   chan Input
	commands []string
	notes    []string
}

func (f *fakeTerminal) Show(message any) {
	switch m := message.(type) {
	case Prompts:
		f.commands = command.Map(m, func(c Command) string { return c.Name + " " + c.Args })
	case Page:
		f.notes = append(f.notes, m.Text)
	case Note:
		f.notes = append(f.notes, m.Text)
	}
}

func (f *fakeTerminal) Inputs() <-chan Input { return f.inputs }
func (f *fakeTerminal) Close() error         { return nil }

func TestPermissionsAreShownAndTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, f := &fakeNode{}, &fakeTerminal{inputs: make(chan Input)}
		_, _, _, over := chatOn(t, n, Options{Keep: true, Open: func(context.Context, *command.Env, []Command) (Terminal, error) { return f, nil }}, &symbiov1.RunRequest{})
		synctest.Wait()
		for _, text := range []string{"/permissions", "/permissions forget abcdef"} {
			f.inputs <- Input{Text: text}
			synctest.Wait()
		}
		f.inputs <- Input{End: true}
		if err := <-over; err != nil {
			t.Error(err)
		}
		shown := strings.Join(f.notes, "\n")
		for _, want := range []string{"2 rules that you have allowed", "abcdef  for the session: Write(./*)", "012345  from now on: Bash(make:*)  changed", "it is asked about again"} {
			if !strings.Contains(shown, want) {
				t.Errorf("%q is missing in %q", want, shown)
			}
		}
		if !slices.Equal(n.forgotten, []string{"abcdef"}) {
			t.Errorf("taken back are %q", n.forgotten)
		}
	})
}

func TestSkillIsCommandUnlessBuiltinHasItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{prompts: []*symbiov1.MCPPrompt{
			{Command: "notes", Name: "notes", Arguments: []*symbiov1.MCPArgument{{Name: "[file]"}}},
			{Command: "cost", Name: "cost"},
		}}
		f := &fakeTerminal{inputs: make(chan Input)}
		_, _, _, over := chatOn(t, n, Options{Keep: true, Open: func(context.Context, *command.Env, []Command) (Terminal, error) { return f, nil }}, &symbiov1.RunRequest{})
		synctest.Wait()
		for _, text := range []string{"/cost", "/notes a 'b c'", "/note x"} {
			f.inputs <- Input{Text: text}
			synctest.Wait()
			if text == "/notes a 'b c'" {
				n.emit("result", `{"tasks":1,"text":"1","status":"done"}`)
			}
		}
		if want := []string{"notes [file] "}; !slices.Equal(f.commands, want) {
			t.Errorf("commands %q, want %q", f.commands, want)
		}
		if want := []string{"$notes a 'b c'"}; !slices.Equal(n.sent, want) {
			t.Errorf("sent %q, want %q", n.sent, want)
		}
		if want := `no command /note; did you mean "notes"?; /help lists the commands, and //note is a message`; !slices.Contains(f.notes, want) {
			t.Errorf("notes %q, want %q", f.notes, want)
		}
		f.inputs <- Input{End: true}
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}
