package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool/builtin"
	"symbio/internal/agent/session/undo"
	"symbio/security/permission"
)

// desk is an agent in a directory with the file a, which can live again.
type desk struct {
	t     *testing.T
	file  string
	store session.Store
	info  session.Info
}

func newDesk(t *testing.T) *desk {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, file: filepath.Join(dir, "a"), store: inMemory(t)}
	d.write("one two three\n")
	return d
}

func (d *desk) write(content string) {
	d.t.Helper()
	if err := os.WriteFile(d.file, []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// life is a life of the agent in which it makes the calls, one after the other. It returns their results.
func (d *desk) life(calls ...llm.ToolCall) (results []string) {
	d.t.Helper()
	model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
		if m := last(r); m.Role == llm.Tool {
			results = append(results, m.Results[0].Text)
		}
		if len(results) < len(calls) {
			return call(calls[len(results)])
		}
		return say("done")
	})
	files, err := builtin.New(builtin.Config{Dir: filepath.Dir(d.file)})
	if err != nil {
		d.t.Fatal(err)
	}
	h, j := newHouse(d.t, model), session.NewJournal(d.store, "n")
	h.factory = agent.NewFactory(agent.Config{
		Community: h.community, Dir: filepath.Dir(d.file), Tools: files.Tools(), Journal: j,
		Model: func(context.Context, string) (llm.Model, error) { return model, nil },
	})
	m := h.spawn(agent.Order{Definition: definition.General(), Policy: permission.Permissive(), Session: d.info})
	text, err := h.task(m, "go")
	d.info = h.factory.Session(m.ID)
	if err := errors.Join(err, h.community.Terminate(d.t.Context(), m.ID), files.Close()); err != nil || text != "done" {
		d.t.Fatalf("%q, %v", text, err)
	}
	return results
}

func (d *desk) read() llm.ToolCall { return use("r", "Read", map[string]any{"file_path": d.file}) }

func (d *desk) edit(old, fresh string) llm.ToolCall {
	return use("e", "Edit", map[string]any{"file_path": d.file, "old_string": old, "new_string": fresh})
}

func (d *desk) overwrite() llm.ToolCall {
	return use("w", "Write", map[string]any{"file_path": d.file, "content": "all new\n"})
}

// What an agent has read it knows after a restart, too, as long as the file is as it knows it.
func TestFilesAreKnownAfterRestart(t *testing.T) {
	for name, c := range map[string]struct {
		first   func(d *desk) []llm.ToolCall
		between func(d *desk)
		second  func(d *desk) llm.ToolCall
		want    string
	}{
		"read": {func(d *desk) []llm.ToolCall { return []llm.ToolCall{d.read()} }, nil, func(d *desk) llm.ToolCall { return d.edit("two", "2") }, "Edited"},
		"changed": {func(d *desk) []llm.ToolCall { return []llm.ToolCall{d.read()} }, func(d *desk) { d.write("two\n") },
			func(d *desk) llm.ToolCall { return d.edit("two", "2") }, "changed"},
		"edited": {func(d *desk) []llm.ToolCall { return []llm.ToolCall{d.read(), d.edit("one", "1")} }, nil,
			func(d *desk) llm.ToolCall { return d.edit("two", "2") }, "Edited"},
		"undone, edited": {func(d *desk) []llm.ToolCall { return []llm.ToolCall{d.read(), d.edit("one", "1")} }, (*desk).undo,
			func(d *desk) llm.ToolCall { return d.edit("two", "2") }, "changed"},
		"undone, written": {func(d *desk) []llm.ToolCall { return []llm.ToolCall{d.read(), d.overwrite()} }, (*desk).undo,
			func(d *desk) llm.ToolCall { return d.overwrite() }, "changed"},
		"never read": {func(d *desk) []llm.ToolCall { return nil }, nil, func(d *desk) llm.ToolCall { return d.edit("two", "2") }, "has not been read yet"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				d.life(c.first(d)...)
				if c.between != nil {
					c.between(d)
				}
				if got := d.life(c.second(d)); !strings.Contains(got[0], c.want) {
					t.Errorf("the model reads %q, want %q", got[0], c.want)
				}
				if c.want != "changed" {
					return
				}
				if got := d.life(d.read(), d.overwrite()); !strings.Contains(got[1], "Replaced") {
					t.Errorf("after it was read: %q", got[1])
				}
			})
		})
	}
}

// undo puts the file back as it was.
func (d *desk) undo() {
	d.t.Helper()
	p, err := undo.New(d.t.Context(), d.store, d.info.ID, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	if done, err := p.Apply(); done != 1 || err != nil {
		d.t.Fatalf("%d files were put back, %v", done, err)
	}
}
