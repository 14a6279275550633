package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/tool"
	"symbio/agent/tool/mcp"
	"symbio/security/permission"
)

// weather is an MCP server with one tool.
func weather() *httptest.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "weather"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "forecast"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{}, nil, nil
	})
	return httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
}

// weatherFile writes a file that names the server. The caller must call stop.
func weatherFile() (file, url string, stop func()) {
	there := weather()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	file = filepath.Join(dir, ".mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"weather": {"url": "`+there.URL+`"}}}`), 0o600); err != nil {
		panic(err)
	}
	return file, there.URL, func() { there.Close(); _ = os.RemoveAll(dir) }
}

// The servers of a file, and one that the program names itself.
func ExampleLoad() {
	file, url, stop := weatherFile()
	defer stop()
	servers, err := mcp.Load(file, mcp.Config{Servers: []mcp.Server{{Name: "github", Type: mcp.HTTP, URL: url}}})
	if err != nil {
		panic(err)
	}
	defer servers.Close()
	tools, err := servers.AllTools(context.Background())
	fmt.Println(tool.NewSet(tool.SetConfig{}, tools...).Names(), err)
	one, err := servers.ToolsOf(context.Background(), "github")
	fmt.Println(one[0].Spec().Name, err)
	policy, err := permission.Config{Preset: "none", Allow: permission.Rules("mcp__github__*")}.Policy()
	fmt.Println(policy.Allow, err)
	// Output:
	// [mcp__github__forecast mcp__weather__forecast] <nil>
	// mcp__github__forecast <nil>
	// [mcp__github__*] <nil>
}
