package demo

import (
	"context"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxSurvey bounds one message to the server, in bytes. It is larger than the largest message
// between nodes, so that any survey that arrives can be rendered.
const maxSurvey = 16 << 20

// Serve runs an MCP server with the one tool render on in and out, as the stdio transport of MCP
// has it. It blocks until in ends, then it returns nil, or until ctx does.
func Serve(ctx context.Context, in io.Reader, out io.Writer, version string) error {
	s := sdk.NewServer(&sdk.Implementation{Name: "reports", Version: version}, nil)
	sdk.AddTool(s, &sdk.Tool{
		Name: "render", Description: "Renders a survey as a Markdown report.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true},
	}, func(_ context.Context, _ *sdk.CallToolRequest, survey Survey) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: Render(survey)}}}, nil, nil
	})
	return s.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: nopCloser{out}, MaxLineLength: maxSurvey})
}

// nopCloser gives a writer the Close method that the transport needs. Standard output is not
// closed.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
