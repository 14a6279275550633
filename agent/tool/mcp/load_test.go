package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"a": {"command": "/bin/false", "sandbox": {"network": "full"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	problem := func(cfg Config) string {
		t.Helper()
		m, err := Load(file, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		tools, err := m.AllTools(t.Context())
		if len(tools) > 0 || err == nil {
			t.Fatalf("got %v, %v, want the server's problem", tools, err)
		}
		return err.Error()
	}
	if got := problem(Config{}); !strings.Contains(got, "mcp.Config.Box") {
		t.Errorf("an entry with a sandbox that cannot be read here: got %q", got)
	}
	if got := problem(Config{Trusted: func(Server) bool { return false }}); strings.Contains(got, "mcp.Config.Box") {
		t.Errorf("an entry that is not trusted was started: got %q", got)
	}
	m, err := Load(filepath.Join(t.TempDir(), ".mcp.json"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if tools, err := m.AllTools(t.Context()); len(tools) > 0 || err != nil {
		t.Errorf("without a file: got %v, %v", tools, err)
	}
}
