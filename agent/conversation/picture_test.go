package conversation_test

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"testing"

	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/security/permission"
)

// looked is how many pictures a request shows.
func looked(r llm.Request) (n int) {
	for _, m := range r.Messages {
		n += len(m.Images)
		for _, result := range m.Results {
			n += len(result.Images)
		}
	}
	return n
}

func TestRequestShowsNoMorePicturesThanAModelIsShown(t *testing.T) {
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	picture := llm.Image{Type: "image/png", Data: file.Bytes()}
	for name, show := range map[string]func(t *testing.T, c *conversation.Conversation){
		"in messages": func(t *testing.T, c *conversation.Conversation) {
			if _, err := c.Send(t.Context(), "look", picture); err != nil {
				t.Fatal(err)
			}
		},
		"in results": func(t *testing.T, c *conversation.Conversation) {
			if _, err := c.Send(t.Context(), "draw"); err != nil {
				t.Fatal(err)
			}
		},
		"in another history": func(t *testing.T, c *conversation.Conversation) {
			err := c.Replace(append(c.Transcript(), llm.Message{Role: llm.User, Text: "look", Images: []llm.Image{picture}}, llm.Message{Role: llm.Assistant, Text: "I see."}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Send(t.Context(), "and?"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var k keeper
			rule, err := permission.ParseRule("draw")
			if err != nil {
				t.Fatal(err)
			}
			draw := tool.New(tool.Spec{Name: "draw"}, func(context.Context, struct{}) tool.Result { return tool.Result{Images: []llm.Image{picture}} })
			set := tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Policy: permission.Policy{Allow: []permission.Rule{rule}}}}}, draw)
			c := conversation.New(conversation.Config{Tools: set, Model: k.model(func(_ context.Context, r llm.Request) (llm.Message, error) {
				if lastWords(r) == "draw" && r.Messages[len(r.Messages)-1].Role == llm.User {
					return llm.Message{Calls: []llm.ToolCall{{ID: "c", Name: "draw", Args: []byte(`{}`)}}}, nil
				}
				return say("I see.")
			})})
			most := 0
			for range 2 * llm.MaxImages {
				show(t, c)
				n := looked(k.requests[len(k.requests)-1])
				if n > llm.MaxImages {
					t.Fatalf("%d pictures in a request, want at most %d", n, llm.MaxImages)
				}
				most = max(most, n)
			}
			if most != llm.MaxImages {
				t.Errorf("at most %d pictures were shown, want %d", most, llm.MaxImages)
			}
		})
	}
}

// What is shown behind a message is kept like the message.
func TestPicturesBehindAMessageLast(t *testing.T) {
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	shown := llm.Message{Text: "a picture", Images: []llm.Image{{Type: "image/png", Data: file.Bytes()}}}
	var past entries
	var k keeper
	model := k.model(func(context.Context, llm.Request) (llm.Message, error) { return say("I see.") })
	c := conversation.New(conversation.Config{Model: model, Journal: &past})
	said := conversation.Steering{Text: "see", Keep: true, Taken: func(context.Context) llm.Message { return shown }}
	wantReceipt(t, "what waits", interject(t.Context(), c, said), conversation.Kept, 0, nil)
	_, err := c.SendMessage(t.Context(), conversation.Message{Text: "look", Taken: func(context.Context) (llm.Message, error) { return shown, nil }})
	if err != nil || looked(k.requests[0]) != 2 {
		t.Fatalf("%d pictures are shown, %v", looked(k.requests[0]), err)
	}
	again := conversation.New(conversation.Config{Model: model, Past: past})
	if _, err := again.Send(t.Context(), "and?"); err != nil || looked(k.requests[1]) != 2 {
		t.Errorf("after a restart %d pictures are shown, %v", looked(k.requests[1]), err)
	}
}
