package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func environment(name string) string {
	return map[string]string{"TOKEN": "t0k", "NESTED": "${TOKEN}"}[name]
}

func TestEntryIsReadWithItsVariables(t *testing.T) {
	const text = `{
  "$schema": "x",
  "mcpServers": {
    "files": {"command": "npx", "args": ["-y", "${NONE:-pkg}", "$TOKEN", "${bad name}"], "env": {"A": "${TOKEN}", "B": "${NESTED}"},
      "timeout": 1500, "alwaysAllow": ["*"]},
    "web": {"type": "streamable-http", "url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
  }
}`
	servers, notes, err := parse("f.json", []byte(text), false, environment)
	if err != nil {
		t.Fatal(err)
	}
	wantNotes := []string{
		`f.json:2: the key "$schema" is not known, and not used`,
		`f.json:4: server "files": the key "alwaysAllow" is not known, and not used`,
	}
	if diff := cmp.Diff(wantNotes, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if len(servers) != 2 {
		t.Fatalf("got %d servers, want 2", len(servers))
	}
	f, w := servers[0], servers[1]
	if diff := cmp.Diff([]string{"-y", "pkg", "$TOKEN", "${bad name}"}, f.Args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
	if f.Type != Stdio || f.Line != 4 || f.Env["A"] != "t0k" || f.Env["B"] != "${TOKEN}" || f.Timeout.Milliseconds() != 1500 ||
		f.Problem != "" {
		t.Errorf("got %+v", f)
	}
	if w.Type != HTTP || w.Line != 6 || w.Headers["Authorization"] != "Bearer t0k" || w.Problem != "" {
		t.Errorf("got %+v", w)
	}
	if strings.Contains(w.Text, "t0k") {
		t.Error("the text that a person is shown has the value of a variable in it")
	}
}

func TestFilesOfOtherProgramsAreRead(t *testing.T) {
	const text = `{ // what it is for
  "mcpServers": {
    /* two
       lines, */ "a": {"command": "x", "args": ["http://y//z", "\"/*no*/", "b",], "env": {"PORT": 8080, "ON": true, "BIG": 12345678901234567890, "T": "${TOKEN}"},},
    "b": {"httpUrl": "http://b/x", "headers": {"N": 1}}, // ,}
    "c": {"serverUrl": "http://c"},
    "d": {"command": "x", "env": {"L": []}},
  },
  "servers": {},
} // the end`
	servers, notes, err := parse("f", []byte(text), false, environment)
	if err != nil || len(servers) != 4 || len(notes) != 1 || !strings.Contains(notes[0], "f:9: the key \"servers\" is not used: call it mcpServers") {
		t.Fatal(servers, notes, err)
	}
	a := servers[0]
	if diff := cmp.Diff([]string{"http://y//z", `"/*no*/`, "b"}, a.Args); diff != "" || a.Line != 4 {
		t.Errorf("line %d, args (-want +got):\n%s", a.Line, diff)
	}
	if diff := cmp.Diff(map[string]string{"PORT": "8080", "ON": "true", "BIG": "12345678901234567890", "T": "t0k"}, a.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	if b, c := servers[1], servers[2]; b.Type != HTTP || b.URL != "http://b/x" || b.Headers["N"] != "1" || c.Type != HTTP ||
		c.URL != "http://c" || b.Problem+c.Problem != "" {
		t.Errorf("got %+v, %+v", b, c)
	}
	if !strings.Contains(servers[3].Problem, "L has to be a text") {
		t.Errorf("got %q", servers[3].Problem)
	}
	for _, wrong := range []string{`{"mcpServers": {},,}`, `{"mcpServers": {} /* }`, `{"mcpServers": {}} x // y`, `{"mcpServers": "`, `/`} {
		if _, _, err := parse("f", []byte(wrong), false, environment); err == nil {
			t.Errorf("%s is read", wrong)
		}
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Remove(file, "a"); err == nil || !strings.Contains(err.Error(), "has comments") {
		t.Errorf("a change that would lose comments: %v", err)
	}
}

func TestBrokenEntryHasItsProblem(t *testing.T) {
	for _, c := range []struct{ name, entry, want string }{
		{"no variable", `{"command": "x", "args": ["${ABSENT}"]}`, "ABSENT is not set"},
		{"no command", `{"type": "stdio"}`, "no command"},
		{"nothing", `{}`, "type"},
		{"a list", `[]`, "no JSON object"},
		{"args of another kind", `{"command": "x", "args": "y"}`, "args"},
		{"no url", `{"type": "http"}`, "url"},
		{"a url of another kind", `{"url": "file:///etc/passwd"}`, "url"},
		{"an unknown type", `{"type": "carrier-pigeon", "command": "x"}`, "carrier-pigeon"},
		{"a relative directory", `{"command": "x", "cwd": "y"}`, "absolute"},
		{"a project's own sandbox", `{"command": "x", "sandbox": {"preset": "off"}}`, "a project does not choose"},
	} {
		t.Run(c.name, func(t *testing.T) {
			servers, _, err := parse("f", []byte(`{"mcpServers": {"a": `+c.entry+`}}`), true, environment)
			if err != nil || len(servers) != 1 || !strings.Contains(servers[0].Problem, c.want) {
				t.Errorf("got %+v, %v, want a problem with %q", servers, err, c.want)
			}
		})
	}
}

func TestFileThatCannotBeReadNamesTheLine(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"{\n\"mcpServers\": {,}\n}", "f:2:"},
		{"{\"mcpServers\": {\n\"a\": {},\n\"a\": {}}}", "f:3:"},
		{"{\"mcpServers\": {},\n\"mcpServers\": {}}", "f:2:"},
		{"[]", "f:1:"},
		{"", "f:1:"},
	} {
		if _, _, err := parse("f", []byte(c.text), false, environment); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want an error with %q", c.text, err, c.want)
		}
	}
	if servers, _, err := Read(filepath.Join(t.TempDir(), "none"), false, environment); err != nil || servers != nil {
		t.Errorf("a file that is not there: got %v, %v", servers, err)
	}
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read(big, false, environment); err == nil {
		t.Error("a file that is too large was read")
	}
}

func TestEntrysHashIsOfItsPlaceItsNameAndItsText(t *testing.T) {
	hash := func(file, name, entry string) string {
		servers, _, err := parse(file, []byte(`{"mcpServers": {"`+name+`": `+entry+`}}`), true, environment)
		if err != nil {
			t.Fatal(err)
		}
		return servers[0].Hash
	}
	first := hash("f", "a", `{"command": "x"}`)
	for _, other := range []string{hash("g", "a", `{"command": "x"}`), hash("f", "b", `{"command": "x"}`),
		hash("f", "a", `{"command": "y"}`)} {
		if other == first {
			t.Error("another entry has the same hash")
		}
	}
	if hash("f", "a", `{"command": "x"}`) != first {
		t.Error("the same entry has another hash")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"mcpServers": {"a": {"command": "x", "args": ["${A:-b}"]}}}`))
	f.Add([]byte(`{"mcpServers": {"a": {"url": "http://${A}"}}, "b": [1]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		servers, _, err := parse("f", text, true, environment)
		for _, s := range servers {
			if err == nil && (s.Line < 1 || s.Hash == "") {
				t.Errorf("got %+v", s)
			}
		}
	})
}
