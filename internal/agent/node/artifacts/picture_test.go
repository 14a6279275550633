package artifacts_test

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/internal/agent/content"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// What one agent of a tree was shown, another one reads: a picture as a picture, a long line in pieces.
func TestSubAgentReadsWhatItsParentWasGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var picture bytes.Buffer
		if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
			t.Fatal(err)
		}
		line := strings.Repeat("é", 50_000) + " the end"
		both := tool.New(tool.Spec{Name: "both", Description: "both"}, func(context.Context, struct{}) tool.Result {
			return tool.Result{Text: line, Images: []llm.Image{{Data: picture.Bytes()}}}
		})
		var shown []llm.ToolResult
		m := func(r llm.Request) llm.Message {
			last := r.Messages[len(r.Messages)-1]
			switch {
			case last.Role == llm.User && last.Text == "go":
				return use("both", struct{}{})
			case last.Role == llm.User: // a sub-agent
				return use("Read", map[string]any{"file_path": last.Text, "offset": 50})
			case last.Results[0].Name == "both":
				text := last.Results[0].Text
				if !strings.Contains(text, "[picture 1 of both: ") || len(text) > 66<<10 {
					t.Errorf("the model got %.200q … %q", text, text[max(0, len(text)-400):])
				}
				call := func(id string, h content.Hash) llm.ToolCall {
					c := use("replicate_agent", map[string]any{"reason": "it is to read", "task": tool.ArtifactPrefix + h.String()}).Calls[0]
					c.ID = id
					return c
				}
				return llm.Message{Calls: []llm.ToolCall{call("1", content.Sum(picture.Bytes())), call("2", content.Sum([]byte(line)))}}
			case last.Results[0].Name == "replicate_agent":
				return use("wait_agents", map[string]any{})
			case last.Results[0].Name == "Read":
				shown = append(shown, last.Results[0])
			}
			return llm.Message{Text: "done"}
		}
		p := newPlace(t, grpcpeertest.NewLAN(t, grpcpeertest.Config{}), "ann", m, both)
		p.task(t, "go", "both", "replicate_agent", "wait_agents")
		if len(shown) != 2 {
			t.Fatalf("the sub-agents read %v", shown)
		}
		if len(shown[0].Images) == 0 {
			shown[0], shown[1] = shown[1], shown[0]
		}
		if len(shown[0].Images) != 1 || !bytes.Equal(shown[0].Images[0].Data, picture.Bytes()) {
			t.Errorf("the picture is shown as %.200q", shown[0].Text)
		}
		if text := shown[1].Text; !strings.HasSuffix(strings.TrimSpace(text), "the end") || strings.Contains(text, "\uFFFD") || !strings.Contains(text, "    50\té") {
			t.Errorf("the long line ends with %q", text[max(0, len(text)-100):])
		}
	})
}
