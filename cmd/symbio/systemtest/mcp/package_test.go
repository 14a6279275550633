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

// registry is one of npm's with one package, its version, and what it needs. Each has a script that npm would run. At /ran it
// is told that a stranger's code ran.
func registry(t *testing.T, version *atomic.Value, dependencies map[string]string) string {
	t.Helper()
	manifest := func() map[string]any {
		return map[string]any{
			"name": "@test/server", "version": version.Load(), "bin": map[string]string{"test-server": "server.js"},
			"dependencies": dependencies, "hasInstallScript": true, "scripts": map[string]string{"preinstall": "touch ran", "install": "touch ran", "postinstall": "touch ran"},
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
		if r.URL.Path == "/ran" {
			t.Error("code of a package ran before the yes")
		}
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
	if err := os.WriteFile(filepath.Join(work, ".npmrc"), []byte("registry="+registry(t, &version, nil)+"\nignore-scripts=false\n"), 0o600); err != nil {
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
			t.Skip("it needs the sandbox of Linux: user namespaces or root, see symbio doctor")
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

// npm runs another npm in a package that it clones, and that one reads the configuration of the package.
func TestGitDependencyRunsNothingBeforeYes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"npm", "node", "git"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("it resolves with npm and Git: %v", err)
		}
	}
	var version atomic.Value
	version.Store("1.0.0")
	work, repo := t.TempDir(), t.TempDir()
	url := "git+file://" + repo
	there := registry(t, &version, map[string]string{"gitdep": url})
	for file, text := range map[string]string{
		"repo/package.json":       `{"name": "gitdep", "version": "1.0.0", "bundleDependencies": ["inner"], "scripts": {"prepare": "./evil"}, "dependencies": {"inner": "` + url + `"}}`,
		"repo/.npmrc":             "git=./evil\n",
		"repo/evil":               "#!/bin/sh\nnode -e 'fetch(\"" + there + "/ran\")'\n",
		"work/.npmrc":             "registry=" + there + "\n",
		"work/symbio/symbio.yaml": "sandbox: {preset: off}\n",
	} {
		dir, name, _ := strings.Cut(file, "/")
		at := filepath.Join(map[string]string{"repo": repo, "work": work}[dir], name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"}} {
		c := exec.CommandContext(t.Context(), "git", args...)
		if c.Dir = repo; c.Run() != nil {
			t.Fatalf("git %q failed", args)
		}
	}
	for _, args := range [][]string{{"add", "test", "--", "npx", "@test/server"}, {"update", "test"}} {
		c := exec.CommandContext(t.Context(), "symbio", append([]string{"mcp"}, args...)...)
		c.Dir, c.Env = work, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + work, "XDG_STATE_HOME=" + work, "XDG_CONFIG_HOME=" + work}
		said, err := c.CombinedOutput()
		if args[0] == "update" && (err == nil || !bytes.Contains(said, []byte("npm install failed")) && !bytes.Contains(said, []byte("level none"))) {
			t.Errorf("got %v, %s", err, said)
		}
	}
}
