package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/coder/acp-go-sdk"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
)

// maxAsks is how many wants of a program by MCP wait at a time, and maxPaths for how many files it may ask at once.
const maxAsks, maxPaths = 64, 8

// ask is something that a program wants and that becomes a call of its agent.
type ask struct {
	key  string // in Guest.asks
	tool string
	args map[string]any
	// decode makes the invocation with the tool of that name, whose own it replaces; nil = it is the tool's own.
	decode func(real tool.Tool) (tool.Invocation, error)
	call   string // the id of its call; "" = no answer has it yet; guarded by Guest.mu
	done   chan outcome
}

// outcome is the end of an ask.
type outcome struct {
	text   string
	failed bool
}

// settle gives an ask its outcome; only the first counts.
func (a *ask) settle(o outcome) {
	select {
	case a.done <- o:
	default:
	}
}

// enlist makes an ask that the agent's tools find by its key, until it is removed or has its outcome.
func (g *Guest) enlist(a *ask) *ask {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.key == "" {
		g.count++
		a.key = fmt.Sprintf("g%d", g.count)
	}
	a.done = make(chan outcome, 1)
	g.asks[a.key] = a
	return a
}

// remove removes an ask that becomes no call.
func (g *Guest) remove(a *ask) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.asks, a.key)
}

// callKey is the argument by which a tool finds the ask of a call.
const callKey = "guest_call"

// callOf returns the call of an ask, with an id that the conversation does not have yet.
func (g *Guest) callOf(a *ask, ids *llm.CallIDs) llm.ToolCall {
	g.mu.Lock()
	a.call = ids.Reserve(a.key)
	g.mu.Unlock()
	raw, err := json.Marshal(a.args)
	if err != nil {
		raw = []byte("{}") // cannot happen: they were JSON
	}
	if a.decode != nil { // behind the arguments, which people read
		raw = fmt.Appendf(raw[:len(raw)-1], `,%q:%q}`, callKey, a.key)
	}
	return llm.ToolCall{ID: a.call, Name: a.tool, Args: raw}
}

// put puts an item into the answer. It returns false if no prompt runs or too much waits already.
func (p *program) put(it item) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.working {
		return false
	}
	select {
	case p.items <- it:
		return true
	default:
		return false
	}
}

// want makes asks calls of the agent, and blocks until all have their outcome or the program has ended.
func (p *program) want(ctx context.Context, asks ...*ask) (all []outcome, err error) {
	for _, a := range asks {
		if it := (item{ask: p.guest.enlist(a)}); !p.put(it) {
			p.drop(it, "No task runs.")
		}
	}
	for _, a := range asks {
		select {
		case o := <-a.done:
			all = append(all, o)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.conn.Done():
			return nil, errEnded
		}
	}
	return all, nil
}

// permission asks for what the program wants to do itself.
func (p *program) permission(ctx context.Context, r acp.RequestPermissionRequest, bytes int) acp.RequestPermissionResponse {
	t := p.reports.known(r.ToolCall, bytes)
	allowed := p.guest.isOwnTool(t.title) // its call is judged when it comes
	if t.begins && !allowed {
		p.put(item{begun: t.call()})
	}
	if !allowed {
		all, err := p.want(ctx, p.guest.permissions(t)...)
		allowed = err == nil
		for _, o := range all {
			allowed = allowed && !o.failed
		}
	}
	want := []acp.PermissionOptionKind{acp.PermissionOptionKindRejectOnce, acp.PermissionOptionKindRejectAlways}
	if allowed { // once, so that the rules decide again the next time
		want = []acp.PermissionOptionKind{acp.PermissionOptionKindAllowOnce, acp.PermissionOptionKindAllowAlways}
	}
	for _, kind := range want {
		for _, o := range r.Options {
			if o.Kind == kind {
				return acp.RequestPermissionResponse{Outcome: acp.RequestPermissionOutcome{
					Selected: &acp.RequestPermissionOutcomeSelected{Outcome: "selected", OptionId: o.OptionId}}}
			}
		}
	}
	return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeCancelled()}
}

// isOwnTool reports whether the title of a call is the name of a tool that the program has by MCP from this node.
func (g *Guest) isOwnTool(title string) bool {
	for _, prefix := range []string{"symbio_", "mcp__symbio__", "symbio:"} {
		if name, cut := strings.CutPrefix(title, prefix); cut {
			for _, t := range g.served() {
				if t.Name == name {
					return true
				}
			}
		}
	}
	return false
}

// permissions returns the asks of a permission: as the tools of this node by which an agent of ours would do the same, so that
// the same rules decide. They do nothing: the program does it, in its own box.
func (g *Guest) permissions(t report) (all []*ask) {
	one := func(name string, args map[string]any) *ask {
		return &ask{tool: name, args: args, decode: func(real tool.Tool) (tool.Invocation, error) { return t.permission(g, real, name, args), nil }}
	}
	switch paths := t.paths(); {
	case t.text("command") != "": // whatever its kind: some programs ask for a part of a command, such as a directory
		return []*ask{one("Bash", map[string]any{"command": t.text("command"), "access": "write"})}
	case t.text("url") != "":
		return []*ask{one("WebFetch", map[string]any{"url": t.text("url")})}
	case len(paths) == 0 || len(paths) > maxPaths:
	case t.kind == acp.ToolKindRead || t.kind == acp.ToolKindSearch:
		for _, path := range paths {
			all = append(all, one("Read", map[string]any{"file_path": path}))
		}
		return all
	case t.kind == acp.ToolKindEdit || t.kind == acp.ToolKindDelete || t.kind == acp.ToolKindMove:
		for _, path := range paths {
			all = append(all, one("Edit", map[string]any{"file_path": path}))
		}
		return all
	}
	return []*ask{one(ActionTool, map[string]any{"action": t.title, "kind": string(t.kind), "input": t.input})}
}

// permission returns a call that asks for what the program does itself.
func (t report) permission(g *Guest, real tool.Tool, name string, args map[string]any) tool.Invocation {
	inv := tool.Invocation{
		Args:      args,
		ReadOnly:  name == "Read",
		OnConsent: func(c *tool.Consent) { g.consents.add(c, t) },
		Run: func(context.Context) tool.Result {
			return tool.Result{Text: g.Name() + " may do it, and does it itself, in its own box.", Change: t.change(args)}
		},
	}
	switch name {
	case "Bash":
		inv.HasBox, inv.Keeps = hasBox, keeps
	case "Edit":
		inv.Preview = func(context.Context) tool.FileDiff { return t.change(args) }
	}
	return inv
}

// change returns the change that the program says it makes to the file of a call.
func (t report) change(args map[string]any) tool.FileDiff {
	path, _ := args["file_path"].(string)
	var all tool.FileDiff
	for _, c := range t.content {
		if c.Diff == nil || c.Diff.Path != path {
			continue
		}
		old := ""
		if c.Diff.OldText != nil {
			old = *c.Diff.OldText
		}
		all.File, all.Diff = path, all.Diff+builtin.Unified(path, path, []byte(old), []byte(c.Diff.NewText))
	}
	return all
}

// diff returns what the program says of the change of a file; nil = nothing. Of several changes of one file nothing is said.
func (t report) diff(path string) (one *acp.ToolCallContentDiff) {
	for _, c := range t.content {
		if c.Diff == nil || c.Diff.Path != path {
			continue
		}
		if one != nil {
			return nil
		}
		one = c.Diff
	}
	return one
}
