//go:build unix

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/tool/builtin"
	"symbio/community"
	"symbio/security/permission"
)

// attachDesk is a directory with files of all kinds, an agent that works in it, and what its model was shown.
type attachDesk struct {
	*house
	dir    string
	member community.Member
	shown  llm.Message                            // the last message of a user
	answer func(llm.Request) (llm.Message, error) // nil = it answers with a word
}

func newAttachDesk(t *testing.T) *attachDesk {
	parent, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &attachDesk{dir: filepath.Join(parent, "work")}
	var picture bytes.Buffer
	err = errors.Join(png.Encode(&picture, image.NewGray(image.Rect(0, 0, 2, 2))), os.MkdirAll(filepath.Join(d.dir, "folder"), 0o700))
	for name, text := range map[string]string{
		"a.txt": "one\ntwo\n", "b c.txt": "spaced\n", ".env": "KEY=secret\n", "asked.md": "secret\n", "../x": "secret\n",
		"big.txt": strings.Repeat("a long line of words\n", 9000), "pic.png": picture.String(), "bin": "\x00\x01secret",
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600))
	}
	err = errors.Join(err, syscall.Mkfifo(filepath.Join(d.dir, "pipe"), 0o600),
		os.Symlink("../x", filepath.Join(d.dir, "out")), os.Symlink(".env", filepath.Join(d.dir, "link")), os.Symlink("asked.md", filepath.Join(d.dir, "toasked")))
	files, openErr := builtin.New(builtin.Config{Dir: d.dir})
	if err = errors.Join(err, openErr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
		for _, m := range r.Messages {
			if m.Role == llm.User {
				d.shown = m
			}
		}
		if d.answer != nil {
			return d.answer(r)
		}
		return say("seen")
	})
	d.house = newHouse(t, model)
	d.factory = agent.NewFactory(agent.Config{
		Community: d.community, Dir: d.dir, Tools: files.Tools(), Record: d.keep,
		Model:  func(context.Context, string) (llm.Model, error) { return model, nil },
		Report: func(e event.Event) { d.mu.Lock(); defer d.mu.Unlock(); d.events = append(d.events, e) },
	})
	policy := allowed(t, "Read(*.txt)", "Read(x*)", "Read(*.png)", "Read(bin)", "Read(pipe)", "Read(out)", "Read(link)", "Read(toasked)", "Read(../x)", "Edit")
	policy.Deny, policy.Default = allowed(t, "Read(.env)").Allow, permission.Ask
	d.member = d.spawn(agent.Order{Definition: definition.General(), Policy: policy})
	return d
}

// send gives the agent a task, and returns what the model was shown of it behind the person's text.
func (d *attachDesk) send(text string) string {
	d.t.Helper()
	if _, err := d.task(d.member, text); err != nil {
		d.t.Fatal(err)
	}
	_, more, _ := strings.Cut(d.shown.Text, text)
	return strings.TrimSpace(more)
}

// notices are the notices of all events.
func (d *attachDesk) notices() (all string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Type == event.TypeNotice {
			all += e.Text + "\n"
		}
	}
	return all
}

func TestFilesThatAMessageNamesAreAttached(t *testing.T) {
	d := newAttachDesk(t)
	for text, want := range map[string]string{ // "" = nothing, "-" = it is said that it is left out
		"look at @a.txt, please": "     1\tone\n     2\ttwo",
		"(@a.txt)":               "     1\tone",
		`@"b c.txt"?`:            "spaced",
		"@./folder/../a.txt":     "     1\tone",
		"@big.txt":               "To go on, read with offset",
		"@.env":                  "-",
		"@link":                  "-",
		"@asked.md":              "-",
		"@toasked":               "-",
		"@../x":                  "-",
		"@out":                   "-",
		"@bin":                   "-",
		"@/etc/passwd":           "-",
		"@pipe @folder @folder/ @/dev/null @. @.. @/ @ @@": "",
		"@nobody said so to me@a.txt":                      "",
		"`@a.txt`\n```\n@.env @a.txt\n```":                 "",
		"@~/no-such-file @~ @~/":                           "",
		strings.Repeat("@word @types/node ", 100):          "",
	} {
		before := d.notices()
		got, said := d.send(text), strings.TrimPrefix(d.notices(), before)
		switch {
		case strings.Contains(got, "secret"):
			t.Errorf("%q: %q", text, got)
		case want == "" || want == "-":
			if left := strings.Contains(got, "not attached"); left != (want == "-") || left != strings.Contains(said, "not attached") || want == "" && got != "" {
				t.Errorf("%q: the model was shown %q, the person was told %q", text, got, said)
			}
		case !strings.Contains(got, want) || said != "":
			t.Errorf("%q: the model was shown %.200q, the person was told %q", text, got, said)
		case len(got) > 70_000:
			t.Errorf("%q: %d bytes", text, len(got))
		}
	}
	if got := d.send("@pic.png"); len(d.shown.Images) != 1 || !strings.Contains(got, "is a picture") {
		t.Errorf("of a picture it was shown %q and %d images", got, len(d.shown.Images))
	}
}

func TestAttachedFilesAreBounded(t *testing.T) {
	d := newAttachDesk(t)
	var text string
	for n := range 100 {
		name := strings.Repeat("x", n+1)
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(strings.Repeat("y", 2000)), 0o600); err != nil {
			t.Fatal(err)
		}
		text += " @" + name
	}
	if got := d.send(text); strings.Count(got, "The message names") != 16 || !strings.Contains(got, "more files: not attached to the message: at most 16 are") || len(got) > 70_000 {
		t.Errorf("%d bytes: %.300s", len(got), got)
	}
	if got := d.send("@big.txt @big.txt @" + strings.Repeat("x", 5) + " @link"); len(got) > 70_000 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestAttachedFileMayBeEdited(t *testing.T) {
	d := newAttachDesk(t)
	var result string
	d.answer = func(r llm.Request) (llm.Message, error) {
		if m := last(r); m.Role == llm.Tool {
			result = m.Results[0].Text
			return say("done")
		}
		return call(use("e", "Edit", map[string]any{"file_path": "a.txt", "old_string": "one", "new_string": "three"}))
	}
	d.send("in @a.txt write three")
	if text, err := os.ReadFile(filepath.Join(d.dir, "a.txt")); err != nil || string(text) != "three\ntwo\n" {
		t.Errorf("it has %q, %v: %s", text, err, result)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var calls []string
	for _, e := range d.events {
		if e.Type == event.TypeToolCall || e.Type == event.TypeToolResult || e.Type == event.TypeDecision {
			calls = append(calls, e.Type+" "+e.ToolName())
		}
	}
	if len(calls) != 6 || calls[0] != "tool_call Read" || !strings.HasSuffix(calls[1], " Read") {
		t.Errorf("the events are %q", calls)
	}
}

// What a person says meanwhile is a message, too; what an agent or another node says is data.
func TestFilesAreAttachedToWhatAPersonSaysMeanwhile(t *testing.T) {
	for _, byPerson := range []bool{true, false} {
		d := newAttachDesk(t)
		steer := func() (err error) {
			if byPerson {
				_, err = d.factory.SteerWith(t.Context(), d.member.ID, conversation.Steering{Text: "see @a.txt and @pic.png", Keep: true})
			} else {
				_, err = d.factory.SteerFrom(t.Context(), d.member.ID, "see @a.txt and @pic.png", community.Signal{Requester: []string{"node"}})
			}
			return err
		}
		if err := steer(); err != nil {
			t.Fatal(err)
		}
		d.send("go")
		if got := strings.Contains(d.shown.Text, "     1\tone"); got != byPerson || len(d.shown.Images) > 0 != byPerson {
			t.Errorf("by a person %v: it was shown %q and %d images", byPerson, d.shown.Text, len(d.shown.Images))
		}
		if _, err := d.community.Send(t.Context(), d.member.ID, community.Signal{Perception: "task", Data: []byte("@a.txt"), Requester: []string{"node"}}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(d.shown.Text, "Read shows") {
			t.Errorf("a node's text attached %q", d.shown.Text)
		}
	}
}
