package conversation_test

import (
	"context"
	"fmt"
	"strings"

	"symbio/agent/conversation"
	"symbio/agent/llm"
)

func Example() {
	model := llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		said := r.Messages[len(r.Messages)-1].Text
		return llm.Response{Message: llm.Message{Text: strings.ToUpper(said)}}, nil
	})
	c := conversation.New(conversation.Config{Model: model, Instructions: "You shout."})
	if err := c.Steer("Be brief."); err != nil {
		fmt.Println(err)
	}
	reply, err := c.Send(context.Background(), "Say hello.")
	fmt.Printf("%q %v\n", reply.Text, err)
	for _, m := range c.Transcript() {
		fmt.Printf("%s: %q\n", m.Role, m.Text)
	}
	// Output:
	// "BE BRIEF.\n\nSAY HELLO." <nil>
	// user: "Be brief.\n\nSay hello."
	// assistant: "BE BRIEF.\n\nSAY HELLO."
}

func ExampleConversation_Inspect() {
	model := llm.Func(func(context.Context, llm.Request) (llm.Response, error) {
		return llm.Response{Message: llm.Message{Text: "Hello."}}, nil
	})
	c := conversation.New(conversation.Config{Model: model, Instructions: "You are polite."})
	if _, err := c.Send(context.Background(), "Say hello."); err != nil {
		fmt.Println(err)
	}
	for _, s := range c.Inspect() {
		fmt.Println(s.Kind, s.Name, s.Count, s.Bytes, s.Tokens)
	}
	// Output:
	// system instructions 1 15 5
	// history user 1 10 11
}

func ExampleConversation_Replace() {
	model := func(name string) llm.Model {
		return llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
			text := fmt.Sprintf("%s, %s, %d messages", name, r.System, len(r.Messages))
			return llm.Response{Message: llm.Message{Text: text}}, nil
		})
	}
	c := conversation.New(conversation.Config{Model: model("large"), Instructions: "at length",
		NewSession: func(s conversation.Session) conversation.Session {
			s.Model, s.Instructions = model("small"), "in brief"
			return s
		}})
	first, err := c.Send(context.Background(), "Read all of it.")
	fmt.Println(first.Text, err)
	fmt.Println(c.Replace([]llm.Message{{Role: llm.User, Text: "What was read."}, {Role: llm.Assistant, Text: "Yes."}}))
	second, err := c.Send(context.Background(), "Go on.")
	fmt.Println(second.Text, err)
	// Output:
	// large, at length, 1 messages <nil>
	// <nil>
	// small, in brief, 3 messages <nil>
}
