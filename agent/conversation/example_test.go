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
