package mcp

import (
	"regexp"
	"strings"
	"testing"
)

func TestNamesOfToolsAreWhatModelsTake(t *testing.T) {
	long := strings.Repeat("a", 100)
	for _, c := range []struct{ server, tool, want string }{
		{"files", "read_file", "mcp__files__read_file"},
		{"my-server", "Do-It", "mcp__my-server__Do-It"},
		{"files", "read.file", "mcp__files__read_file_"},
		{"a__b", "c", "mcp__a_b_"},
		{"a_", "c", "mcp__a_"},
		{"ä\x1b[31m", "c", "mcp__"},
		{"", "", "mcp__x"},
		{long, long, "mcp__aaa"},
		{"s", "a\nb", "mcp__s__a_b_"},
	} {
		got := toolName(c.server, c.tool)
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%q %q: got %s, want %s…", c.server, c.tool, got, c.want)
		}
	}
	if a, b := toolName("s", "read.file"), toolName("s", "read_file"); a == b {
		t.Errorf("two tools are both called %s", a)
	}
	if a, b := ServerPart("a.b"), ServerPart("a_b"); a == b {
		t.Errorf("two servers are both called %s", a)
	}
}

var allowed = regexp.MustCompile(`^mcp__[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*__[A-Za-z0-9_-]+$`)

func FuzzNames(f *testing.F) {
	f.Add("files", "read", "fi.les")
	f.Add("a__b", "_", "a_b")
	f.Add("__", "__", "")
	f.Fuzz(func(t *testing.T, server, tool, other string) {
		name := toolName(server, tool)
		if len(name) > maxName || !allowed.MatchString(name) {
			t.Errorf("%q %q: got %q", server, tool, name)
		}
		// What a rule for the server sees is the server, whatever the tool is called.
		if part, _, _ := strings.Cut(strings.TrimPrefix(name, "mcp__"), "__"); part != ServerPart(server) {
			t.Errorf("%q %q: %q is of the server %q, want %q", server, tool, name, part, ServerPart(server))
		}
		if server != other && ServerPart(server) == ServerPart(other) && !strings.HasSuffix(server, ServerPart(other)) &&
			!strings.HasSuffix(other, ServerPart(server)) {
			t.Errorf("%q and %q are both %q", server, other, ServerPart(server))
		}
	})
}
