//go:build system && linux

package models_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"

	"gopkg.in/dnaeon/go-vcr.v4/pkg/cassette"
)

// TestImageReachesModelNotEvents has an agent read a picture over both wires, against a server that
// nobody here wrote; then once more out of the recording.
func TestImageReachesModelNotEvents(t *testing.T) {
	mock := startAimock(t, `{"fixtures": [
		{"match": {"userMessage": "what does it show", "hasToolResult": false}, "response": {"toolCalls": [{"name": "Read", "arguments": {"file_path": "shot"}}, {"name": "Glob", "arguments": {"pattern": "*"}}]}},
		{"match": {"userMessage": "What Read shows"}, "response": {"content": "A grey square."}},
		{"match": {"userMessage": "what does it show", "hasToolResult": true}, "response": {"content": "A grey square."}}
	]}`)
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 40, 40))); err != nil {
		t.Fatal(err)
	}
	data := base64.StdEncoding.EncodeToString(file.Bytes())
	for _, c := range []struct{ model, env, want string }{
		{"openai:gpt-4o", "OPENAI", `"url":"data:image/png;base64,` + data + `"`},
		{"anthropic:claude-sonnet-4-5", "ANTHROPIC", `"data":"` + data + `"`},
	} {
		t.Run(c.env, func(t *testing.T) {
			dir, recording := t.TempDir(), filepath.Join(t.TempDir(), "recording")
			if err := os.WriteFile(filepath.Join(dir, "shot"), file.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			run := func(args ...string) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "symbio", append([]string{"run", "--json", "--no-mdns", "--yes-to", "Read", "--yes-to", "Glob"}, args...)...)
				cmd.Dir = dir
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=" + os.Getenv("GORACE"), "HOME=" + dir, "XDG_STATE_HOME=" + symbiotest.ShortDir(t), "XDG_CONFIG_HOME=" + dir, c.env + "_BASE_URL=" + mock.BaseURL, c.env + "_API_KEY=the-key-of-this-test"}
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "A grey square.") || !strings.Contains(string(out), "shot is a picture: image/png, 40 x 40 pixels") {
					t.Fatalf("%v\n%s", err, out)
				}
				if strings.Contains(string(out), data[:40]) {
					t.Errorf("the events have the bytes of the picture:\n%s", out)
				}
			}
			before := len(mock.Journal())
			run("--model", c.model, "--record", recording, "what does it show?")
			asked := mock.Journal()[before:]
			if len(asked) != 2 {
				t.Fatalf("%d requests, want 2", len(asked))
			}
			kept, err := cassette.Load(filepath.Join(recording, "exchanges"))
			if err != nil || len(kept.Interactions) != 2 || !strings.Contains(kept.Interactions[1].Request.Body, c.want) {
				t.Errorf("kept %+v, %v; want the picture in the second request", kept, err)
			}
			run("--replay", recording, "what does it show?")
			if now := len(mock.Journal()) - before; now != 2 {
				t.Errorf("the server was asked %d times, want 2: a replay asks nobody", now)
			}
		})
	}
}
