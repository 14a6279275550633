package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"symbio/agent"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/internal/security/permission/file"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// ActionTool is the name of the tool by which a program asks whether it may do something that no tool of this node does.
const ActionTool = "GuestAction"

type actionArgs struct {
	Action string `json:"action" jsonschema:"The action, in the program's words."`
	Kind   string `json:"kind,omitempty" jsonschema:"Its kind, as the program says."`
	Input  any    `json:"input,omitempty" jsonschema:"The input of its tool."`
}

var (
	actionKind = tool.NewKind[actionArgs](tool.Spec{Name: ActionTool, Description: "The program asks whether it may do something by a tool of its own."})
	stepKind   = tool.NewKind[actionArgs](tool.Spec{Name: agent.StepTool, Description: "The program does something by a tool of its own.", ReadOnly: true})
)

// Tools returns the tools of a guest: those in all, which also do what its program asks for, ActionTool and agent.StepTool.
func (g *Guest) Tools(all []tool.Tool) []tool.Tool {
	gone := func(context.Context, actionArgs) tool.Result {
		return tool.Result{Text: "the program that asked for it has ended", IsError: true}
	}
	out := []tool.Tool{askTool{actionKind.New(gone), g}, askTool{stepKind.New(gone), g}}
	for _, t := range all {
		if slices.Contains([]string{"Bash", "Read", "Write", "Edit", "WebFetch"}, t.Spec().Name) {
			t = askTool{t, g}
		}
		out = append(out, t)
	}
	return out
}

// askTool is a tool that also serves the asks of a guest.
type askTool struct {
	tool.Tool
	guest *Guest
}

// Decode decodes a call of the tool, or finds the ask of a call.
func (h askTool) Decode(raw json.RawMessage) (tool.Invocation, error) {
	var marked struct {
		Key string `json:"guest_call"`
	}
	if json.Unmarshal(raw, &marked) != nil || marked.Key == "" {
		return h.Tool.Decode(raw)
	}
	h.guest.mu.Lock()
	a := h.guest.asks[marked.Key]
	h.guest.mu.Unlock()
	if a == nil || a.decode == nil || a.tool != h.Spec().Name {
		return tool.Invocation{}, errors.New("the program that asked for it no longer waits")
	}
	inv, err := a.decode(h.Tool)
	if err != nil {
		return inv, err
	}
	run := inv.Run
	inv.Run = func(ctx context.Context) tool.Result {
		r := run(ctx)
		a.settle(outcome{r.Text, r.IsError})
		return r
	}
	return inv, nil
}

// hasBox reports that the program runs in a box that writes the workspace, and in no narrower one.
func hasBox(_ context.Context, b permission.Box) bool { return b == permission.BoxWork }

// keeps reports that the denied files are kept from the program: Host sees to that, or refuses to start it.
func keeps(context.Context, *permission.FileDenials) bool { return true }

// args are the arguments of the call that shows it.
func (t report) args() map[string]any {
	return map[string]any{"action": t.title, "kind": string(t.kind), "input": t.input}
}

// call returns the call that shows that it has begun.
func (t report) call() *llm.ToolCall {
	raw, err := json.Marshal(t.args())
	if err != nil || len(raw) > maxRequest {
		raw = []byte("{}")
	}
	return &llm.ToolCall{ID: t.key, Name: agent.StepTool, Args: raw}
}

// step returns the ask that notes a call of the program's own tools.
func (t report) step() *ask {
	if t.bytes > maxRequest {
		t.input, t.content = nil, nil
	}
	args := t.args()
	return &ask{key: t.key, tool: agent.StepTool, args: args, decode: func(tool.Tool) (tool.Invocation, error) {
		return tool.Invocation{Args: args, ReadOnly: true, Run: func(context.Context) tool.Result {
			r := tool.Result{Text: t.said(), IsError: t.failed}
			if paths := t.paths(); len(paths) > 0 {
				r.Change = t.change(map[string]any{"file_path": paths[0]})
			}
			return r
		}}, nil
	}}
}

// maxFile is the longest file that a program may read by its client, in bytes.
const maxFile = 4 << 20

// readText reads a file of the workspace, for the program. No link leads out of the workspace, and a link inside leads only
// to what the call's guard would allow.
func readText(ctx context.Context, path string, constrain func(sandbox.Policy) sandbox.Policy) (string, error) {
	dir := tool.Dir(ctx)
	rel := path
	if filepath.IsAbs(path) {
		var err error
		if rel, err = filepath.Rel(dir, path); err != nil {
			return "", err
		}
	}
	if !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s is outside of the working directory %s", path, dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, info, err := builtin.OpenRegular(root, rel) // to open a pipe would block
	if err != nil {
		return "", err
	}
	defer f.Close()
	real, err := filepath.EvalSymlinks(filepath.Join(dir, rel))
	if err != nil {
		return "", err
	}
	led, err := os.Lstat(real)
	switch {
	case err != nil:
		return "", err
	case !os.SameFile(info, led):
		return "", fmt.Errorf("%s was replaced", path)
	case !tool.MayFollowLink(ctx, real):
		return "", fmt.Errorf("%s leads to a file that may not be read", path)
	case file.HasNames(info) && isOneOf(info, constrain(sandbox.Policy{}).Files.Denied.Hidden):
		return "", fmt.Errorf("%s is another name of a file that may not be read", path)
	case info.Size() > maxFile:
		return "", fmt.Errorf("%s is longer than %d MiB", path, maxFile>>20)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	return string(text), err
}

// mayWrite returns why a program may not write a file of dir although a person allowed that; nil if it may. By its client it writes
// no more than in its box: no file by which it would give orders to other programs, and none that is denied to it.
func mayWrite(path, dir string, constrain func(sandbox.Policy) sandbox.Policy) error {
	if name := new(file.Links).Locate(path, dir).Protected(); name != "" {
		return fmt.Errorf("%s is not written by an agent that is another program, because other programs obey %s", path, name)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	denied := constrain(sandbox.Policy{}).Files.Denied
	if info, err := os.Stat(path); err == nil && isOneOf(info, slices.Concat(denied.Hidden, denied.ReadOnly)) {
		return fmt.Errorf("%s is denied", path)
	}
	return nil
}

// isOneOf reports whether a file is one of paths.
func isOneOf(info os.FileInfo, paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		one, err := os.Stat(path)
		return err == nil && os.SameFile(one, info)
	})
}

// linesOf returns count lines of a text from the line first on, counted from 1; 0 = all.
func linesOf(text string, first, count int) string {
	if first <= 1 && count <= 0 {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	lines = lines[min(max(first-1, 0), len(lines)):]
	if count > 0 {
		lines = lines[:min(count, len(lines))]
	}
	return strings.Join(lines, "")
}
