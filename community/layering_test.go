package community_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

// lines says which of our folders a folder may import, beside itself. The longest matching name
// counts; internal/agent/content counts as agent/content. When a better line is found, move
// it, and write why in community/design.
var lines = map[string][]string{
	"proto":                {},
	"actor":                {},
	"security":             {},
	"security/identity":    {"proto", "security/private", "security/passphrase"},
	"discovery":            {},
	"community":            {"actor", "security"},
	"community/waittest":   {}, // so that the tests of every package can import it
	"skills":               {"actor", "security/filename", "security/gitenv", "security/permission", "security/private", "security/visible"},
	"transport":            {"proto", "community", "discovery", "security/identity", "security/visible", "actor/term", "actor/backoff", "actor/awake"},
	"agent/content":        {"security/visible"},
	"agent/llm":            {"security", "actor/backoff"},
	"agent/tool":           {"agent/llm", "agent/event", "security", "skills", "community", "actor/backoff"},
	"agent/session":        {"agent/llm", "agent/budget", "security/visible"},
	"agent/session/sqlite": {"agent/session", "agent/event"},
	"agent/conversation":   {"agent/llm", "agent/event", "agent/session", "agent/tool", "community", "security/visible", "actor/term"},
	"agent":                {"agent/llm", "agent/tool", "community", "skills", "security", "actor"},
	"agent/node":           {"proto", "actor", "security", "discovery", "community", "skills", "transport", "agent"}, // it puts them together
	"cmd":                  {"proto", "actor", "security", "discovery", "community", "skills", "transport", "agent"},
}

// homes says which folders may use a library.
var homes = map[string][]string{
	"github.com/asynkron/protoactor-go": {"actor"},
	"filippo.io/age":                    {"security/passphrase"},
	"google.golang.org/grpc":            {"transport/grpcpeer", "proto", "agent/node", "cmd"}, // proto: generated stubs; node and cmd: the control socket
	"github.com/hashicorp/mdns":         {"discovery/mdns"},
	"github.com/coder/acp-go-sdk":       {"agent/guest", "cmd/symbio/internal/acpcmd"},
	"github.com/coder/websocket":        {"transport/websocket"},
	"github.com/hashicorp/memberlist":   {"transport/grpcpeer"},
	"github.com/segmentio/encoding":     {"community", "security/strictjson"}, // many times as fast as encoding/json; the MCP SDK brings it
	"github.com/miekg/dns":              {"discovery/mdns"},
	"github.com/spf13/cobra":            {"cmd"},
	"modernc.org/sqlite":                {"agent/session/sqlite"},
	"github.com/modelcontextprotocol":   {"agent/tool/mcp", "agent/guest", "cmd/symbio/internal/demo"}, // demo: the tour brings a server; guest: programs of agents have one
	"mvdan.cc/sh":                       {"security/permission"},
	"github.com/kljensen/snowball":      {"skills/search"},
	"go.opentelemetry.io":               {"agent/node/telemetry"},
	"github.com/prometheus":             {"agent/node/telemetry"},
	"charm.land":                        {"cmd/symbio/internal/tui", "cmd/symbio/internal/topcmd"},
}

func TestPackagesImportOnlyWhatTheirLayerMay(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Doc", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p struct {
			ImportPath, Doc string
			Imports         []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkg, ours := ourName(p.ImportPath)
		if !ours {
			continue
		}
		if p.Doc == "" {
			t.Errorf("%s has no package comment", pkg)
		}
		pkg = withoutInternal(pkg)
		folder := longest(pkg, func(name string) bool { _, ok := lines[name]; return ok })
		if folder == "" {
			t.Errorf("%s is in no layer", pkg)
			continue
		}
		for _, imp := range p.Imports {
			to, ours := ourName(imp)
			if to = withoutInternal(to); to == "security/lazyregexp" {
				continue // it imports nothing of ours
			}
			if ours && isForTests(to) && !isForTests(pkg) {
				t.Errorf("%s imports %s; only tests may, and packages for tests", pkg, to)
			} else if ours && !within(to, folder) && !slices.ContainsFunc(lines[folder], func(l string) bool { return within(to, l) }) {
				t.Errorf("%s imports %s; %s may import %v", pkg, to, folder, lines[folder])
			}
			for lib, at := range homes {
				if within(imp, lib) && !slices.ContainsFunc(at, func(h string) bool { return within(pkg, h) }) {
					t.Errorf("%s imports %s; only %v may", pkg, imp, at)
				}
			}
		}
	}
}

// ourName returns the path of a package below the module's root.
func ourName(importPath string) (string, bool) {
	return strings.CutPrefix(importPath, moduleName()+"/")
}

// withoutInternal returns the part of the system that a package belongs to: package internal/a/b is a part as package a/b
// is, that only our own module imports.
func withoutInternal(pkg string) string { return strings.TrimPrefix(pkg, "internal/") }

// moduleName returns the name in go.mod, which `make module` changes.
var moduleName = sync.OnceValue(func() string {
	text, _ := os.ReadFile("../go.mod") // without it no package is ours, and the tests say so
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, "module "))
})

// isForTests reports whether a package is for tests: the last word of its path ends in "test". It is no part of the
// product, which does not import it.
func isForTests(name string) bool { return strings.HasSuffix(path.Base(name), "test") }

// within says whether name is folder or below it.
func within(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}

func longest(name string, known func(string) bool) string {
	for ; name != "."; name = path.Dir(name) {
		if known(name) {
			return name
		}
	}
	return ""
}
