package demo

import (
	"context"
	"encoding/json"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The MCP server of the tour, and its one tool.
const (
	serverName = "reports"
	renderTool = "render"
)

// maxSurvey bounds what the server reads at a time, in bytes: more than a node's largest message.
const maxSurvey = 16 << 20

// Serve is an MCP server with one tool, render, over in and out, as MCP's stdio transport has it. It returns when in ends
// or ctx does.
func Serve(ctx context.Context, in io.Reader, out io.Writer, version string) error {
	s := sdk.NewServer(&sdk.Implementation{Name: serverName, Version: version}, nil)
	sdk.AddTool(s, &sdk.Tool{
		Name: renderTool, Description: "Renders a survey as a Markdown report.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true},
	}, func(_ context.Context, _ *sdk.CallToolRequest, survey Survey) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: Render(survey)}}}, nil, nil
	})
	return s.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: nopCloser{out}, MaxLineLength: maxSurvey})
}

// nopCloser is a writer that need not be closed.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// mcpConfig is the list of MCP servers of the node that has it: this program.
func mcpConfig(self string) ([]byte, error) {
	type entry = map[string]any
	return json.Marshal(entry{"mcpServers": entry{serverName: entry{
		"command": self, "args": []string{"serve-reports"},
		// It is this program itself, and the tour is to work where nothing holds a command.
		"sandbox": entry{"preset": "off"},
	}}})
}
