//go:build system && linux

package mcp_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

// server is an MCP server for node, with one tool that tells its version.
const server = `#!/usr/bin/env node
const version = require("./package.json").version;
const results = {
  "initialize": { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "s", version } },
  "tools/list": { tools: [{ name: "version", inputSchema: { type: "object" } }] },
  "tools/call": { content: [{ type: "text", text: version + " " + Object.keys(require("os").networkInterfaces()) }] },
};
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line);
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: results[method] }));
});
`

// registry is one of npm's with one package, and its version. Each has a script that npm would run.
func registry(t *testing.T, version *atomic.Value) string {
	t.Helper()
	manifest := func() map[string]any {
		return map[string]any{
			"name": "@test/server", "version": version.Load(), "bin": map[string]string{"test-server": "server.js"},
			"hasInstallScript": true, "scripts": map[string]string{"preinstall": "touch ran", "install": "touch ran", "postinstall": "touch ran"},
		}
	}
	archive := func() []byte {
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		pack := tar.NewWriter(zip)
		text, err := json.Marshal(manifest())
		if err != nil {
			t.Error(err)
		}
		for _, file := range [][2]string{{"package.json", string(text)}, {"server.js", server}} { // in one order, for one hash
			if err := pack.WriteHeader(&tar.Header{Name: "package/" + file[0], Mode: 0o755, Size: int64(len(file[1]))}); err != nil {
				t.Error(err)
			}
			if _, err := io.WriteString(pack, file[1]); err != nil {
				t.Error(err)
			}
		}
		if err := pack.Close(); err != nil {
			t.Error(err)
		}
		if err := zip.Close(); err != nil {
			t.Error(err)
		}
		return out.Bytes()
	}
	var packed atomic.Value
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			w.Write(packed.Load().([]byte))
			return
		}
		packed.Store(archive())
		sum := sha512.Sum512(packed.Load().([]byte))
		one := manifest()
		one["dist"] = map[string]any{"tarball": "http://" + r.Host + "/server.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
		v := version.Load().(string)
		json.NewEncoder(w).Encode(map[string]any{"name": one["name"], "dist-tags": map[string]string{"latest": v}, "versions": map[string]any{v: one}})
	}))
	t.Cleanup(there.Close)
	return there.URL
}

func TestPackageIsInstalledByNPMAndUpdated(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"npm", "node"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("it installs with npm: %v", err)
		}
	}
	var version atomic.Value
	version.Store("1.0.0")
	work, state := t.TempDir(), symbiotest.ShortDir(t)
	env := []string{"PATH=" + os.Getenv("PATH"), "GORACE=" + os.Getenv("GORACE"), "HOME=" + work, "XDG_STATE_HOME=" + state, "XDG_CONFIG_HOME=" + work}
	if err := os.WriteFile(filepath.Join(work, ".npmrc"), []byte("registry="+registry(t, &version)+"\nignore-scripts=false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	symbio := func(args ...string) (out, errs string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "symbio", args...)
		c.Dir, c.Env = work, env
		var both [2]strings.Builder
		c.Stdout, c.Stderr = &both[0], &both[1]
		_ = c.Run() // what it says is looked at
		return both[0].String(), both[1].String()
	}
	symbio("mcp", "add", "test", "--", "npx", "-y", "@test/server")
	for _, want := range []string{"1.0.0", "1.1.0"} {
		version.Store(want)
		_, said := symbio("mcp", "update", "test")
		_, hash, ok := strings.Cut(strings.TrimSpace(said), "--hash ")
		if strings.Contains(said, "level none") {
			t.Skip("this machine has no sandbox")
		}
		if !ok || !strings.Contains(said, "@test/server "+want) {
			t.Fatalf("%s: without a yes: %s", want, said)
		}
		hash, _, _ = strings.Cut(hash, "\n")
		if out, said := symbio("mcp", "update", "test", "--hash", hash); !strings.Contains(out, "@test/server\t"+want) {
			t.Fatalf("%s: got %s%s", want, out, said)
		}
		if out, said := symbio("mcp", "call", "test", "version"); out != want+" lo\n" && out != want+" \n" {
			t.Errorf("the server of %s: got %q, %s", want, out, said)
		}
	}
	ran, err := filepath.Glob(filepath.Join(state, "symbio", "packages", "*", "node_modules", "@test", "server", "ran"))
	if err != nil || len(ran) > 0 {
		t.Errorf("scripts of the package ran: %q, %v", ran, err)
	}
}
