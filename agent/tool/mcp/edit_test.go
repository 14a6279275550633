package mcp_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/agent/tool/mcp"
)

func TestAddAndRemoveKeepTheRestOfFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "mcp.json")
	if err := mcp.Add(file, "one", mcp.NewEntry{Command: "sh", Args: []string{"-c", "a && b"}, Env: map[string]string{"KEY": "${KEY}"}},
		false); err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"mcpServers\": {\n    \"one\": {\"command\":\"sh\",\"args\":[\"-c\",\"a && b\"],\"env\":{\"KEY\":\"${KEY}\"}}\n  }\n}\n"
	if got := read(t, file); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	kept := "{ \"other\": [1,  2],\n\"mcpServers\" : {\"old\":\t{\"command\": \"x\",   \"icon\": 1}}, \"last\": {} }\n"
	if err := os.WriteFile(file, []byte(kept), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := mcp.Add(file, "two", mcp.NewEntry{URL: "https://example.com/mcp?a=1&b=2"}, true); err != nil {
		t.Fatal(err)
	}
	text := read(t, file)
	for _, part := range []string{`{ "other": [1,  2],`, "{\"command\": \"x\",   \"icon\": 1}", `"two": {"url":"https://example.com/mcp?a=1&b=2"}`, `}, "last": {} }`} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %s", part, text)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := mcp.Add(file, "two", mcp.NewEntry{Command: "x"}, true); !errors.Is(err, mcp.ErrExists) {
		t.Errorf("a second one: %v", err)
	}
	if err := mcp.Remove(file, "two"); err != nil {
		t.Fatal(err)
	}
	if err := mcp.Remove(file, "two"); !errors.Is(err, mcp.ErrUnknown) {
		t.Errorf("removed twice: %v", err)
	}
	if err := mcp.Remove(file, "old"); err != nil || !strings.Contains(read(t, file), `"mcpServers" : {}, "last"`) {
		t.Errorf("%v: %s", err, read(t, file))
	}
	for name, e := range map[string]mcp.NewEntry{"empty": {}, "ftp": {URL: "ftp://x"}, strings.Repeat("x", 300): {Command: "x"}} {
		if err := mcp.Add(file, name, e, false); err == nil {
			t.Errorf("%.10s was added", name)
		}
	}
	if err := os.WriteFile(file, []byte(`{"mcpServers": [`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mcp.Add(file, "x", mcp.NewEntry{Command: "x"}, false); err == nil || read(t, file) != `{"mcpServers": [` {
		t.Errorf("a broken file was changed: %v", err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func FuzzAdd(f *testing.F) {
	for _, text := range []string{"{}", `{"a": 1}`, ` {"mcpServers":{"x":{"command":"y"}},"b":[]} `, `{"mcpServers":{}}`} {
		f.Add(text, "name")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		file := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if mcp.Add(file, name, mcp.NewEntry{Command: "x"}, false) != nil {
			return
		}
		var was, is map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &was) != nil || json.Unmarshal([]byte(read(t, file)), &is) != nil {
			t.Fatalf("%q became %q", text, read(t, file))
		}
		for key := range was {
			if _, ok := is[key]; !ok {
				t.Errorf("%q is gone from %q", key, read(t, file))
			}
		}
		if servers, _, err := mcp.Read(file, false, os.Getenv); err != nil || servers[len(servers)-1].Command != "x" {
			t.Errorf("%v %v", servers, err)
		}
	})
}
