package conversation_test

import (
	"context"
	"fmt"

	"symbio/agent/conversation"
	"symbio/agent/llm"
)

// The examples of the spec. Their models are functions, so that no key is needed.

// describing is a model that says what it was asked with, after its name.
func describing(name string) llm.Model {
	return llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		text := fmt.Sprintf("%s %q: %d messages, the last is %q", name, r.System, len(r.Messages), r.Messages[len(r.Messages)-1].Text)
		return llm.Response{Message: llm.Message{Text: text}}, nil
	})
}

// after is a model that answers when done is closed.
func after(done <-chan struct{}) llm.Model {
	return llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
		select {
		case <-done:
		case <-ctx.Done():
		}
		return llm.Response{Message: llm.Message{Text: "re: " + r.Messages[len(r.Messages)-1].Text}}, ctx.Err()
	})
}

func ExampleNew() {
	c := conversation.New(conversation.Config{Model: describing("model"), Tools: tools(), Instructions: "You are a helpful assistant."})
	reply, err := c.Send(context.Background(), "Hello!")
	fmt.Println(reply.Text, err)
	// Output: model "You are a helpful assistant.": 1 messages, the last is "Hello!" <nil>
}

// A function of the program makes the session with which a conversation goes on from a transcript.
func ExampleConfig_newSession() {
	newSession := func(s conversation.Session) conversation.Session {
		s.Model, s.Tools, s.Instructions = describing("small"), tools(), "Be brief."
		return s
	}
	c := conversation.New(conversation.Config{Model: describing("large"), Instructions: "Be thorough.", NewSession: newSession})
	first, err := c.Send(context.Background(), "Read it.")
	fmt.Println(first.Text, err)
	fmt.Println(c.Replace([]llm.Message{{Role: llm.User, Text: "What was read."}, {Role: llm.Assistant, Text: "Yes."}}))
	second, err := c.Send(context.Background(), "Go on.")
	fmt.Println(second.Text, err)
	// Output:
	// large "Be thorough.": 1 messages, the last is "Read it." <nil>
	// <nil>
	// small "Be brief.": 3 messages, the last is "Go on." <nil>
}

// Messages wait for their turn. One whose context ends leaves the queue.
func ExampleConversation_Send() {
	ctx, cancel := context.WithCancel(context.Background())
	c := conversation.New(conversation.Config{Model: after(ctx.Done())})
	first, second, third := send(context.Background(), c, "First"), send(context.Background(), c, "Second"), send(ctx, c, "Will be cancelled")
	cancel()
	fmt.Println(first())
	fmt.Println(second())
	fmt.Println(third())
	// Output:
	// re: First <nil>
	// re: Second <nil>
	//  context canceled
}

func ExampleConversation_Steer() {
	c := conversation.New(conversation.Config{Model: describing("model")})
	fmt.Println(c.Steer("Use async/await"), c.Steer("Add error handling"), c.PendingSteering())
	reply, err := c.Send(context.Background(), "Write a function...")
	fmt.Println(reply.Text, err)
	// Output:
	// <nil> <nil> 2
	// model "": 1 messages, the last is "Use async/await\n\nAdd error handling\n\nWrite a function..." <nil>
}

// A message in flight ends with the old history; the next has the new one.
func ExampleConversation_Replace() {
	c := conversation.New(conversation.Config{Model: describing("model")})
	compacted := []llm.Message{{Role: llm.User, Text: "In short: the tides."}, {Role: llm.Assistant, Text: "Yes."}}
	fmt.Println(c.Replace(compacted))
	reply, err := c.Send(context.Background(), "Go on.")
	fmt.Println(reply.Text, err)
	// Output:
	// <nil>
	// model "": 3 messages, the last is "Go on." <nil>
}
