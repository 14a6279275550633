package demo_test

import (
	"context"
	"io"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"symbio/cmd/symbio/internal/demo"
)

// connect is a client of a server that ends with the test.
func connect(t *testing.T) *sdk.ClientSession {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	theirIn, ourOut := io.Pipe()
	ourIn, theirOut := io.Pipe()
	var g errgroup.Group
	g.Go(func() error { return demo.Serve(ctx, theirIn, theirOut, "test") })
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(ctx, &sdk.IOTransport{Reader: ourIn, Writer: ourOut}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
		if err := g.Wait(); err != nil {
			t.Errorf("the server: %v", err)
		}
		cancel()
	})
	return c
}

func TestServerRendersASurvey(t *testing.T) {
	c := connect(t)
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "render", Arguments: map[string]any{
		"dir": "x", "note": "The largest part is <b>.",
		"parts": []any{
			map[string]any{"part": "b", "what": "it | is", "files": 2, "lines": 30, "todos": 1, "kinds": []any{map[string]any{"kind": ".go", "files": 2, "lines": 30}}},
			map[string]any{"part": "a", "error": "not there"},
		},
	}})
	if err != nil || r.IsError {
		t.Fatalf("render: %v, %+v", err, r)
	}
	text := r.Content[0].(*sdk.TextContent).Text
	for _, want := range []string{
		"2 files, 30 lines, 1 line with TODO or FIXME, in 2 parts.\n\nThe largest part is &lt;b>.\n",
		"| a | not surveyed: not there | 0 | 0 | 0 |\n| b | it \\| is | 2 | 30 | 1 |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
}

func TestServerRejectsInvalidSurvey(t *testing.T) {
	c := connect(t)
	for name, args := range map[string]any{"no parts": map[string]any{"dir": "x"}, "a number": map[string]any{"dir": 1, "parts": []any{}}} {
		if r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "render", Arguments: args}); err == nil && !r.IsError {
			t.Errorf("%s: it was rendered: %+v", name, r.Content)
		}
	}
}
