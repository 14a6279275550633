package llmtest_test

import (
	"context"
	"slices"
	"testing"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/chat"
)

func TestChatPassesTheSuite(t *testing.T) {
	for name, listens := range map[string]bool{"streamed": true, "not streamed": false} {
		t.Run(name, func(t *testing.T) {
			runSuite(t, func(_ *testing.T, a answer) llm.Model {
				streamed := listens || a.Fault == llm.ErrCut || a.Fault == llm.ErrMalformed // the text before a fault comes by the stream only
				other := chat.Provider{Node: "a", Model: "m", Call: func(ctx context.Context, data []byte, heard func([]byte)) ([]byte, error) {
					return chat.Serve(ctx, answering(a), data, func(line []byte) error {
						for piece := range slices.Chunk(line, 5) {
							if streamed {
								heard(piece)
							}
						}
						return ctx.Err()
					})
				}}
				return chat.New(chat.Config{Name: "peer:m", Find: func() []chat.Provider { return []chat.Provider{other} }})
			})
		})
	}
}
