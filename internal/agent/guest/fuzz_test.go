package guest_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/coder/acp-go-sdk"

	"symbio/security/permission"
)

// Whatever a program sends between two words of its answer, the task ends with its answer or with an error.
func FuzzMessagesOfAProgram(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","status":"completed"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c","rawInput":{"command":"rm -rf /"}},"options":[]}}`,
		`{"jsonrpc":"2.0","id":"x","method":"fs/read_text_file","params":{"sessionId":"s1","path":"../x"}}`,
		`{"jsonrpc":"2.0","id":null,"method":"terminal/create","params":{"sessionId":"s1","command":"rm"}}`,
		`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`,
		`{"id":{},"method":"terminal/output"}` + "\n" + `[1,2`, "\x00\xff\n\n{}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		var at *place
		p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
			_, _ = io.Copy(at.host.out, bytes.NewReader(append(bytes.Clone(sent), '\n')))
			p.say(ctx, "done")
			return end, nil
		}}
		at = newPlace(t, permission.Config{Preset: "none"}, p)
		_, _ = at.Send(t.Context(), "go")
		if len(at.asked) > 8 {
			t.Errorf("%d questions", len(at.asked))
		}
	})
}
