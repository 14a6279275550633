package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/tool/mcp"
)

// weather is an MCP server with one tool.
func weather() *httptest.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "weather"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "forecast"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{}, nil, nil
	})
	return httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
}

func ExampleLoad() {
	there := weather()
	defer there.Close()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, ".mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"weather": {"url": "`+there.URL+`"}}}`), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	servers, err := mcp.Load(file, mcp.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer servers.Close()
	tools, err := servers.AllTools(context.Background())
	for _, t := range tools {
		fmt.Println(t.Spec().Name)
	}
	fmt.Println(err)
	// Output:
	// mcp__weather__forecast
	// <nil>
}
