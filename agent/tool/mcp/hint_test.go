package mcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/tool/mcp"
)

func TestHintOfAServerMakesItsToolReadOnly(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "files"}, nil)
	for name, hints := range map[string]*sdk.ToolAnnotations{"read": {ReadOnlyHint: true}, "write": {}, "silent": nil} {
		sdk.AddTool(server, &sdk.Tool{Name: name, Annotations: hints},
			func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
				return &sdk.CallToolResult{}, nil, nil
			})
	}
	there := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true}))
	defer there.Close()
	file := filepath.Join(t.TempDir(), ".mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"files": {"url": "`+there.URL+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	servers, err := mcp.Load(file, mcp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close()
	tools, err := servers.AllTools(t.Context())
	if err != nil || len(tools) != 3 {
		t.Fatalf("%d tools, %v", len(tools), err)
	}
	for _, one := range tools {
		inv, err := one.Decode([]byte(`{}`))
		if want := one.Spec().Name == "mcp__files__read"; err != nil || inv.ReadOnly != want {
			t.Errorf("%s: read-only is %v, %v", one.Spec().Name, inv.ReadOnly, err)
		}
	}
}
